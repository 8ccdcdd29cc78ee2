"""The reference of monitoring: metrics, Events and annotations of Ebbtide's processes, and messages of alerts.

Metrics are those of a report in which everything is known. Events of the workload controller are the reasons of
decisions that change something, found by trying every state that the decisions distinguish.
"""

import ast
import re
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from itertools import chain, combinations, pairwise, product
from pathlib import Path
from types import ModuleType

from controllers.workloads.ray.sleep import RayClusterState, decide_sleep
from ebbtide.monitoring.alerts import alerts
from ebbtide.monitoring.documents import rule_groups
from ebbtide.monitoring.rules import Alert
from ebbtide.operate.wording import RAY_REASONS
from ebbtide.vocabulary import labels
from ebbtide.vocabulary.workloads import Purpose, Sleep, SleepWhen, Wake
from tests.builders.monitoring.alert_cases import CASES, STACK
from tests.builders.monitoring.expositions import (
    of_an_idle_ray_cluster,
    of_the_exporter,
    of_the_scaler,
    of_the_workload_controller,
)
from tools.docs.tables import table

_HELP = re.compile(r"# HELP (\S+) (.*)\n# TYPE \S+ (\S+)\n[^\s{]+(?:\{(.*?)\})? ")
_LABEL = re.compile(r"(\w+)=")


ALERTS = [rule for group in rule_groups(STACK) for rule in group.rules if isinstance(rule, Alert)]
"""Every alert once, in the order of the rules."""
_SPEC_REASONS = ("spec-first", "spec-awake", "spec-whole")


def metrics() -> str:
    """Return the controller's metrics in the order of its exposition."""
    with tempfile.TemporaryDirectory() as folder:
        return _table(of_the_scaler(Path(folder)))


def workload_metrics() -> str:
    """Return the workload controller's metrics: its own, and those of a Ray cluster."""
    with tempfile.TemporaryDirectory() as folder:
        process = of_the_workload_controller(Path(folder))
    return _table(process + of_an_idle_ray_cluster())


def exporter_metrics() -> str:
    """Return the exporter's metrics, for a cluster in which everything is known."""
    return _table(of_the_exporter())


def _table(exposition: str) -> str:
    rows = {
        f"`{name}`": (kind, ", ".join(f"`{label}`" for label in _LABEL.findall(labels)) or "none", meaning)
        for name, meaning, kind, labels in _HELP.findall(exposition)
    }
    return table(("metric", "type", "labels", "meaning"), [(name, *cells) for name, cells in rows.items()])


def workload_events() -> str:
    """Return the reasons of Events on a RayCluster; a refused write is a Warning with the same reason."""
    downs, ups = (sorted(_reasons(suspended=suspended)) for suspended in (False, True))
    rows = [
        *((_event(reason), "a part of the spec was written", RAY_REASONS[reason]) for reason in _SPEC_REASONS),
        *((_event(reason), "it is suspended", RAY_REASONS[reason]) for reason in downs),
        *((_event(reason), "it is woken", RAY_REASONS[reason]) for reason in ups),
        ("`Condition`", "nothing changes", "something needs a look: the message says what"),
        ("`ConditionOver`", "nothing changes", "it no longer does"),
    ]
    return table(("reason", "what is done", "why"), rows)


def _event(reason: str) -> str:
    return f"`{reason.title().replace('-', '')}`"


def _reasons(*, suspended: bool) -> set[str]:
    """Return the reasons of all decisions that suspend or resume a cluster."""
    flags = ("hours_open", "wake_asked", "pending", "may_interrupt", "paused", "kept")
    times = (None, timedelta(), timedelta(days=1))
    reasons = set[str]()
    for values in product((False, True), repeat=len(flags)):
        for idle_for, drivers, purpose, doubt in product(times, (None, False, True), (None, *Purpose), ("", "clocks")):
            known = dict(zip(flags, values, strict=True))
            seen = RayClusterState(
                suspended=suspended, idle_for=idle_for, drivers=drivers, purpose=purpose, doubt=doubt, **known
            )
            for sleep in _SLEEPS:
                decision = decide_sleep(seen, sleep)
                reasons |= {decision.reason} if decision.suspend is not suspended else set()
    return reasons


_WAKES = chain.from_iterable(combinations(Wake, count) for count in range(len(Wake) + 1))
_SLEEPS = [Sleep(when=when, wake=frozenset(wake)) for wake in _WAKES for when in SleepWhen]


def ray_annotations() -> str:
    """Return the annotations that are read from or written to a RayCluster, with their descriptions."""
    names = ("SPEC", "SLEEP", "PAUSED", "KEEP_UNTIL", "WAKE_UNTIL", "APPLY_UNTIL", "ASLEEP_FOR")
    constants = {name: (value, text) for name, value, text in _described(labels)}
    return table(("annotation", "meaning"), [(f"`{constants[name][0]}`", constants[name][1]) for name in names])


def _described(module: ModuleType) -> Iterator[tuple[str, str, str]]:
    """Yield constants with the docstring that follows each, without its prefix: name, value and text."""
    body = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")).body
    for at, after in pairwise(body):
        if isinstance(at, ast.Assign) and isinstance(at.targets[0], ast.Name) and isinstance(after, ast.Expr):
            text = ast.literal_eval(after.value).partition(": ")[2]
            yield at.targets[0].id, getattr(module, at.targets[0].id), " ".join(str(text).split())


def alert_rows() -> str:
    """Return when each alert fires and its page; alerts with the same page and time share a row."""
    rows: dict[tuple[str, str], list[str]] = {}
    for alert in ALERTS:
        after = alert.fires_after or f"{int(alert.lasting.total_seconds()) // 60} min"
        stacks = f", {alert.stacks}" if alert.stacks else ""
        rows.setdefault((after, alert.runbook), []).append(f"`{alert.name}`{stacks}")
    return table(
        ("alert", "fires after", "page"),
        [(", ".join(names), after, _runbook_link(page)) for (after, page), names in rows.items()],
    )


def _runbook_link(page: str) -> str:
    return f"[{page.replace('-', ' ')}](../runbooks/{page}.md)"


def alert_messages() -> str:
    """Return one message of each alert, for a stack with a pool `train`, a service `api` and a Ray cluster `flow`."""
    says = {case.alert: case.says for case in reversed(CASES)}
    rows = [(f"`{alert.name}`", alert.severity.value, says.get(alert.name, alert.summary)) for alert in alerts(STACK)]
    return table(("alert", "severity", "message"), rows)
