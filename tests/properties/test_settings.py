"""Laws of the stack file: what is written can be read back, and no text brings a traceback or a leak."""

from collections.abc import Collection
from copy import deepcopy
from datetime import timedelta
from functools import cache
from typing import Any, cast
from unittest.mock import patch

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.prices import instance_type, instance_type_names, usable
from ebbtide.settings import Problem, StackInvalid, parse_stack
from ebbtide.settings.file.problems import Location
from ebbtide.settings.file.scalars import differs, read_1_2
from ebbtide.settings.sections.types import parse_cpu, parse_duration, parse_memory
from ebbtide.settings.sections.week import format_interval, parse_week
from ebbtide.text.durations import format_duration
from ebbtide.vocabulary.windows import WeeklyInterval
from tests.builders.settings import SHORTEST
from tests.counts import examples

SOUND: dict[str, Any] = {
    "ebbtide:customer": "acme",
    "ebbtide:businessHours": {
        "timezone": "Europe/Berlin",
        "week": {"mon-thu": "08:00-18:00", "fri": "08:00-17:00"},
        "holidays": {"country": "DE", "subdivision": "BE"},
        "overnight": [{"pool": "train", "at": "02:00", "for": "2h", "workers": 2}],
    },
    "ebbtide:cluster": {"version": "1.35", "zones": ["a", "b"]},
    "ebbtide:nodeGroups": {
        "fixed": {"instanceTypes": ["m7i.2xlarge"], "min": 2, "max": 4},
        "flexible": {"instanceTypes": ["m7i.4xlarge", "m6i.4xlarge"], "min": 0, "max": 9},
        "gpu": {"instanceTypes": ["g5.2xlarge"], "max": 4},
        "spot": {"instanceTypes": ["m7i.2xlarge", "m6i.2xlarge", "m6a.2xlarge", "m7i-flex.2xlarge"], "max": 4},
    },
    "ebbtide:controller": {"closingGuard": "15m"},
    "ebbtide:workloads": {
        "head": {"category": "fixed", "image": "a:1", "cpu": 1, "memory": "2Gi"},
        "api": {"category": "flexible", "image": "a:1", "cpu": 1, "memory": "2Gi"},
        "hub": {"category": "flexible", "image": "a:1", "cpu": 1, "memory": "2Gi"},
    },
    "ebbtide:workers": {
        name: {
            "source": {"kind": "rq", "queues": [name]},
            "image": "a:1",
            "min": 0,
            "max": 4,
            "cpu": 4,
            "memory": "16Gi",
            "longestJob": "1h",
        }
        for name in ("train", "eval", "brief")
    },
    "ebbtide:costs": {"expectedNodeHours": {"flexible": 2000}},
}
SOUND["ebbtide:workers"]["brief"]["nodeGroup"] = "spot"

_HOURS, _GROUPS, _WORKLOADS, _WORKERS = (
    f"ebbtide:{section}" for section in ("businessHours", "nodeGroups", "workloads", "workers")
)

FAULTS: dict[str, tuple[Location, object]] = {
    "a customer in capitals": (("ebbtide:customer",), "Acme"),
    "an unknown section": (("ebbtide:nodes",), {}),
    "a zone of time without its continent": ((_HOURS, "timezone"), "Berlin"),
    "a swapped interval": ((_HOURS, "week", "mon-thu"), "18:00-08:00"),
    "a day named twice": ((_HOURS, "week", "wed"), "nine to five"),
    "an unknown day": ((_HOURS, "week", "sunday"), "08:00-09:00"),
    "an unknown subdivision": ((_HOURS, "holidays", "subdivision"), "XX"),
    "a date that is none": ((_HOURS, "holidays", "closed"), ["2026-02-30"]),
    "a plan for no pool": ((_HOURS, "overnight", 0, "pool"), "trian"),
    "a plan at no time": ((_HOURS, "overnight", 0, "at"), "25:00"),
    "a plan of more than a day": ((_HOURS, "overnight", 0, "for"), "30h"),
    "a plan for too many": ((_HOURS, "overnight", 1), {"pool": "eval", "at": "01:00", "for": "1h", "workers": 9}),
    "a version as a number": (("ebbtide:cluster", "version"), 1.35),
    "a zone twice": (("ebbtide:cluster", "zones"), ["a", "a", "B"]),
    "an unknown type": ((_GROUPS, "fixed", "instanceTypes", 0), "m7i.2xlarg"),
    "a group that may vanish and must not": ((_GROUPS, "fixed", "min"), 0),
    "a group too small for the zones": ((_GROUPS, "fixed", "max"), 1),
    "two shapes": ((_GROUPS, "flexible", "instanceTypes", 1), "m7i.2xlarge"),
    "more nodes at least than at most": ((_GROUPS, "flexible", "min"), 10),
    "a group of no kind": ((_GROUPS, "cheap"), {"instanceTypes": ["m7i.large"], "max": 4}),
    "a group with a key too many": ((_GROUPS, "flexible", "size"), 3),
    "spot of one type": ((_GROUPS, "narrow"), {"kind": "spot", "instanceTypes": ["m7i.2xlarge"], "max": 4}),
    "a disk too small for the image": ((_GROUPS, "flexible", "diskSize"), 8),
    "GPUs where none belong": ((_GROUPS, "spot", "instanceTypes", 0), "g5.2xlarge"),
    "a Redis without its address": (("ebbtide:redis",), {"kind": "url"}),
    "no closing guard": (("ebbtide:controller", "closingGuard"), "0s"),
    "a fixed workload that others scale": ((_WORKLOADS, "head", "replicasOwner"), "hpa"),
    "a fixed workload without a copy": ((_WORKLOADS, "head", "replicas"), 0),
    "a service too large": ((_WORKLOADS, "api", "cpu"), 40),
    "a service of no size": ((_WORKLOADS, "api", "memory"), "lots"),
    "a service that moves somehow": ((_WORKLOADS, "hub", "category"), "fixd"),
    "half a GPU": ((_WORKLOADS, "api", "gpu"), 0.5),
    "an unknown framework": ((_WORKERS, "train", "source", "kind"), "celery"),
    "a queue with a space": ((_WORKERS, "train", "source", "queues", 1), "a b"),
    "more workers at least than at most": ((_WORKERS, "train", "min"), 5),
    "a worker too large": ((_WORKERS, "train", "memory"), "999Gi"),
    "a worker with no CPU": ((_WORKERS, "train", "cpu"), "none"),
    "a worker on no group": ((_WORKERS, "train", "nodeGroup"), "flexibel"),
    "a misspelt key": ((_WORKERS, "train", "maxx"), 3),
    "a negative duration": ((_WORKERS, "eval", "longestJob"), "-1h"),
    "two pools on one queue": ((_WORKERS, "eval", "source", "queues", 0), "train"),
    "an image without a name": ((_WORKERS, "eval", "image"), ""),
    "a worker on fixed nodes": ((_WORKERS, "eval", "nodeGroup"), "fixed"),
    "a worker larger than its zone": ((_WORKERS, "eval", "cpu"), 400),
    "a long job on spot": ((_WORKERS, "brief", "longestJob"), "12h"),
    "a yes that is text": ((_WORKERS, "brief", "safeStop"), "yes"),
    "a pool that is no mapping": ((_WORKERS, "text"), "train"),
    "our own tag": (("ebbtide:costs", "tags"), {"ebbtide.dev/customer": "other"}),
    "hours of no group": (("ebbtide:costs", "expectedNodeHours", "flexibel"), 3),
}


def with_faults(names: Collection[str]) -> dict[str, Any]:
    """The sound stack with these faults, put in by their order above."""
    config = deepcopy(SOUND)
    for name in FAULTS:
        if name in names:
            _put(config, *FAULTS[name])
    return config


def _put(config: dict[str, Any], at: Location, value: object) -> None:
    owner: Any = config
    for part in at[:-1]:
        owner = owner[part] if isinstance(part, int) else owner.setdefault(part, {})
    if at[-1] == len(owner):  # one more entry of a list
        owner.append(deepcopy(value))
    else:
        owner[at[-1]] = deepcopy(value)


DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
VALID = yaml.safe_load(SHORTEST)["config"]
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def problems_in(config: dict[str, object]) -> tuple[Problem, ...]:
    try:
        parse_stack(config, stack="acme", file="any")
    except StackInvalid as refused:
        return refused.problems
    return ()


@given(st.integers(0, 10**7))
def test_a_duration_is_read_back_from_its_text(seconds: int) -> None:
    assert parse_duration(format_duration(timedelta(seconds=seconds))) == timedelta(seconds=seconds)


@given(st.integers(0, 6), st.integers(0, 1439), st.integers(1, 1440))
def test_an_interval_is_read_back_from_its_text(day: int, start: int, length: int) -> None:
    interval = WeeklyInterval(day, start, start + length)

    assert parse_week({DAYS[day]: format_interval(interval)}) == (interval,)


@given(st.integers(0, 1439), st.integers(0, 1439))
def test_a_pair_without_plus_one_never_covers_midnight(start: int, end: int) -> None:
    text = f"{start // 60:02}:{start % 60:02}-{end // 60:02}:{end % 60:02}"

    if start < end:
        assert parse_week({"mon": text}) == (WeeklyInterval(0, start, end),)
    else:
        with pytest.raises(ValueError, match="ends after it starts"):
            parse_week({"mon": text})


@given(st.integers(1, 10**6))
def test_cores_and_millicores_agree(millicores: int) -> None:
    assert parse_cpu(f"{millicores}m") == parse_cpu(f"{millicores / 1000:.3f}") == millicores


@given(st.integers(2**20, 2**50))
def test_memory_is_never_rounded_down(size: int) -> None:
    assert 0 <= parse_memory(size) * 2**20 - size < 2**20


@given(st.text(alphabet="0123456789_:.-+eExobnOyYNtT~<=", max_size=8))
def test_what_passes_unquoted_means_the_same_to_a_1_1_reader(text: str) -> None:
    if not differs(text):
        old = yaml.safe_load(f"[{text}]")[0] if text and _is_plain(text) else read_1_2(text)
        assert repr(old) == repr(read_1_2(text))


def _is_plain(text: str) -> bool:
    """Whether the text stands in a list as one plain scalar."""
    try:
        root = cast("yaml.Node | None", yaml.compose(f"[{text}]"))
    except yaml.YAMLError:
        return False
    return isinstance(root, yaml.SequenceNode) and [node.value for node in root.value] == [text]


@settings(max_examples=examples(60))
@given(st.sampled_from(sorted(VALID)), JUNK)
def test_junk_in_any_section_is_refused_in_words(key: str, junk: object) -> None:
    assert all("wanted" in str(problem) for problem in problems_in({**VALID, key: junk}))


@settings(max_examples=examples(60))
@given(st.sampled_from(sorted(VALID["ebbtide:workers"]["train"])), JUNK)
def test_junk_in_a_pool_is_refused_at_its_own_path(key: str, junk: object) -> None:
    pool = {**VALID["ebbtide:workers"]["train"], key: junk}

    problems = problems_in({**VALID, "ebbtide:workers": {"train": pool}})

    assert all(problem.path.startswith("ebbtide:workers.train") for problem in problems)


@cache
def paths_of_one(fault: str) -> frozenset[str]:
    return frozenset(problem.path for problem in problems_in(with_faults([fault])))


@cache
def paths_in_its_section(fault: str) -> frozenset[str]:
    """Without what takes a second section, or a section without a fault, to see."""
    with patch("ebbtide.settings.reading.cross_findings", return_value=[]):
        return frozenset(problem.path for problem in problems_in(with_faults([fault])))


def test_without_a_fault_there_is_no_problem_and_with_one_there_is() -> None:
    assert problems_in(with_faults([])) == ()
    assert [fault for fault in FAULTS if not paths_of_one(fault)] == []


@settings(max_examples=examples(150))
@given(st.sets(st.sampled_from(list(FAULTS)), min_size=2, max_size=12))
def test_a_fault_hides_none_that_its_section_sees_and_adds_none(faults: set[str]) -> None:
    paths = {problem.path for problem in problems_in(with_faults(faults))}

    assert paths >= {path for fault in faults for path in paths_in_its_section(fault)}
    assert paths <= {path for fault in faults for path in paths_of_one(fault)}


@given(st.sampled_from(instance_type_names()), st.integers(1, 200_000), st.integers(1, 2_000_000))
def test_copies_fit_and_one_more_does_not(name: str, cpu: int, memory: int) -> None:
    node = usable(instance_type(name))
    copies = node.copies(cpu=cpu, memory=memory, gpu=0)

    assert copies * cpu <= node.cpu
    assert copies * memory <= node.memory
    assert copies == node.pods or (copies + 1) * cpu > node.cpu or (copies + 1) * memory > node.memory
