"""Files that others wrote, damaged: each is read, or refused in words that name it, soon and in little memory.

What is read is also used, as the command would: a sound trace is replayed, a sound plan compared.
"""

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controllers.process import ConfigFile
from ebbtide.lab.advice.savings.usage import read_usage
from ebbtide.lab.simulator.replay import ReplayError, ReplayOptions, replay
from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.simulator.trace.traces import TraceError, find_trace
from ebbtide.preview.plan import PlanUnusable, planned_changes, read_plan
from ebbtide.prices.book import PricesInvalid, read_book
from ebbtide.recording.record import record
from ebbtide.recording.resources import Resource
from ebbtide.settings import StackInvalid, StackSettings, load_stack, warnings_of
from ebbtide.settings.capacity.process_documents import controller_config
from ebbtide.settings.file.contents import no_files
from ebbtide.settings.summary import summary
from ebbtide.vocabulary.controller_config import ControllerConfig, RedisEndpoint
from ebbtide.vocabulary.documents import dump, load
from tests.builders.prices import before
from tests.counts import count
from tests.paths import DATA, STACK_FILES

MOST_MIB = 400
_MOST_BYTES = 2**20
_TOKENS = [
    *["\x00", "\ufeff", "\x1b[2J", "\u202e", "\t", "\r", "\r\n", "\n", "---\n", "...\n", "#", '"', "'", "|", ">", "%"],
    *["[", "]", "{", "}", ",", ":", "- ", "? ", "&a ", "*a", "<<: *a\n", "!!python/object:os.system ", "!!binary "],
    *["nan", "NaN", "inf", "-Infinity", "-1", "0", "1e400", "1e-400", "5e-324", "9" * 400, "1_000", "0x1F", "1.5.2"],
    *["null", "true", "~", "2026-12-24", "22:00", "\u0661\u0662", "\u00e9", "\U0001f600", "\ud7ff", "a" * 300],
]
_VALUES: list[Callable[[Random], Any]] = [
    lambda random: random.choice((None, True, "", -1, 0, 1e308, -1e308, 5e-324, 0.1, float("nan"), float("inf"))),
    lambda random: 10 ** random.choice((3, 9, 18, 30, 300)),
    lambda random: random.choice(_TOKENS),
    lambda random: random.choice(("0001-01-01", "9999-12-31", "1900-02-29", "2026-11-22T00:00:00+14:00")),
    lambda random: "x" * random.choice((1, 64, 5_000, 100_000)),
    lambda random: ["a"] * random.choice((0, 1, 50, 3_000)),
    lambda random: {f"k{number}": number for number in range(random.choice((0, 1, 50, 3_000)))},
    lambda random: json.loads("[" * (depth := random.choice((3, 19, 30, 200))) + "]" * depth),
]


@dataclass(frozen=True, kw_only=True)
class Reader:
    """`read` returns the words in which a file was refused, or nothing if it was read."""

    bases: Callable[[], dict[str, bytes]]  # sound files by name
    read: Callable[[Path, Random], str]
    values: Callable[[bytes], Any] | None = None  # so that these can be changed too, not the bytes alone
    few: int = 60  # files in the fast tier
    full: int  # in the long one


# --- damage -----------------------------------------------------------------------------------------------------------


def damaged(name: str, data: bytes, reader: Reader, random: Random) -> bytes:
    """A sound file with one to four changes, of its bytes or of the values that it holds. Many are still sound."""
    if reader.values is not None and random.random() < 0.5:
        root = reader.values(data)
        for _ in range(random.choice((1, 1, 2, 3))):
            _other_value(root, random)
        data = _written(root, name).encode("utf-8", "surrogatepass")
        if random.random() < 0.7:
            return data
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        data = _other_bytes(data, random)
    return _recoded(data, random)


def _written(root: Any, name: str) -> str:
    if name.endswith(".json"):
        return json.dumps(root)
    return str(yaml.safe_dump(root, sort_keys=False, allow_unicode=True))


def _other_value(root: Any, random: Random) -> None:
    """A value replaced, removed, exchanged with another or repeated, or a key with another name."""
    places = list(_places(root))
    if not places:
        return
    owner, key = random.choice(places)
    match random.randrange(6):
        case 0:
            del owner[key]
        case 1:
            there, other = random.choice(places)
            owner[key] = json.loads(json.dumps(there[other]))  # a copy: nothing is put into itself
        case 2 if isinstance(owner, dict):
            owner[random.choice((f"{key}x", "x" * 300, "", "ebbtide:x", "0"))] = owner.pop(key)
        case 2:
            room = _MOST_BYTES // (1 + len(json.dumps(owner[key])))
            owner.extend([owner[key]] * min(random.choice((1, 30, 3_000)), room))
        case _:
            owner[key] = random.choice(_VALUES)(random)


def _places(value: Any, depth: int = 12) -> Iterator[tuple[Any, Any]]:
    items: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        items = list(cast("dict[Any, Any]", value).items())
    elif isinstance(value, list):
        items = list(enumerate(cast("list[Any]", value)))[:50]
    for key, inner in items if depth else ():
        yield value, key
        yield from _places(inner, depth - 1)


def _other_bytes(data: bytes, random: Random) -> bytes:
    """A line gone, moved or repeated; or a few bytes gone, or a token or others in their place, once or often."""
    if random.random() < 0.4:
        lines = data.split(b"\n")
        line = lines.pop(random.randrange(len(lines)))
        at = random.randrange(len(lines) + 1)
        return b"\n".join([*lines[:at], *[line] * _times(line, random, (0, 1, 2, 20, 5_000)), *lines[at:]])
    start, elsewhere = random.randrange(len(data) + 1), random.randrange(len(data) + 1)
    end = random.choice((start, start, start + 1, start + 8, start + 60, len(data)))
    piece = random.choice((b"", random.randbytes(1), random.choice(_TOKENS).encode(), data[elsewhere : elsewhere + 60]))
    return data[:start] + piece * _times(piece, random, (1, 1, 1, 2, 30, 20_000)) + data[end:]


def _times(piece: bytes, random: Random, times: tuple[int, ...]) -> int:
    return min(random.choice(times), _MOST_BYTES // (1 + len(piece)))


def _recoded(data: bytes, random: Random) -> bytes:
    if random.random() < 0.9:
        return data
    text = data.decode("utf-8", "replace")
    return random.choice((text.encode("utf-16"), text.encode("utf-8-sig"), text.replace("\n", "\r\n").encode(), b""))


# --- readers ----------------------------------------------------------------------------------------------------------


@cache
def _demo() -> StackSettings:
    return load_stack("demo", DATA)


@cache
def _registered() -> tuple[Resource, ...]:
    return tuple(record(_demo()))


@cache
def _stacks() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(STACK_FILES.glob("*.yaml"))}


def _read_stack(path: Path, _random: Random) -> str:
    try:
        stack = load_stack(str(path))
    except StackInvalid as invalid:
        return str(invalid)
    assert summary(stack)
    warnings_of(stack)
    return ""


@cache
def _traces() -> dict[str, bytes]:
    jobs = "\n".join(
        f"{i * 700},{60 + i * 97 % 3000},{'train' if i % 3 else 'prep'},{1 + i % 7},{4 + i},{i % 2}" for i in range(40)
    )
    windows = "\n".join(f"{i * 600},600,{queue},{(i * 37) % 900}" for i in range(12) for queue in ("a", "b"))
    texts = {
        "jobs": f"submitted_at,duration_s,queue,cpu,memory_gib,gpu\n{jobs}\n",
        "odd": "submitted_at,duration_s,queue,cpu,memory_gib,gpu\n0,0,train,1,2,0\n9,5,train,1,,1\n10,9,prep,,,16\n",
        "requests": f"t_s,window_s,queue,requests\n{windows}\n",
    }
    packed = gzip.compress(texts["jobs"].encode(), mtime=0)
    return {**{f"{name}.csv": text.encode() for name, text in texts.items()}, "jobs.csv.gz": packed}


def _read_trace(path: Path, random: Random) -> str:
    try:
        trace = find_trace(path)
    except TraceError as error:
        return str(error)
    if random.random() < 0.2 and len(trace.jobs) <= 2_000:
        strategies = (Strategy.PEAK_FLEET, random.choice(list(Strategy)))
        try:
            replay(_demo(), trace, ReplayOptions(days=min(2, trace.days), strategies=strategies))
        except ReplayError:
            return f"{path.name}: not replayed"
    return ""


@cache
def _plans() -> dict[str, bytes]:
    """What the engine would write about the demo's stack: every resource, some of them changed."""
    stack = {"op": "same", "urn": "urn:pulumi:demo::ebbtide::pulumi:pulumi:Stack::ebbtide-demo"}
    steps: list[dict[str, Any]] = [stack]
    for number, one in enumerate(_registered()[:60]):
        state = {"urn": one.urn, "type": one.type, "custom": one.custom, "parent": one.parent, "inputs": one.inputs}
        before = {**state, "inputs": {**one.inputs, "tags": {"number": str(number)}}}
        op = ("same", "create", "update", "delete", "replace")[number % 5]
        steps.append({"op": op, "urn": one.urn, "oldState": before, "newState": state, "replaceReasons": ["tags"]})
    config = yaml.safe_load((STACK_FILES / "Pulumi.demo.yaml").read_text())["config"]
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}
    told = {"changeSummary": {"same": 1}, "diagnostics": [{"severity": "warning", "message": "x"}]}
    plans = {"plan.json": {}, "with-config.json": {"config": texts}}
    return {name: json.dumps({"steps": steps, **more, **told}, default=str).encode() for name, more in plans.items()}


def _read_plan(path: Path, _random: Random) -> str:
    try:
        planned_changes(read_plan(path), _demo(), _registered(), no_files)
    except PlanUnusable as error:
        return str(error)
    return ""


@cache
def _documents() -> dict[str, bytes]:
    stacks = [load_stack(name, DATA) for name in ("demo", "example-berlin")]
    redis, years = RedisEndpoint(host="redis"), [2026, 2027]
    return {f"{stack.stack}.json": dump(controller_config(stack, redis, years)).encode() for stack in stacks}


def _read_document(path: Path, _random: Random) -> str:
    """The mount changes under a running controller, which goes on with what it had."""
    data = path.read_bytes()
    path.write_bytes(_documents()["demo.json"])
    mounted = ConfigFile(path, partial(load, ControllerConfig))
    before = mounted.config
    path.write_bytes(data)
    if mounted.changed():
        dump(mounted.config)
    assert not mounted.why or mounted.config == before
    return f"{path.name}: {mounted.why!a}" if mounted.why else ""


@cache
def _usage() -> dict[str, bytes]:
    rows = "\n".join(
        f"2026-06-{day:02}T{hour:02}:00:00+00:00,flexible,{hour % 5}" for day in (1, 2) for hour in range(24)
    )
    return {"usage.csv": f"hour,group,nodes\n{rows}\n".encode()}


def _read_usage(path: Path, _random: Random) -> str:
    try:
        read_usage(path, _demo())
    except TraceError as error:
        return str(error)
    return ""


def _prices() -> dict[str, bytes]:
    """Few rows are soon read; each file is damaged beside the others, unchanged."""
    return {name: "".join(text.splitlines(keepends=True)[:20]).encode() for name, text in before().items()}


def _read_prices(path: Path, _random: Random) -> str:
    def text_of(name: str) -> str:
        return path.read_text(encoding="utf-8") if name == path.name else before()[name]

    try:
        read_book(text_of)
    except PricesInvalid as invalid:
        return str(invalid)
    return ""


READERS = {
    "stack": Reader(bases=_stacks, read=_read_stack, values=yaml.safe_load, few=30, full=6_000),
    "trace": Reader(bases=_traces, read=_read_trace, few=30, full=5_000),
    "plan": Reader(bases=_plans, read=_read_plan, values=json.loads, few=30, full=5_000),
    "document": Reader(bases=_documents, read=_read_document, values=json.loads, full=4_000),
    "usage": Reader(bases=_usage, read=_read_usage, full=1_000),
    "prices": Reader(bases=_prices, read=_read_prices, full=1_000),
}


def require(kind: str, files: int, folder: Path) -> None:
    """A reader that hangs meets the limit of the test."""
    reader, sound = READERS[kind], 0
    bases = reader.bases()

    @settings(max_examples=files, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
    @given(st.randoms(use_true_random=True))
    def property_of(random: Random) -> None:
        nonlocal sound
        name = random.choice([*bases])
        (folder / name).write_bytes(damaged(name, bases[name], reader, random))
        words = reader.read(folder / name, random)
        sound += not words
        assert not words or name in words
        assert all(line.isprintable() for line in words.splitlines())

    before = peak_mib(anew=True)
    property_of()
    assert 0 < sound < files, "damage that nothing survives, or everything, finds little"
    assert peak_mib() - before <= MOST_MIB


def peak_mib(*, anew: bool = False) -> float:
    """The most memory that this process held, since the last call that began anew; where Linux tells it."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0.0
    if anew:
        Path("/proc/self/clear_refs").write_text("5")
    (peak,) = (line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(peak) / 1024


@pytest.mark.parametrize("kind", READERS)
def test_a_damaged_file_is_read_or_refused(kind: str, tmp_path: Path) -> None:
    require(kind, READERS[kind].few, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", READERS)
def test_thousands_of_damaged_files_are_read_or_refused(kind: str, tmp_path: Path) -> None:
    require(kind, count(READERS[kind].full, READERS[kind].full // 10), tmp_path)
