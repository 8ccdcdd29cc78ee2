"""Laws of the stack file: what is written can be read back, and no text brings a traceback or a leak."""

from datetime import timedelta
from functools import cache
from typing import cast

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.prices import instance_type, instance_type_names, usable
from ebbtide.settings import Problem, StackInvalid, parse_stack
from ebbtide.settings.document import read_document
from ebbtide.settings.scalars import differs, read_1_2
from ebbtide.settings.types import format_duration, parse_cpu, parse_duration, parse_memory
from ebbtide.settings.week import format_interval, parse_week
from ebbtide.vocabulary.windows import WeeklyInterval
from tests.builders_faults import FAULTS, with_faults
from tests.builders_settings import SHORTEST

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


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    document = read_document(text, "any.yaml")

    assert document.config or document.problems


@settings(max_examples=60)
@given(st.sampled_from(sorted(VALID)), JUNK)
def test_junk_in_any_section_is_refused_in_words(key: str, junk: object) -> None:
    assert all("wanted" in str(problem) for problem in problems_in({**VALID, key: junk}))


@settings(max_examples=60)
@given(st.sampled_from(sorted(VALID["ebbtide:workers"]["train"])), JUNK)
def test_junk_in_a_pool_is_refused_at_its_own_path(key: str, junk: object) -> None:
    pool = {**VALID["ebbtide:workers"]["train"], key: junk}

    problems = problems_in({**VALID, "ebbtide:workers": {"train": pool}})

    assert all(problem.path.startswith("ebbtide:workers.train") for problem in problems)


@cache
def paths_of_one(fault: str) -> frozenset[str]:
    return frozenset(problem.path for problem in problems_in(with_faults([fault])))


def test_without_a_fault_there_is_no_problem_and_with_one_there_is() -> None:
    assert problems_in(with_faults([])) == ()
    assert [fault for fault in FAULTS if not paths_of_one(fault)] == []


@settings(max_examples=150)
@given(st.sets(st.sampled_from(list(FAULTS)), min_size=2, max_size=12))
def test_faults_of_different_fields_neither_hide_nor_add_to_each_other(faults: set[str]) -> None:
    paths = {problem.path for problem in problems_in(with_faults(faults))}

    assert paths == {path for fault in faults for path in paths_of_one(fault)}


@given(st.sampled_from(instance_type_names()), st.integers(1, 200_000), st.integers(1, 2_000_000))
def test_copies_fit_and_one_more_does_not(name: str, cpu: int, memory: int) -> None:
    node = usable(instance_type(name))
    copies = node.copies(cpu=cpu, memory=memory, gpu=0)

    assert copies * cpu <= node.cpu
    assert copies * memory <= node.memory
    assert copies == node.pods or (copies + 1) * cpu > node.cpu or (copies + 1) * memory > node.memory
