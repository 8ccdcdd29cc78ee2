"""The reference of what our own processes tell: metrics, Events and annotations.

Metrics are what each writes for a report in which everything is known. Events of the workload controller are the
reasons for which its decisions change something, tried in every state that they tell apart.
"""

import ast
import re
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from itertools import chain, combinations, pairwise, product
from pathlib import Path
from types import ModuleType

from controllers.workloads.ray.sleep import Seen, decide_sleep
from ebbtide.operate.wording import REASONS
from ebbtide.vocabulary import labels
from ebbtide.vocabulary.workloads import Purpose, Sleep, Wake, When
from tests.builders.monitoring.expositions import (
    of_an_idle_ray_cluster,
    of_the_exporter,
    of_the_scaler,
    of_the_workload_controller,
)
from tools.docs.tables import table

_HELP = re.compile(r"# HELP (\S+) (.*)\n# TYPE \S+ (\S+)\n[^\s{]+(?:\{(.*?)\})? ")
_LABEL = re.compile(r"(\w+)=")


_SPEC_REASONS = ("spec-first", "spec-awake", "spec-whole")


def metrics() -> str:
    """Of the controller: a table of names, types, labels and meanings, in the order in which they are written."""
    with tempfile.TemporaryDirectory() as folder:
        return _table(of_the_scaler(Path(folder)))


def workload_metrics() -> str:
    """Of the workload controller: what it writes while it sees nothing, and what it would write of a cluster seen."""
    with tempfile.TemporaryDirectory() as folder:
        process = of_the_workload_controller(Path(folder))
    return _table(process + of_an_idle_ray_cluster())


def exporter_metrics() -> str:
    """Of the exporter, for a cluster in which everything is known."""
    return _table(of_the_exporter())


def _table(exposition: str) -> str:
    found = {
        f"`{name}`": (kind, ", ".join(f"`{label}`" for label in _LABEL.findall(labels)) or "none", meaning)
        for name, meaning, kind, labels in _HELP.findall(exposition)
    }
    return table(("metric", "type", "labels", "meaning"), [(name, *rest) for name, rest in found.items()])


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
    described = {name: (value, text) for name, value, text in _described(labels)}
    return table(("annotation", "meaning"), [(f"`{described[name][0]}`", described[name][1]) for name in names])


def _described(module: ModuleType) -> Iterator[tuple[str, str, str]]:
    """Constants with the text that follows each: name, value and text, less the words that say where it stands."""
    body = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")).body
    for at, after in pairwise(body):
        if isinstance(at, ast.Assign) and isinstance(at.targets[0], ast.Name) and isinstance(after, ast.Expr):
            text = ast.literal_eval(after.value).partition(": ")[2]
            yield at.targets[0].id, getattr(module, at.targets[0].id), " ".join(str(text).split())
