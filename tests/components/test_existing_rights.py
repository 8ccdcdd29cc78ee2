"""The rights that `ebbtide probe` asks for are those that a stack on an existing cluster takes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pytest

from ebbtide.cli.probe_facts import Right
from ebbtide.cli.probe_wants import KINDS, RIGHTS
from ebbtide.preview.manifests import is_object
from ebbtide.preview.recording import record
from ebbtide.preview.resources import Resource
from tests.builders_existing import twins

SPOT = {"spot": {"pool": "cheap"}}


@pytest.fixture(scope="module", params=["demo", "example-berlin"])
def objects(request: pytest.FixtureRequest) -> list[Resource]:
    return [r for r in record(twins(request.param, SPOT)[1]) if is_object(r)]


def namespace_of(resource: Resource) -> str:
    return str(resource.inputs["metadata"].get("namespace", ""))


def granted(role: Resource) -> Iterator[Right]:
    for rule in cast("Sequence[Mapping[str, Any]]", role.inputs["rules"]):
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                yield from (Right(verb, group, resource, namespace_of(role)) for verb in rule["verbs"])


def test_every_kind_of_object_is_asked_about_in_every_namespace_that_holds_one(objects: list[Resource]) -> None:
    made = {(str(r.inputs["kind"]), namespace_of(r)) for r in objects}

    assert made <= {(kind, namespace) for kind, (_, _, namespaces) in KINDS.items() for namespace in namespaces}


def test_a_kind_is_asked_about_under_its_own_group(objects: list[Resource]) -> None:
    for made in objects:
        group = str(made.inputs["apiVersion"]).rpartition("/")[0]
        assert KINDS[str(made.inputs["kind"])][0] == group


def test_what_the_roles_grant_is_asked_about_since_nobody_may_grant_more_than_he_has(objects: list[Resource]) -> None:
    rights = {right for r in objects if r.inputs["kind"] == "Role" for right in granted(r)}

    assert len(rights) > 20
    assert rights <= set(RIGHTS)
