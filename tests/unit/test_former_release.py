"""A stack that runs with the former release, seen by today's program: nothing is replaced, renamed or lost."""

import gzip
import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pytest

from ebbtide.preview.changes import changes_between
from ebbtide.preview.document import ChangeKind
from ebbtide.recording.resources import Resource
from ebbtide.settings import load_stack
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import load
from tests.builders.recorded import record
from tests.paths import DATA

pytestmark = pytest.mark.whole

FORMER = DATA / "former-release"
STACKS = sorted(path.name for path in FORMER.iterdir() if path.is_dir())


@cache
def former(stack: str) -> tuple[Resource, ...]:
    rows: list[dict[str, Any]] = json.loads(gzip.decompress((FORMER / stack / "resources.json.gz").read_bytes()))
    for row in rows:
        row.update({key: tuple(row[key]) for key in ("depends_on", "ignore_changes", "secret_outputs")})
    return tuple(Resource(**row) for row in rows)


@cache
def today(stack: str) -> tuple[Resource, ...]:
    return record(load_stack(str(FORMER / f"Pulumi.{stack}.yaml"), FORMER))


def physical_names(resources: Sequence[Resource]) -> Mapping[str, Any]:
    """What a provider names a thing by, where the program chooses the name: by URN."""
    chosen = ("name", "namePrefix", "replicationGroupId", "clusterName", "nodeGroupName", "roleArn", "tags")
    return {
        resource.urn: (
            resource.inputs.get("metadata", {}).get("namespace"),
            resource.inputs.get("metadata", {}).get("name"),
            *(resource.inputs.get(key) for key in chosen),
        )
        for resource in resources
    }


@pytest.mark.parametrize("stack", STACKS)
def test_every_urn_of_the_former_release_is_still_registered(stack: str) -> None:
    lost = {resource.urn for resource in former(stack)} - {resource.urn for resource in today(stack)}

    assert former(stack)
    assert not lost


@pytest.mark.parametrize("stack", STACKS)
def test_nothing_of_a_running_stack_is_replaced_or_deleted(stack: str) -> None:
    changes = changes_between(former(stack), today(stack))

    assert [change for change in changes if change.kind in (ChangeKind.REPLACE, ChangeKind.DELETE)] == []


@pytest.mark.parametrize("stack", STACKS)
def test_physical_names_stay(stack: str) -> None:
    names = physical_names(today(stack))

    assert {urn: names[urn] for urn in physical_names(former(stack))} == physical_names(former(stack))


@pytest.mark.parametrize("stack", STACKS)
def test_a_controller_loads_the_former_releases_config_document(stack: str) -> None:
    text = (FORMER / stack / "controller-config.json").read_text(encoding="utf-8")

    assert load(ControllerConfig, text).customer == stack
