"""A rule across sections only reads the sections that it names: others may be invalid."""

from collections.abc import Mapping
from functools import cache

import pytest
import yaml

from ebbtide.settings import load_stack
from ebbtide.settings.checks.crosschecks import RULES
from ebbtide.settings.checks.parsed import CheckRule, ParsedSections
from ebbtide.settings.file.document import REGION
from ebbtide.settings.file.keys import FIELDS, PODS
from ebbtide.settings.model import StackSettings
from tests.golden.stacks import FILES

FULL = ("full-eks", "full-existing")


@cache
def loaded(stack: str) -> tuple[StackSettings, Mapping[str, object]]:
    path = FILES / "stacks" / f"{stack}.yaml"
    return load_stack(str(path)), yaml.safe_load(path.read_text(encoding="utf-8"))["config"]


def parsed_sections(stack: str, sections: frozenset[str]) -> ParsedSections:
    """Return the sections as if only these were valid."""
    settings_of_stack, config = loaded(stack)
    names = {"region", "region_set", *(field for section, field in FIELDS.items() if section in sections)}
    settings = StackSettings.model_construct(None)
    vars(settings).clear()
    vars(settings).update({name: value for name, value in vars(settings_of_stack).items() if name in names})
    return ParsedSections(
        stack=settings, valid=sections, config=config, existing=settings_of_stack.cluster.context is not None
    )


@pytest.mark.parametrize("stack", FULL)
@pytest.mark.parametrize("rule", RULES, ids=[rule.find.__qualname__ for rule in RULES])
def test_a_rule_finds_nothing_in_a_sound_file_by_the_sections_that_it_names(rule: CheckRule, stack: str) -> None:
    for section in PODS:
        assert [*rule.findings(parsed_sections(stack, frozenset({REGION, section, *rule.needs})))] == []
