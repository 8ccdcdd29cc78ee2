"""The platform of adopted pods under examples/ breaks no policy, and its page says what the product does."""

import re
from datetime import date
from functools import cache

import pytest

from ebbtide.policies import judge
from ebbtide.preview.sides import Side
from ebbtide.settings import StackSettings, load_stack, warnings_of
from ebbtide.vocabulary.labels import Category
from tests.builders.recorded import record
from tests.builders.sides import dangers
from tests.paths import ROOT

pytestmark = pytest.mark.whole

FOLDER = ROOT / "examples" / "whole-platform"
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
TODAY = date(2026, 11, 20)
MOVES = {Category.FIXED: "stay", Category.FLEXIBLE: "move one at a time", Category.WORKER: "the same"}


@cache
def platform() -> StackSettings:
    return load_stack(str(FOLDER / "Pulumi.platform.yaml"))


def test_no_policy_finds_anything() -> None:
    assert judge(platform(), record(platform()), TODAY) == ()


def test_check_warns_of_the_controllers_image_and_of_replicas_alone() -> None:
    paths = {caution.place for caution in warnings_of(platform(), TODAY)}

    assert paths == {"controller.image", "adopted.loader.pool.replicas"}


def test_the_page_says_of_each_rule_what_happens_at_night() -> None:
    rows = re.findall(r"^\| (`.+?) \| .+? \| .+? \| (.+?) \|$", PAGE, re.MULTILINE)
    nights = {name: night for names, night in rows for name in re.findall(r"`([^`]+)`", names)}

    assert nights.keys() == platform().adopted.keys()
    for name, rule in platform().adopted.items():
        assert nights[name].startswith(MOVES[rule.category] if rule.pool is None else "sized by its queue")


def test_the_page_quotes_the_preview() -> None:
    bare = platform().model_copy(update={"adopted": {}})
    sides = (Side(stack="platform", settings=stack, resources=record(stack)) for stack in (bare, platform()))
    (begins,) = [danger for danger in dangers(*sides) if danger.code == "adoption-begins"]

    assert begins.text in " ".join(line.removeprefix("> ") for line in PAGE.splitlines())
