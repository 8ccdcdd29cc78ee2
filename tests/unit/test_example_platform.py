"""The platform under examples/ is sound, and shows what its page says that it shows."""

import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any, cast

import pytest
import yaml

from ebbtide.policies import judge
from ebbtide.settings import warnings_of
from ebbtide.settings.load import read_stack
from ebbtide.settings.sections.pods.pod import PodSettings
from ebbtide.settings.sections.pods.volumes import Volume
from ebbtide.settings.sections.workloads import WorkloadSettings
from tests.builders.example import README, STACK_FILE, example, notebook
from tests.builders.recorded import record

TODAY = date(2026, 11, 20)
PAGE = README.read_text(encoding="utf-8")
CONFIG: Mapping[str, Any] = yaml.safe_load(STACK_FILE.read_text(encoding="utf-8"))["config"]
SECTIONS = ("workloads", "workers", "jobs", "cronJobs")
PARTS: Mapping[str, Mapping[str, Any]] = {
    name: entry for section in SECTIONS for name, entry in CONFIG[f"ebbtide:{section}"].items()
}
ROWS: tuple[tuple[frozenset[str], str], ...] = tuple(
    (frozenset(re.findall(r"`([^`]+)`", names)), shows)
    for names, _, shows in re.findall(
        r"^\| (.+?) \| (.+?) \| (.+) \|$", PAGE.partition("## Who may be moved")[0], re.MULTILINE
    )
)
"""The parts of each row of the page's table, and what it says that they show."""


def keys_in(value: object) -> Iterator[str]:
    """All keys of a part, however deep. The names of files are keys, too: no key of Ebbtide has a dot."""
    if isinstance(value, dict):
        for key, inner in cast("dict[str, object]", value).items():
            yield key
            yield from keys_in(inner)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from keys_in(item)


def quoted(text: str) -> set[str]:
    """What stands between backticks there, without values and names of objects."""
    return {key.partition(":")[0] for key in re.findall(r"`([^`]+)`", text) if not key.startswith("ebbtide-")}


def test_no_policy_finds_anything() -> None:
    assert judge(example(), record(example()), TODAY) == ()


def test_check_warns_of_what_the_page_names() -> None:
    assert {caution.place for caution in warnings_of(example(), TODAY)} == {"controller.image"}
    assert "`check` warns of the placeholders and of one thing more" in PAGE


def test_the_page_has_the_commands_that_check_prints_for_the_placeholders() -> None:
    placeholders = read_stack(str(STACK_FILE)).secret_cautions()

    assert [caution.text.partition("set the value: ")[2] for caution in placeholders] == re.findall(
        r"^   (pulumi config set .+)$", PAGE, re.MULTILINE
    )


def test_the_page_names_every_part() -> None:
    assert {name for names, _ in ROWS for name in names} == {*PARTS, *CONFIG["ebbtide:secrets"]}


@pytest.mark.parametrize(("names", "shows"), [row for row in ROWS if row[0] & PARTS.keys()])
def test_each_key_that_the_page_claims_is_used_there(names: frozenset[str], shows: str) -> None:
    used = {key for name in names for key in keys_in(PARTS[name])}

    assert quoted(shows) - used == set()


def test_what_is_not_shown_is_said() -> None:
    models = (PodSettings, WorkloadSettings, Volume)
    offered = {field.alias or name for model in models for name, field in model.model_fields.items()}
    missing = offered - {key for part in PARTS.values() for key in keys_in(part)}
    (said,) = re.findall(r"^Not shown: (.+?)\.$", PAGE, re.MULTILINE)

    assert quoted(said) == missing


def test_the_hubs_notebooks_have_the_labels_of_their_budget() -> None:
    budgets = [one.inputs for one in record(example()) if one.type.endswith(":PodDisruptionBudget")]
    spawned = notebook("ada")["metadata"]
    selectors = [
        budget["spec"]["selector"]["matchLabels"]
        for budget in budgets
        if budget["metadata"]["namespace"] == spawned["namespace"] and "minAvailable" in budget["spec"]
    ]

    assert len(selectors) == 1
    assert selectors[0].items() <= spawned["labels"].items()
