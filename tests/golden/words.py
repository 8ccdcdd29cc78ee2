"""Words that people and programs rely on: a new one is a decision, and one that goes breaks somebody."""

import ast
import re
from collections.abc import Iterator
from enum import StrEnum
from itertools import chain
from pathlib import Path

from controllers.scaler.budgets import Reason as BudgetReason
from controllers.scaler.workers.decision import Reason as WorkerReason
from ebbtide.policies import RULES
from ebbtide.preview.document import DangerCode
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


def words() -> str:
    """A list after a heading for each kind of word, sorted."""
    lists = {
        "metrics": _first_column(metrics() + workload_metrics() + exporter_metrics()),
        "codes of problems and cautions in a stack file": codes_in(ROOT / "ebbtide" / "settings"),
        "policies": {rule.id for rule in RULES},
        "dangers of a preview": _values(DangerCode),
        "reasons for a number of workers": _values(WorkerReason),
        "reasons for a budget": _values(BudgetReason),
        "Event reasons on a RayCluster": _first_column(workload_events()),
        "exit codes other than 0 and 1, and what uses them": set(_exit_codes()),
    }
    return "\n".join(f"# {kind}\n" + "".join(f"{word}\n" for word in sorted(found)) for kind, found in lists.items())


def codes_in(folder: Path) -> set[str]:
    texts = (path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py")))
    return {code for text in texts for code in _LIKE_A_CODE.findall(text)} - _NO_CODES


def _values(words: type[StrEnum]) -> set[str]:
    return {word.value for word in words}


def _first_column(table: str) -> set[str]:
    return set(re.findall(r"^\| `([^`]+)`", table, re.MULTILINE))


def _exit_codes() -> Iterator[str]:
    """Numbers given as `code`, to `typer.Exit` or to `sys.exit`."""
    for path in chain(*((ROOT / package).rglob("*.py") for package in ("ebbtide", "controllers"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                exits = ast.unparse(node.func) in {"typer.Exit", "sys.exit"}
                given = node.args if exits else [key.value for key in node.keywords if key.arg == "code"]
                codes = (it.value for it in given if isinstance(it, ast.Constant) and isinstance(it.value, int))
                yield from (f"{code} {path.relative_to(ROOT)}" for code in codes if code > 1)
