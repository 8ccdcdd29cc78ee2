"""Words that people and programs rely on: a new one is a decision, and one that goes breaks somebody."""

import ast
import inspect
import re
import tomllib
from collections.abc import Callable, Iterator
from enum import StrEnum
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import cast

from controllers.scaler.budgets import BudgetReason
from controllers.scaler.workers.decision import Reason as WorkerReason
from ebbtide import program, provisioning_labels
from ebbtide.policies import RULES
from ebbtide.preview.dangers import KINDS
from ebbtide.vocabulary import labels
from tests.paths import ROOT
from tools.docs.metrics import exporter_metrics, metrics, workload_events, workload_metrics

_LIKE_A_CODE = re.compile(r'"([a-z-]+\.[a-z][a-z0-9-]*)"')
_NO_CODES = {
    "cluster.version",
    "cluster.zones",
    "controller.image",
    "images.autoscaler",
    "network.cidr",
    "network.nat",
    "ecr.api",
    "ecr.dkr",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "ca.crt",
    "tls.crt",
    "tls.key",
    "pod-spec.json",
    "kubernetes.io",
    "amazonaws.com",
    "aws.com",
    "nvidia.com",
    "ebbtide.dev",
    "argoproj.io",
    "kubeflow.org",
    "tekton.dev",
}

_JOBS = {
    "": ("checkpoint", "VersionsDiffer"),
    ".amqp_worker": ("AmqpWorker", "AmqpWorker.run"),
    ".busy_report": ("BusyReport", "Reporter", "BusyReport.changed", "BusyReport.stopping", "BusyReport.finish"),
    ".checkpoints": (
        *("CannotLoad", "CannotSave", "CheckpointError", "Codec", "LeaveJob", "Paused", "StoreError", "Superseded"),
        *("Saved.load", "Saved.offer", "Saved.save", "Saved.attempt", "Saved.stopping", "checkpoint"),
    ),
    ".list_worker": ("ListWorker", "ListWorker.run"),
    ".ray_driver": ("ray_cluster",),
    ".rq_worker": ("SafeWorker",),
    ".sqs_worker": ("SqsWorker", "SqsWorker.run"),
}
"""Names that code in worker images imports, by module of `ebbtide.jobs` (decision 39)."""

_REDIS_KEY = r"""["'](ebbtide[:_][a-z]+)|[}'](:(?:consumers?|processing|failed))\b"""


def words() -> str:
    """A list after a heading for each kind of word, sorted."""
    lists = {
        "metrics": _first_column(metrics() + workload_metrics() + exporter_metrics()),
        "codes of problems and cautions in a stack file": codes_in(ROOT / "ebbtide" / "settings"),
        "policies": {rule.code for rule in RULES},
        "dangers of a preview": set(KINDS),
        "reasons for a number of workers": _values(WorkerReason),
        "reasons for a budget": _values(BudgetReason),
        "Event reasons on a RayCluster": _first_column(workload_events()),
        "exit codes other than 0 and 1, and what uses them": set(_exit_codes()),
        "types of components": _matches(r'"(ebbtide:components:\w+)"', "components"),
        "labels and annotations": _labels(),
        "keys in Redis, and who uses them": _redis_keys(),
        "environment variables": _matches(r'"(EBBTIDE_[A-Z_]+)"', "components", "controllers", "ebbtide"),
        "pages of the processes": _matches(r'"(/[a-z]+)"', "controllers"),
        "modules that python -m runs": set(_programs()),
        "distributions: their scripts and extras": set(_distributions()),
        "imports of a program": {
            f"{name}{_parameters(getattr(program, name))}" for name in ("run", *program._modules())
        },
        "imports of a worker image": set(_imports_of_workers()),
    }
    return "\n".join(f"# {kind}\n" + "".join(f"{word}\n" for word in sorted(found)) for kind, found in lists.items())


def codes_in(folder: Path) -> set[str]:
    texts = (path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py")))
    return {code for text in texts for code in _LIKE_A_CODE.findall(text)} - _NO_CODES


def _matches(pattern: str, *folders: str) -> set[str]:
    files = chain(*((ROOT / folder).rglob("*.py") for folder in folders))
    return {"".join(match) for path in files for match in re.findall(pattern, path.read_text(encoding="utf-8"))}


def _labels() -> set[str]:
    constants = {**vars(labels), **vars(provisioning_labels)}.values()
    named = {value for value in constants if isinstance(value, str) and value.startswith(labels.PREFIX)}
    others = {labels.PREFIX + name for name in _matches(r'PREFIX \+ "([a-z-]+)"', "components", "controllers")}
    return (named | others) - {labels.PREFIX}


def _redis_keys() -> set[str]:
    users = ("ebbtide/jobs", "controllers")
    return {f"{key} {folder}" for folder in users for key in _matches(_REDIS_KEY, folder)}


def _programs() -> Iterator[str]:
    for path in chain((ROOT / "controllers").rglob("*.py"), (ROOT / "ebbtide").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__")
        if '__name__ == "__main__"' in path.read_text(encoding="utf-8") and not module.startswith("ebbtide.demo"):
            yield module


def _distributions() -> Iterator[str]:
    for file in (ROOT / "pyproject.toml", ROOT / "ebbtide" / "jobs" / "pyproject.toml"):
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        yield from (f"{project['name']} {name} = {target}" for name, target in project.get("scripts", {}).items())
        yield from (f"{project['name']}[{extra}]" for extra in project["optional-dependencies"])


def _imports_of_workers() -> Iterator[str]:
    source = (ROOT / "ebbtide" / "jobs" / "celery_worker.py").read_text(encoding="utf-8")  # its import needs Celery
    [install] = re.findall(r"^def (install\(\w+)", source, re.MULTILINE)
    yield f"ebbtide.jobs.celery_worker.{install})"
    for module, names in _JOBS.items():
        imported = import_module(f"ebbtide.jobs{module}")
        for name in names:
            value: object = imported
            for part in name.split("."):
                value = getattr(value, part)
            yield f"ebbtide.jobs{module}.{name}{_parameters(value)}"


def _parameters(value: object) -> str:
    """Return the names of a signature, with an equals sign where there is a default; "" for what is not called."""
    if not callable(value) or (isinstance(value, type) and issubclass(value, BaseException)):
        return ""
    names = [
        f"{parameter}".partition(":")[0].partition("=")[0].strip()
        + ("=" if parameter.default is not parameter.empty else "")
        for parameter in inspect.signature(cast("Callable[..., object]", value)).parameters.values()
    ]
    return f"({', '.join(names)})"


def _values(words: type[StrEnum]) -> set[str]:
    return {word.value for word in words}


def _first_column(table: str) -> set[str]:
    return set(re.findall(r"^\| `([^`]+)`", table, re.MULTILINE))


def _exit_codes() -> Iterator[str]:
    """Numbers given as `code`, to `typer.Exit` or to `sys.exit`, with the module's own name: its package may move."""
    for path in chain(*((ROOT / package).rglob("*.py") for package in ("ebbtide", "controllers"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                exits = ast.unparse(node.func) in {"typer.Exit", "sys.exit"}
                given = node.args if exits else [key.value for key in node.keywords if key.arg == "code"]
                codes = (it.value for it in given if isinstance(it, ast.Constant) and isinstance(it.value, int))
                name = path.parent.name if path.stem == "__main__" else path.stem
                yield from (f"{code} {name}" for code in codes if code > 1)
