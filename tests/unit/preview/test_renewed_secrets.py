"""Values that are encrypted again, and the pods that roll with them."""

from pathlib import Path

import pytest

from ebbtide.findings import Severity
from ebbtide.preview.changes import changes_between
from ebbtide.preview.dangers import dangers_of
from ebbtide.preview.document import Danger
from ebbtide.preview.sides import side_now
from tests.builders.settings import SHORTEST
from tests.builders.sides import Repository, coded

pytestmark = pytest.mark.process

SECRETS = """
  ebbtide:digestKey: { secure: "v1:a:key" }
  ebbtide:secrets:
    login: { user: { secure: "v1:a:user" }, password: { secure: "v1:a:password" } }
    other: { token: { secure: "v1:a:token" } }
  ebbtide:workloads:
    store: { category: fixed, image: "s:1", cpu: 1, memory: 1Gi, envFrom: [{ secret: login }] }
    api: { category: flexible, image: "a:1", cpu: 1, memory: 1Gi, env: { PASSWORD: { secret: login, key: password } } }
    web: { category: flexible, image: "w:1", cpu: 1, memory: 1Gi, env: { TOKEN: { secret: theirs, key: token } } }
    hub: { category: flexible, image: "h:1", cpu: 1, memory: 1Gi,
           ports: { http: 8000 }, sleep: { when: idle, hub: { secret: other, key: token } } }
  ebbtide:monitoring: { prometheus: bundled }
  ebbtide:jobs:
    once: { image: "j:1", cpu: 1, memory: 1Gi, longestRun: 1h, envFrom: [{ secret: login }] }
"""


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path)
    repository.commit(SHORTEST + SECRETS.lstrip("\n"))
    return repository


def said(repository: Repository, *changes: tuple[str, str], **engine: bool) -> tuple[Danger, ...]:
    text = SHORTEST + SECRETS.lstrip("\n")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    repository.write(text)
    before, after = repository.at("HEAD"), side_now("acme", repository.root)
    assert after.problems == ()
    return dangers_of(before, after, changes_between(before.resources, after.resources), **engine)


@pytest.mark.parametrize("new", [True, False])
def test_placeholders_are_named_since_pulumi_refuses_them(repository: Repository, new: bool) -> None:
    repository.write((SHORTEST + SECRETS.lstrip("\n")).replace('"v1:a:key"', "PLACEHOLDER"))
    after = side_now("acme", repository.root)

    (found,) = [
        danger
        for danger in dangers_of(None if new else repository.at("HEAD"), after, [])
        if danger.code == "secrets-unset"
    ]

    assert (found.severity, found.subjects) == (Severity.WARNING, ("ebbtide:digestKey",))
    assert "ebbtide check prints the commands" in found.remedy


def test_the_pods_that_take_a_value_roll(repository: Repository) -> None:
    found = said(repository, ("v1:a:password", "v1:b:password"))

    assert coded(found) == [
        (Severity.WARNING, "workload-restarted", ("store",)),
        (Severity.NOTE, "pods-rolled", ("api",)),
    ]
    assert found[0].text == "restarts store (fixed) if a value has changed: login.password is encrypted again"
    assert "v1:" not in repr(found)


def test_a_value_that_one_pod_takes_rolls_that_one(repository: Repository) -> None:
    assert [it.subjects for it in said(repository, ("v1:a:user", "v1:b:user"))] == [("store",)]


def test_a_value_that_only_a_controller_takes_rolls_nobody(repository: Repository) -> None:
    assert said(repository, ("v1:a:token", "v1:b:token")) == ()


def test_another_key_of_the_digests_rolls_all_that_take_a_secret_of_the_stack(repository: Repository) -> None:
    found = said(repository, ("v1:a:key", "v1:b:key"))

    assert [it.subjects for it in found] == [("store",), ("api",)]
    assert "the key of the digests is encrypted again" in found[0].text


def test_the_engines_plan_needs_no_guess(repository: Repository) -> None:
    assert said(repository, ("v1:a:password", "v1:b:password"), planned=True) == ()


def test_a_job_does_not_run_again_because_a_secret_has_changed(repository: Repository) -> None:
    assert all("once" not in it.subjects for it in said(repository, ("v1:a:user", "v1:b:user")))
