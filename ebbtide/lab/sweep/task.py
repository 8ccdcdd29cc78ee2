"""One replay of a sweep: its inputs, key and figures."""

import hashlib
import pickle
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ebbtide.lab.simulator.replay import ReplayOptions, replay
from ebbtide.lab.simulator.results import as_json
from ebbtide.lab.simulator.trace.traces import Trace
from ebbtide.lab.sweep.objective import FIGURES
from ebbtide.settings.model import StackSettings

DIGITS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepTask:
    """A stack with one setting, a trace and a seed. `trace`: the trace's name; `play` receives its jobs separately."""

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
        """Replays with the same key have the same figures."""
        inputs = (self.inputs, self.trace, self.setting, self.settings.model_dump_json(), repr(self.options))
        return hashlib.sha256("\0".join(inputs).encode()).hexdigest()[:DIGITS]

    def __str__(self) -> str:
        return f"{self.customer} on {self.trace}, {self.setting}, seed {self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayFigures:
    """`strategies`: figures of the replay's JSON, by strategy and name. `cpu_s`: CPU time of the playing process."""

    days: int
    jobs: int
    coverage: float
    strategies: dict[str, dict[str, float | None]]
    cpu_s: float
    overload: str = ""  # demand that exceeds the stack; the figures then cannot be compared with other settings


def play(task: SweepTask, trace: bytes) -> ReplayFigures:
    """`trace`: from `packed`. Raises the errors of `replay`."""
    began = time.process_time()
    replayed = replay(task.settings, _unpacked(trace), task.options)
    document: dict[str, Any] = as_json(replayed)
    return ReplayFigures(
        days=document["days"],
        jobs=document["jobs"],
        coverage=document["coverage"]["jobs"],
        strategies={
            name: {figure: result[figure] for figure in FIGURES} for name, result in document["strategies"].items()
        },
        cpu_s=time.process_time() - began,
        overload="; ".join(map(str, replayed.overloads)),
    )


def packed(trace: Trace) -> bytes:
    return pickle.dumps(trace, protocol=pickle.HIGHEST_PROTOCOL)


@lru_cache(maxsize=1)
def _unpacked(data: bytes) -> Trace:
    """The last trace is cached, since the next task mostly has the same one. One only, to bound a worker's memory."""
    trace = pickle.loads(data)
    assert isinstance(trace, Trace)
    return trace
