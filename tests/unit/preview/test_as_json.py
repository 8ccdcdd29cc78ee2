"""A page as JSON, and the schema that tools may rely on."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ebbtide.preview.document import CustomerPreview, PreviewDocument
from ebbtide.preview.render.as_json import as_json, json_schema, schema_text
from tests.builders.preview import customer, danger, document, nights
from tests.paths import ROOT


def faults(text: str) -> list[str]:
    validator = Draft202012Validator(json_schema(), format_checker=Draft202012Validator.FORMAT_CHECKER)
    return [error.json_path for error in validator.iter_errors(json.loads(text))]


def bare() -> CustomerPreview:
    return customer(cost=None, nights=None, ownership=(), policies=(), simulated=None, changes=())


def test_the_written_schema_is_the_generated_one() -> None:
    written = (ROOT / "docs" / "preview.schema.json").read_text(encoding="utf-8")

    assert written == schema_text(written), "out of date; run: make schema"


@pytest.mark.parametrize("page", [document(), document(customer()), document(customer("a"), bare(), against="")])
def test_every_page_is_one_of_the_schema(page: PreviewDocument) -> None:
    Draft202012Validator.check_schema(json_schema())

    assert faults(as_json(page)) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [("verdict", "fine"), ("counts", {"create": 1}), ("cost", {}), ("dangers", [{"what": "x"}]), ("extra", 1)],
)
def test_what_a_page_never_says_is_no_page(field: str, value: Any) -> None:
    page = json.loads(as_json(document(customer())))
    page["customers"][0][field] = value

    assert faults(json.dumps(page)) != []


def test_instants_are_written_with_their_offset_and_kinds_by_name() -> None:
    page = json.loads(as_json(document(customer(nights=nights(1)))))["customers"][0]

    assert page["nights"]["rows"][0]["opens"] == "2026-11-20T12:00:00+00:00"
    assert page["counts"]["update"] == 1
    assert page["simulated"]["usd"] == [30, 24]


def test_an_impact_keeps_its_former_name_for_one_release() -> None:
    page = json.loads(as_json(document(customer(dangers=(danger(),)))))

    (shown,) = page["customers"][0]["dangers"]
    assert shown["impact"] == "up to 20 nodes; 4 services"
