"""YAML that Pulumi and Python read differently, or that hides a value, is refused with its line."""

from pathlib import Path

import pytest

from ebbtide.prices import nearest_type
from ebbtide.settings.file.document import MOST_VALUES
from ebbtide.settings.file.scalars import differs
from ebbtide.settings.load import MOST_BYTES
from tests.builders.settings import problem_of, problems_of, shortest

pytestmark = pytest.mark.whole


@pytest.mark.parametrize(
    "text",
    [
        *[
            "22:00",
            "NO",
            "no",
            "on",
            "Off",
            "yes",
            "y",
            "2026-12-24",
            "0o17",
            "012",
            "08",
            "1_000",
            "1e3",
            "0b11",
            "<<",
            "=",
        ],
        *["1:30:00", "190:20:30.15", "2026-12-24T10:00:00Z", "1_0.5", "0x_1"],
    ],
)
def test_what_the_two_versions_read_differently_is_found(text: str) -> None:
    assert differs(text)


@pytest.mark.parametrize(
    "text", ["a", "12", "-3", "0.5", "true", "null", "~", "", "16Gi", "15m", "0x1F", ".inf", ".nan"]
)
def test_what_both_read_alike_passes(text: str) -> None:
    assert not differs(text)


def test_an_unquoted_time_is_to_be_quoted(tmp_path: Path) -> None:
    text = shortest(hours="overnight: [{ pool: train, at: 22:00, for: 2h, workers: 2 }]")

    assert problem_of(text, tmp_path) == (
        ":3: ebbtide:businessHours.overnight[0].at: wanted a value with one meaning, found 22:00 without quotes, "
        'which YAML 1.1 and 1.2 read differently; quote it: "22:00"'
    )


def test_norway_is_a_country(tmp_path: Path) -> None:
    assert problem_of(shortest(hours="holidays: { country: NO }"), tmp_path).tells("yaml.ambiguous", "quote it")
    assert "quote it" not in str(problems_of(shortest(hours='holidays: { country: "NOX" }'), tmp_path)[0])


def test_an_ambiguous_key_is_refused_too(tmp_path: Path) -> None:
    text = shortest(more="ebbtide:costs: { tags: { on: call } }")

    assert problem_of(text, tmp_path).tells(
        "yaml.ambiguous", "found the key on without quotes, which YAML 1.1 and 1.2 read differently", "quote it"
    )


@pytest.mark.parametrize("key", ["null", "1.10"])
def test_a_key_that_yaml_reads_as_no_text_is_refused(key: str, tmp_path: Path) -> None:
    text = shortest(more=f"ebbtide:costs: {{ tags: {{ {key}: call }} }}")

    assert problem_of(text, tmp_path).tells("yaml.ambiguous", f"found the key {key} without quotes", "quote it")


def test_a_key_given_twice_is_refused(tmp_path: Path) -> None:
    text = shortest(more="ebbtide:customer: other")

    assert problem_of(text, tmp_path) == (
        ":6: ebbtide:customer: wanted each key once, found the key a second time, first in line 2"
    )


def test_anchors_are_refused(tmp_path: Path) -> None:
    text = shortest().replace("mon-fri:", "mon: &day").replace('"08:00-18:00" }', '"08:00-18:00", tue: *day }')

    assert problem_of(text, tmp_path).startswith(
        ":3: ebbtide:businessHours.week.mon: wanted every value written out, found an anchor, an alias or a merge"
    )


def test_text_that_is_not_yaml_is_one_problem_with_its_line(tmp_path: Path) -> None:
    assert problem_of("config:\n  a: [1, 2\n  b: 3\n", tmp_path).startswith(":3: wanted YAML, found ")


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "just words", "config:\n", "config: [1]\n", "\x00"])
def test_a_file_of_another_form_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    assert problem_of(text, tmp_path).code == ("yaml.control-character" if text == "\x00" else "file.form")


def test_a_tag_is_refused_and_a_text_tag_is_quotes(tmp_path: Path) -> None:
    assert problem_of(shortest().replace("max: 4", "max: !number 4"), tmp_path).tells("yaml.tag", "remove the tag")
    tagged = shortest(hours="overnight: [{ pool: train, at: !!str 22:00, for: 2h, workers: 9 }]")
    assert problem_of(tagged, tmp_path).tells("overnight.above-max", "4")


def test_a_control_character_is_told_with_its_line_and_not_shown(tmp_path: Path) -> None:
    text = shortest().replace("Europe/Berlin", "Europe/\x1b[31mBerlin")

    assert problem_of(text, tmp_path) == ":3: wanted text without control characters, found the character U+001B"


@pytest.mark.parametrize("depth", [20, 300, 450, 100_000])
def test_what_nests_deeper_than_any_sound_file_is_refused_where_it_stands(depth: int, tmp_path: Path) -> None:
    text = shortest(train=f"morning: {'[' * depth}1{']' * depth}")

    assert problem_of(text, tmp_path) == (
        ":5: ebbtide:workers.train.morning: wanted at most 20 levels, found a text nested too deeply"
    )


def test_a_file_larger_than_any_stack_is_refused_without_reading_it_whole(tmp_path: Path) -> None:
    problem = problem_of(shortest() + "# " + "x" * MOST_BYTES, tmp_path)

    assert problem == ": wanted a readable file of at most 2 MiB, found more than 2 MiB"


@pytest.mark.parametrize("many", ["a, ", "[], ", "{}, ", "012, ", "[\n], "])
def test_more_values_than_any_stack_has_are_refused_where_they_stand(many: str, tmp_path: Path) -> None:
    text = shortest(train=f"morning: [{many * (MOST_VALUES + 1)}]")

    line = ":5" if "\n" not in many else ":"
    assert problem_of(text, tmp_path).startswith(line)
    assert problem_of(text, tmp_path).endswith(
        "ebbtide:workers.train.morning: wanted at most 50000 keys and values, found more"
    )


def test_one_wrong_instance_type_thousands_of_times_is_looked_up_once(tmp_path: Path) -> None:
    nearest_type.cache_clear()
    wrong = ", ".join(["m7i.lagre"] * 3000)

    problems = problems_of(shortest(more=f"ebbtide:nodeGroups: {{ fixed: {{ instanceTypes: [{wrong}] }} }}"), tmp_path)

    assert len(problems) >= 3000
    assert nearest_type.cache_info().misses == 1


def test_a_long_number_is_no_error_of_python(tmp_path: Path) -> None:
    problem = problem_of(shortest(train=f"min: {'9' * 5000}"), tmp_path)

    assert problem.startswith(":5: ebbtide:workers.train.min: wanted ")
    assert len(problem) < 400


@pytest.mark.parametrize("key", ["ebbtide:" + "x" * 5000, "ebbtide:\\n\\e[2J", "ebbtide:\\u202ecostsx"])
def test_long_and_odd_keys_are_shown_in_short_and_on_one_line(key: str, tmp_path: Path) -> None:
    problem = problem_of(shortest(more=f'"{key}": 1'), tmp_path)

    assert problem.isprintable()
    assert len(problem) < 600
