"""The reference of the metrics: what the processes themselves write, in this interpreter and without a cluster."""

import re
import tempfile
from datetime import timedelta
from pathlib import Path

from controllers.workloads.frame import Tally
from controllers.workloads.frame import metrics as of_workloads
from tests.builders.monitoring.expositions import of_the_scaler, of_the_workload_controller
from tools.docs.tables import table

_HELP = re.compile(r"# HELP (\S+) (.*)\n# TYPE \S+ (\S+)\n[^\s{]+(?:\{(.*?)\})? ")
_LABEL = re.compile(r"(\w+)=")


def metrics() -> str:
    """Of the controller: a table of names, types, labels and meanings, in the order in which they are written."""
    with tempfile.TemporaryDirectory() as folder:
        return _table(of_the_scaler(Path(folder)))


def workload_metrics() -> str:
    """Of the workload controller: what it writes while it sees nothing, and what it would write of a cluster seen."""
    with tempfile.TemporaryDirectory() as folder:
        process = of_the_workload_controller(Path(folder))
    tally = Tally()
    tally.writes["flow", "done"] = 1
    seen = {"name": "flow", "state": "awake", "why": "in-use", "pending": ("spec",), "idleFor": timedelta()}
    return _table(process + of_workloads([seen], tally))


def _table(exposition: str) -> str:
    found = {
        f"`{name}`": (kind, ", ".join(f"`{label}`" for label in _LABEL.findall(labels)) or "none", meaning)
        for name, meaning, kind, labels in _HELP.findall(exposition)
    }
    return table(("metric", "type", "labels", "meaning"), [(name, *rest) for name, rest in found.items()])
