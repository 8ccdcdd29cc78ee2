"""The reference of the metrics: what the controller's own meter writes for a report in which everything is known."""

import re
from datetime import UTC, datetime, timedelta

from controllers.adapters.metrics import Meter
from controllers.ports import BudgetReport, Known, PoolReport, ReconcileReport
from tools.docs.tables import table

_HELP = re.compile(r"# HELP (\S+) (.*)\n# TYPE \S+ (\S+)\n[^\s{]+(?:\{(.*?)\})? ")
_LABEL = re.compile(r"(\w+)=")


def metrics() -> str:
    """A table of names, types, labels and meanings, in the order in which the controller writes them."""
    rows = [
        (f"`{name}`", kind, ", ".join(f"`{label}`" for label in _LABEL.findall(labels)) or "none", meaning)
        for name, meaning, kind, labels in _HELP.findall(_sample())
    ]
    return table(("metric", "type", "labels", "meaning"), rows)


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
