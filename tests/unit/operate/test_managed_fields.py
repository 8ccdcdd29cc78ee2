"""Removing an owner from a field's list changes nothing else."""

from typing import Any

from ebbtide.operate.release import MAX_UNAVAILABLE, REPLICAS, owners_of, without_owner

OURS = "ebbtide-controller"


def entry(manager: str, fields: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"manager": manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields, **more}


SCALE = entry(OURS, {"f:spec": {"f:replicas": {}}}, subresource="scale")
PULUMI = entry("pulumi", {"f:spec": {"f:replicas": {}, "f:template": {}}})


def test_an_entry_that_owned_nothing_else_is_removed_and_others_stay() -> None:
    assert without_owner([PULUMI, SCALE], REPLICAS, OURS) == [PULUMI]


def test_a_manager_keeps_its_other_fields() -> None:
    mixed = entry(OURS, {"f:metadata": {"f:labels": {}}, "f:spec": {"f:maxUnavailable": {}, "f:selector": {}}})

    (left,) = without_owner([mixed], MAX_UNAVAILABLE, OURS)

    assert left["fieldsV1"] == {"f:metadata": {"f:labels": {}}, "f:spec": {"f:selector": {}}}


def test_a_list_without_owners_is_one_empty_entry() -> None:
    assert without_owner([SCALE], REPLICAS, OURS) == [{}]


def test_owners_are_those_of_the_very_field() -> None:
    assert owners_of([PULUMI, SCALE, {}], REPLICAS) == ["pulumi", OURS]
    assert owners_of([PULUMI, SCALE], MAX_UNAVAILABLE) == []
