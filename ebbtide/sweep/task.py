"""One replay of a sweep: what it is made of, its key, and what it gives."""

import hashlib
import pickle
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ebbtide.settings.model import StackSettings
from ebbtide.simulator.replay import ReplayOptions, replay
from ebbtide.simulator.results import as_json
from ebbtide.simulator.trace.traces import Trace
from ebbtide.sweep.objective import FIGURES

DIGITS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepTask:
    """A stack with one setting, a trace and a seed. `trace` is its name: the jobs come beside the task."""

    customer: str
    trace: str
    setting: str
    settings: StackSettings
    options: ReplayOptions
    inputs: str  # the digest of the trace's file, the prices in use and the code

    @property
    def seed(self) -> int:
        return self.options.seed

    @property
    def key(self) -> str:
        """Equal where every figure has to be equal."""
        told = (self.inputs, self.trace, self.setting, self.settings.model_dump_json(), repr(self.options))
        return hashlib.sha256("\0".join(told).encode()).hexdigest()[:DIGITS]

    def __str__(self) -> str:
        return f"{self.customer} on {self.trace}, {self.setting}, seed {self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """`strategies`: by name, the figures that a replay's JSON has. `cpu_s`: of the process that played it."""

    days: int
    jobs: int
    coverage: float
    strategies: dict[str, dict[str, float | None]]
    cpu_s: float


def play(task: SweepTask, trace: bytes) -> Played:
    """`trace`: from `packed`. Raises what `replay` raises."""
    began = time.process_time()
    found: dict[str, Any] = as_json(replay(task.settings, _unpacked(trace), task.options))
    return Played(
        days=found["days"],
        jobs=found["jobs"],
        coverage=found["coverage"]["jobs"],
        strategies={name: {figure: its[figure] for figure in FIGURES} for name, its in found["strategies"].items()},
        cpu_s=time.process_time() - began,
    )


def packed(trace: Trace) -> bytes:
    return pickle.dumps(trace, protocol=pickle.HIGHEST_PROTOCOL)


@lru_cache(maxsize=1)
def _unpacked(data: bytes) -> Trace:
    """Kept for the next task, which mostly has the same: one trace, so that a worker's memory stays bounded."""
    found = pickle.loads(data)
    assert isinstance(found, Trace)
    return found
