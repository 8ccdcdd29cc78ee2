"""Blocks of YAML in the pages, and the stack files that they show."""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from ebbtide.settings import StackSettings, parse_stack
from tests.paths import ROOT

CONFIG: Mapping[str, Any] = {
    "ebbtide:customer": "acme",
    "ebbtide:businessHours": {"timezone": "UTC", "week": {"mon-fri": "08:00-18:00"}},
    "ebbtide:cluster": {"version": "1.36"},
}
"""The keys that a page leaves out."""


def blocks_of(page: str) -> list[dict[str, Any]]:
    """All blocks of a page under docs/."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)]


def stack_of(page: str) -> StackSettings:
    """All sections that the page shows, in one stack. Raises if `check` would refuse it, or if two have one name."""
    config = dict(CONFIG)
    for block in blocks_of(page):
        shown = block.get("config", block)
        for key, value in shown.items():
            if not key.startswith("ebbtide:"):
                continue
            if key in config and key not in CONFIG:
                assert not config[key].keys() & value.keys(), f"{page} shows {key} twice"
                value = {**config[key], **value}  # noqa: PLW2901
            config[key] = value
    return parse_stack(config, stack="acme", file=page)
