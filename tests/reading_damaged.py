"""`python -m tests.reading_damaged KIND SEED COUNT`: read so many damaged files and tell what came of it, as JSON.

A process of its own, whose memory can be measured. Time is the processor's: a reader that is still busy after `HANGS_S`
is stopped and told. What is read is also used, as the command would: a sound trace is replayed, a sound plan compared.
"""

import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import yaml

from tests.builders.damage import as_json, as_yaml, damaged
from tests.paths import ROOT

HANGS_S = 20.0
_MOST_DATA = 2 * 2**30  # bytes: what is beyond all measure ends in a MemoryError here, and not in that of others
_FOLDER = ROOT


class Hangs(BaseException):
    """Not an Exception, so that no reader takes it for a fault of the file."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """`read` returns the words in which a file was refused, or nothing if it was read."""

    suffix: str
    bases: Callable[[], list[bytes]]
    read: Callable[[Path, Random], str]
    values: Callable[[bytes], Any] | None = None
    dump: Callable[[Any], str] = as_json


@dataclass
class Told:
    count: int = 0
    sound: int = 0  # damaged, and read all the same
    failures: list[str] = field(default_factory=list[str])
    slowest_s: float = 0.0
    slowest: int = 0
    peak_mib: float = 0.0


def main(arguments: list[str]) -> int:
    name, seed, count = arguments[0], int(arguments[1]), int(arguments[2])
    kind, told = KINDS[name], Told()
    signal.signal(signal.SIGPROF, _stop)
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_DATA, _MOST_DATA))
    bases = kind.bases()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"Pulumi.damaged{kind.suffix}"
        for number in range(seed, seed + count):
            random = Random(f"{name} {number}")
            path.write_bytes(damaged(random.choice(bases), random, kind.values, kind.dump))
            _read(kind, path, random, number, told)
            if keep := os.environ.get("EBBTIDE_KEEP_DAMAGED"):
                (Path(keep) / f"{name}-{number}{kind.suffix}").write_bytes(path.read_bytes())
    told.peak_mib = _peak_mib()
    print(json.dumps(vars(told)))
    return 0


def _peak_mib() -> float:
    """Of this program alone: what `getrusage` tells begins with the size of the process that started it."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    (peak,) = (line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(peak) / 1024


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise Hangs


def _read(kind: Kind, path: Path, random: Random, number: int, told: Told) -> None:
    began = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, HANGS_S)
    try:
        words = kind.read(path, random)
    except Hangs:
        told.failures.append(f"{number}: still busy after {HANGS_S:g} s: {traceback.format_exc(limit=-3)}")
    except Exception:
        told.failures.append(f"{number}: {traceback.format_exc(limit=-4)}")
    else:
        told.sound += not words
        if words and (str(path.name) not in words or not all(line.isprintable() for line in words.splitlines())):
            told.failures.append(f"{number}: does not name the file, or holds control characters: {words[:300]!a}")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    taken = time.process_time() - began
    told.count += 1
    if taken > told.slowest_s:
        told.slowest_s, told.slowest = taken, number


# --- stack files ------------------------------------------------------------------------------------------------------


def _stacks() -> list[bytes]:
    return [path.read_bytes() for path in sorted((_FOLDER / "stacks").glob("*.yaml"))]


def _read_stack(path: Path, _random: Random) -> str:
    from ebbtide.settings import StackInvalid, load_stack, warnings_of
    from ebbtide.settings.summary import summary

    try:
        settings = load_stack(str(path))
    except StackInvalid as invalid:
        return str(invalid)
    assert summary(settings)
    warnings_of(settings)
    return ""


# --- traces -----------------------------------------------------------------------------------------------------------


def _traces() -> list[bytes]:
    jobs = "\n".join(
        f"{i * 700},{60 + i * 97 % 3000},{'train' if i % 3 else 'prep'},{1 + i % 7},{4 + i},{i % 2}" for i in range(40)
    )
    windows = "\n".join(f"{i * 600},600,{queue},{(i * 37) % 900}" for i in range(12) for queue in ("a", "b"))
    return [
        f"submitted_at,duration_s,queue,cpu,memory_gib,gpu\n{jobs}\n".encode(),
        b"submitted_at,duration_s,queue,cpu,memory_gib,gpu\n0,0,train,1,2,0\n9,5,train,1,,1\n10,9,prep,,,16\n",
        f"t_s,window_s,queue,requests\n{windows}\n".encode(),
    ]


@cache
def _demo() -> Any:
    from ebbtide.settings import load_stack

    return load_stack("demo", _FOLDER)


def _read_trace(path: Path, random: Random) -> str:
    from ebbtide.simulator.replay import ReplayError, ReplayOptions, replay
    from ebbtide.simulator.strategies.plans import Strategy
    from ebbtide.simulator.trace.traces import TraceError, read_trace

    try:
        trace = read_trace(path)
    except TraceError as error:
        return str(error)
    if random.random() < 0.2 and len(trace.jobs) <= 2_000:
        strategies = (Strategy.PEAK_FLEET, random.choice(list(Strategy)))
        try:
            replay(_demo(), trace, ReplayOptions(days=min(2, trace.days), strategies=strategies))
        except ReplayError:
            return f"{path.name}: not replayed"
    return ""


# --- plans ------------------------------------------------------------------------------------------------------------


@cache
def _registered() -> Any:
    from ebbtide.recording.record import record

    return record(_demo())


def _plans() -> list[bytes]:
    """What the engine would write about the demo's stack: every resource, some of them changed."""
    stack = {"op": "same", "urn": "urn:pulumi:demo::ebbtide::pulumi:pulumi:Stack::ebbtide-demo"}
    steps: list[Mapping[str, Any]] = [stack]
    for number, one in enumerate(_registered()[:60]):
        state = {"urn": one.urn, "type": one.type, "custom": one.custom, "parent": one.parent, "inputs": one.inputs}
        before = {**state, "inputs": {**one.inputs, "tags": {"number": str(number)}}}
        op = ("same", "create", "update", "delete", "replace")[number % 5]
        steps.append({"op": op, "urn": one.urn, "oldState": before, "newState": state, "replaceReasons": ["tags"]})
    config = yaml.safe_load((_FOLDER / "stacks" / "Pulumi.demo.yaml").read_text())["config"]
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}
    summary = {"changeSummary": {"same": 1}, "diagnostics": [{"severity": "warning", "message": "x"}]}
    return [json.dumps({"steps": steps, **more, **summary}, default=str).encode() for more in ({}, {"config": texts})]


def _read_plan(path: Path, _random: Random) -> str:
    from ebbtide.preview.plan import PlanUnusable, planned_changes, read_plan

    try:
        planned_changes(read_plan(path), _demo(), _registered())
    except PlanUnusable as error:
        return str(error)
    return ""


# --- the controller's documents ---------------------------------------------------------------------------------------


def _documents() -> list[bytes]:
    from ebbtide.settings import load_stack
    from ebbtide.settings.controller_document import controller_config
    from ebbtide.vocabulary.controller_config import RedisEndpoint, dump

    stacks = [load_stack(name, _FOLDER) for name in ("demo", "example-berlin")]
    return [dump(controller_config(stack, RedisEndpoint(host="redis"), [2026, 2027])).encode() for stack in stacks]


def _read_document(path: Path, _random: Random) -> str:
    from controllers.adapters.config_file import ConfigFile
    from ebbtide.vocabulary.controller_config import dump, load

    sound = ConfigFile(path.with_suffix(".sound"), load) if path.with_suffix(".sound").exists() else None
    if sound is None:
        path.with_suffix(".sound").write_bytes(_documents()[0])
        sound = ConfigFile(path.with_suffix(".sound"), load)
    sound._path = path  # the mount that changes under a running controller
    sound.changed()
    if not sound.why:
        dump(sound.config)
    return f"{path.name}: {sound.why!a}" if sound.why else ""


# --- what else is read ------------------------------------------------------------------------------------------------


def _scenarios() -> list[bytes]:
    group = {"name": "flexible", "max": 5, "cpu_m": 4000, "memory_mib": 8192}
    workload = {"name": "api", "replicas": 2, "cpu_m": 3000, "memory_mib": 1024}
    return [json.dumps({"scenarios": [{"node_groups": [group], "workloads": [workload], "end_s": 600}]}).encode()]


def _read_scenario(path: Path, _random: Random) -> str:
    from tests.fidelity.file import ScenarioInvalid, read_scenarios

    try:
        read_scenarios(path)
    except ScenarioInvalid as error:
        return str(error)
    return ""


def _usage() -> list[bytes]:
    rows = "\n".join(
        f"2026-06-{day:02}T{hour:02}:00:00+00:00,flexible,{hour % 5}" for day in (1, 2) for hour in range(24)
    )
    return [f"hour,group,nodes\n{rows}\n".encode()]


def _read_usage(path: Path, _random: Random) -> str:
    from ebbtide.advice.usage import UsageError, read_usage

    try:
        read_usage(path, _demo())
    except UsageError as error:
        return str(error)
    return ""


KINDS = {
    "stack": Kind(suffix=".yaml", bases=_stacks, read=_read_stack, values=yaml.safe_load, dump=as_yaml),
    "trace": Kind(suffix=".csv", bases=_traces, read=_read_trace),
    "plan": Kind(suffix=".json", bases=_plans, read=_read_plan, values=json.loads),
    "document": Kind(suffix=".json", bases=_documents, read=_read_document, values=json.loads),
    "scenario": Kind(suffix=".json", bases=_scenarios, read=_read_scenario, values=json.loads),
    "usage": Kind(suffix=".csv", bases=_usage, read=_read_usage),
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
