"""The rights that `ebbtide probe` asks for are those that a stack on an existing cluster takes."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from ebbtide.labels import WORKER_NAMESPACE
from ebbtide.operate.probe.facts import Right
from ebbtide.operate.probe.wants import INGRESSES, KINDS, OF_JOBS, OF_PRIORITIES, RIGHTS, wants_of
from ebbtide.recording.manifests import is_object
from ebbtide.recording.resources import Resource
from tests.builders.existing import onprem, twins, with_everything
from tests.builders.recorded import record
from tests.builders.settings import loaded

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


def test_whatever_a_stack_can_be_made_of_is_asked_about_in_its_namespace() -> None:
    settings = with_everything()
    tables = {**KINDS, **OF_JOBS, **OF_PRIORITIES, "Ingress": INGRESSES}

    made = {(str(r.inputs["kind"]), namespace_of(r)) for r in record(settings) if is_object(r)}
    wanted = {Right("create", *tables[kind][:2], namespace) for kind, namespace in made}

    assert {"Ingress", "PriorityClass", "Job", "CronJob", "StatefulSet"} <= {kind for kind, _ in made}
    assert wanted - set(wants_of(settings).rights) == set()


def test_what_the_roles_of_such_a_stack_grant_is_asked_about() -> None:
    settings = with_everything()

    roles = [r for r in record(settings) if is_object(r) and r.inputs["kind"] == "Role"]
    assert {right for role in roles for right in granted(role)} <= set(wants_of(settings).rights)


def test_jobs_are_asked_about_only_where_there_are_some(tmp_path: Path) -> None:
    job = '{ image: "example.com/db:1", cpu: 1, memory: 2Gi, longestRun: 2h'
    sections = f'ebbtide:jobs: {{ migrate: {job} }} }}\nebbtide:cronJobs: {{ report: {job}, schedule: "0 3 * * *" }} }}'
    settings = loaded(onprem(more=sections), tmp_path)
    made = {(str(r.inputs["kind"]), namespace_of(r)) for r in record(settings) if is_object(r)}

    assert made & {("Job", WORKER_NAMESPACE), ("CronJob", WORKER_NAMESPACE)} == {
        (kind, namespace) for kind, (_, _, namespaces) in OF_JOBS.items() for namespace in namespaces
    }
    assert {(it.group, it.resource, it.namespace) for it in set(wants_of(settings).rights) - set(RIGHTS)} == {
        ("batch", "jobs", WORKER_NAMESPACE),
        ("batch", "cronjobs", WORKER_NAMESPACE),
    }
    assert wants_of(loaded(onprem(), tmp_path)).rights == RIGHTS
    assert [pod.name for pod in wants_of(settings).pods["flexible"]] == ["train", "migrate", "report"]


def test_what_the_roles_grant_is_asked_about_since_nobody_may_grant_more_than_he_has(objects: list[Resource]) -> None:
    rights = {right for r in objects if r.inputs["kind"] == "Role" for right in granted(r)}

    assert len(rights) > 20
    assert rights <= set(RIGHTS)
