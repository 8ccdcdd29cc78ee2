"""Snapshots of the disks of stateful services: each volume's policy finds its disks and no others."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from components.pods.disks import Disks
from ebbtide.provisioning_labels import VOLUME
from tests.builders.recorded import record
from tests.builders.rights import workload
from tests.builders.stack import Recorded, stack_settings

pytestmark = pytest.mark.whole

LONGEST = "a" * 40
DAILY = {"every": "24h", "keep": 7}
POLICY = "LifecyclePolicy"


def stack_of(services: Mapping[str, Any], customer: str = "acme") -> Recorded:
    """Services by name, each with its volumes."""
    workloads = {name: workload(kind="stateful-set", volumes=volumes) for name, volumes in services.items()}
    return Recorded(record(stack_settings(customer=customer, workloads=workloads)))


def stack(**services: Mapping[str, Any]) -> Recorded:
    return stack_of(services)


def volume(**keys: Any) -> Mapping[str, Any]:
    return {"perPod": "10Gi", "at": "/data", **keys}


def disk_tags(found: Recorded, class_name: str) -> dict[str, str]:
    """The tags that the driver sets on the disks of a class."""
    (class_,) = [r for r in found.of("StorageClass") if r.inputs["metadata"]["name"] == class_name]
    specified = [text for key, text in class_.inputs["parameters"].items() if key.startswith("tagSpecification")]
    return dict(text.split("=", 1) for text in specified)


def targets(found: Recorded) -> list[dict[str, str]]:
    return [policy.inputs["policyDetails"]["targetTags"] for policy in found.of(POLICY)]


def test_a_policy_finds_the_disks_of_its_volume_by_a_tag_that_no_other_disk_has() -> None:
    found = stack(db={"data": volume(snapshots=DAILY), "log": volume(at="/log")}, hub={"data": volume()})

    (target,) = targets(found)
    assert target == disk_tags(found, "ebbtide.db.data") == {VOLUME: "acme.db.data"}
    others = [disk_tags(found, name) for name in ("ebbtide.db.log", "ebbtide.hub.data")]
    assert all(tags and not tags.items() & target.items() for tags in others)


def test_another_customer_in_the_same_account_has_other_tags_although_all_else_is_the_same() -> None:
    (ours,), (theirs,) = (
        targets(stack_of({"db": {"data": volume(snapshots=DAILY)}}, customer)) for customer in ("a", "b")
    )

    assert not ours.items() & theirs.items()


def test_names_that_look_alike_when_joined_are_still_apart() -> None:
    one = Disks(customer="acme", workload="db-a", volume="b")
    other = Disks(customer="acme", workload="db", volume="a-b")

    assert one.class_name != other.class_name
    assert one.tags != other.tags
    assert len(targets(stack_of({"db-a": {"b": volume(snapshots=DAILY)}, "db": {"a-b": volume(snapshots=DAILY)}}))) == 2


@pytest.mark.parametrize("name", ["db", "d-b", LONGEST])
def test_a_description_has_only_what_aws_takes(name: str) -> None:
    (policy,) = stack_of({name: {"x" * 63: volume(snapshots=DAILY)}}, "a" * 24).of(POLICY)

    assert re.fullmatch(r"[0-9A-Za-z _-]{1,500}", policy.inputs["description"])
    assert all(len(tag) <= 256 for tag in policy.inputs["tags"].values())
