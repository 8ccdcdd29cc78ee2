"""The kinds of dangers: their codes and severities, and their places in the published schema."""

import json

import pytest

from ebbtide.findings import Severity
from ebbtide.preview.dangers import KINDS
from ebbtide.preview.dangers.kinds import danger_kind
from ebbtide.preview.render.as_json import schema_text
from tests.paths import ROOT

SCHEMA = (ROOT / "docs" / "preview.schema.json").read_text(encoding="utf-8")


def codes(schema: str) -> list[str]:
    return json.loads(schema)["$defs"]["Danger"]["properties"]["code"]["enum"]


def test_a_danger_has_the_worst_severity_of_its_kind_unless_another_is_given() -> None:
    lost = KINDS["queues-lost"]

    assert lost.danger(text="deletes Redis").severity is Severity.BLOCKING
    assert lost.danger(text="deletes Redis", severity=Severity.WARNING).severity is Severity.WARNING


def test_a_danger_has_no_severity_that_its_kind_does_not_register() -> None:
    with pytest.raises(ValueError, match="queues-lost: wanted one of blocking, warning, found note"):
        KINDS["queues-lost"].danger(text="deletes Redis", severity=Severity.NOTE)


def test_a_code_is_registered_once() -> None:
    with pytest.raises(ValueError, match="queues-lost: wanted a new code"):
        danger_kind("queues-lost", "another kind with the same code", Severity.NOTE)


def test_published_codes_keep_their_places_and_new_ones_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    published = codes(SCHEMA)
    monkeypatch.setitem(KINDS, "a-new-danger", KINDS["queues-lost"])

    assert codes(schema_text(SCHEMA)) == [*published, "a-new-danger"]
