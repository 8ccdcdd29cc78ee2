"""The reference of what the two controllers tell: metrics, Events and annotations.

Metrics are what each writes for a report in which everything is known. Events of the workload controller are the
reasons for which its decisions change something, tried in every state that they tell apart.
"""

import ast
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain, combinations, pairwise, product
from pathlib import Path
from types import ModuleType

from controllers.adapters.metrics import Meter
from controllers.ports import BudgetReport, Known, PoolReport, ReconcileReport
from controllers.workloads.frame import FLAGS, Tally, process_metrics
from controllers.workloads.frame import metrics as workload_families
from controllers.workloads.ray.sleep import Seen, decide_sleep
from controllers.workloads.ray.workers import IdleWorkers
from ebbtide.operate.ray.wording import REASONS
from ebbtide.vocabulary import labels, workloads
from ebbtide.vocabulary.workloads import Purpose, Sleep, Wake, When
from tools.docs.tables import table

_HELP = re.compile(r"# HELP (\S+) (.*)\n# TYPE \S+ (\S+)\n[^\s{]+(?:\{(.*?)\})? ")
_LABEL = re.compile(r"(\w+)=")


_SPEC_REASONS = ("spec-first", "spec-awake", "spec-whole")


def metrics() -> str:
    """The scaler's."""
    return _families(_sample())


def workload_metrics() -> str:
    """The workload controller's."""
    tally = Tally()
    tally.writes["raycluster ns/flow", "done"] = 1
    report = {
        "kind": "RayCluster",
        "namespace": "ns",
        "name": "flow",
        "state": "awake",
        "why": "so",
        "note": "",
        "pending": (),
        "idleFor": timedelta(),
        "workers": (IdleWorkers(group="gpu", workers=1, idle_for=timedelta(), overdue=0),),
    }
    return _families(process_metrics(dict.fromkeys(FLAGS, True), {"GET": 1}) + workload_families([report], tally))


def _families(text: str) -> str:
    """A table of names, types, labels and meanings, in the order in which they are written."""
    rows = [
        (f"`{name}`", kind, ", ".join(f"`{label}`" for label in _LABEL.findall(labels)) or "none", meaning)
        for name, meaning, kind, labels in _HELP.findall(text)
    ]
    return table(("metric", "type", "labels", "meaning"), rows)


def workload_events() -> str:
    """Reasons of Events on a RayCluster; a write that is refused is a Warning with the same reason."""
    downs, ups = (sorted(_reasons(suspended=suspended)) for suspended in (False, True))
    rows = [
        *((_event(reason), "a part of the spec was written", REASONS[reason]) for reason in _SPEC_REASONS),
        *((_event(reason), "it is suspended", REASONS[reason]) for reason in downs),
        *((_event(reason), "it is woken", REASONS[reason]) for reason in ups),
        ("`Condition`", "nothing changes", "something needs a look: the message says what"),
        ("`ConditionOver`", "nothing changes", "it no longer does"),
    ]
    return table(("reason", "what is done", "why"), rows)


def _event(reason: str) -> str:
    return f"`{reason.title().replace('-', '')}`"


def _reasons(*, suspended: bool) -> set[str]:
    """Of all decisions that change whether it is suspended."""
    flags = ("hours_open", "wake_asked", "pending", "may_interrupt", "paused", "kept")
    times = (None, timedelta(), timedelta(days=1))
    reasons = set[str]()
    for values in product((False, True), repeat=len(flags)):
        for idle_for, drivers, purpose, doubt in product(times, (None, False, True), (None, *Purpose), ("", "clocks")):
            known = dict(zip(flags, values, strict=True))
            seen = Seen(suspended=suspended, idle_for=idle_for, drivers=drivers, purpose=purpose, doubt=doubt, **known)
            for sleep in _SLEEPS:
                decision = decide_sleep(seen, sleep)
                reasons |= {decision.reason} if decision.suspend is not suspended else set()
    return reasons


_WAKES = chain.from_iterable(combinations(Wake, count) for count in range(len(Wake) + 1))
_SLEEPS = [Sleep(when=when, wake=frozenset(wake)) for wake in _WAKES for when in When]


def ray_annotations() -> str:
    """Those that are read from or written to a RayCluster, by their own descriptions."""
    names = ("SPEC", "SLEEP", "PAUSED", "KEEP_UNTIL", "WAKE_UNTIL", "APPLY_UNTIL", "ASLEEP_FOR")
    found = {name: (value, text) for module in (labels, workloads) for name, value, text in _described(module)}
    return table(("annotation", "meaning"), [(f"`{found[name][0]}`", found[name][1]) for name in names])


def _described(module: ModuleType) -> Iterator[tuple[str, str, str]]:
    """Constants with the text that follows each: name, value and text, less the words that say where it stands."""
    body = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")).body
    for at, after in pairwise(body):
        if isinstance(at, ast.Assign) and isinstance(at.targets[0], ast.Name) and isinstance(after, ast.Expr):
            text = ast.literal_eval(after.value).partition(": ")[2]
            yield at.targets[0].id, getattr(module, at.targets[0].id), " ".join(str(text).split())


def _sample() -> str:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    reading = Known(waiting=1, in_transit=0, running=0, oldest_wait=timedelta(seconds=1))
    meter = Meter()
    for after in (0, 1):
        meter.reconciled(
            ReconcileReport(
                at=at + timedelta(minutes=after),
                window_open=True,
                window_reason="",
                window_until=at,
                pools=(PoolReport(name="train", reading=reading, workers=1, wanted=1, reason="at-target"),),
                budgets=(BudgetReport(name="api", max_unavailable=1, wanted=1, reason="open"),),
            )
        )
    return meter.text(at + timedelta(minutes=2))
