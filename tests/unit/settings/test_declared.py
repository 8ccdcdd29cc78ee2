"""One table lists the sections of a stack file; the pods of a stack follow from it."""

from collections.abc import Mapping
from functools import cache

import pytest
import yaml

from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings import load_stack
from ebbtide.settings.declared import declared_pods
from ebbtide.settings.file.document import OURS
from ebbtide.settings.file.entries import pod_entries
from ebbtide.settings.file.keys import (
    ADOPTED,
    BASE,
    DIGEST_KEY,
    FIELDS,
    KEYS,
    LASTING,
    PODS,
    PODS_IN,
    REDIS_PASSWORD,
    WORKER_WORDS,
)
from ebbtide.settings.model import StackSettings
from tests.builders.adoption import TEAM, stack_with
from tests.golden.stacks import FILES

NOT_IN_THE_FILE = {"stack", "region", "region_set", "redis_password_set"}
FULL = ("full-eks", "full-existing")

EXAMPLES = {
    "workloads.api": ("api", "ebbtide", "flexible"),
    "workloads.hub": ("hub", "ebbtide-hub", "fixed"),  # it starts pods
    "services.ranker": ("ranker", "ebbtide", "flexible"),
    "services.embedder.variants.small": ("embedder-small", "ebbtide", "flexible"),
    "workers.train": ("train", "ebbtide-workers", "worker"),
    "jobs.migrate": ("migrate", "ebbtide-workers", "worker"),
    "cronJobs.report": ("report", "ebbtide-workers", "worker"),
    "ray.flow.head": ("flow-head", "ebbtide-ray-flow", "fixed"),
    "ray.flow.groups.cpu": ("flow-cpu", "ebbtide-ray-flow", "worker"),
}


@cache
def full_stack(name: str) -> tuple[StackSettings, Mapping[str, object]]:
    path = FILES / "stacks" / f"{name}.yaml"
    return load_stack(str(path)), yaml.safe_load(path.read_text(encoding="utf-8"))["config"]


def test_the_table_has_each_field_of_a_stack_under_its_key() -> None:
    fields = StackSettings.model_fields.items()
    keys = {OURS + (field.alias or name): name for name, field in fields if name not in NOT_IN_THE_FILE}

    assert keys == FIELDS
    assert set(KEYS) - keys.keys() == {BASE, REDIS_PASSWORD, DIGEST_KEY}


def test_the_full_stack_has_pods_in_each_section() -> None:
    stack, _ = full_stack("full-eks")

    assert {pod.at[0] for pod in declared_pods(stack)} == {*PODS}


@pytest.mark.parametrize("name", FULL)
def test_a_file_has_the_same_pods_before_and_after_validation(name: str) -> None:
    stack, config = full_stack(name)
    sections = [section for section in PODS_IN if section != f"{OURS}services"]  # whose pods get the service's keys

    written = [(pod.at, pod.name) for pod in pod_entries(config, sections)]

    assert written == [(pod.at, pod.name) for pod in declared_pods(stack, sections)]


def test_a_pod_has_its_path_its_name_its_namespace_and_its_category() -> None:
    stack, _ = full_stack("full-eks")

    pods = {pod.path: (pod.name, pod.namespace, str(pod.category)) for pod in declared_pods(stack)}

    assert {path: pods[path] for path in EXAMPLES} == EXAMPLES


def test_an_adopted_pod_is_in_its_own_namespace() -> None:
    stack = stack_with(hub={"category": "fixed", "replicas": 1, "selector": {"app": "hub"}})

    (pod,) = declared_pods(stack, [ADOPTED])

    assert (pod.path, pod.namespace, str(pod.category)) == ("adopted.hub", TEAM, "fixed")


def test_pods_that_stay_come_before_those_that_follow_the_work() -> None:
    order = ["workloads", "services", "adopted", "workers", "jobs", "cronJobs", "ray"]
    sections = [section.removeprefix(OURS) for section in PODS_IN]

    assert [section for section in sections if section in order] == order
    assert [*LASTING] == [*PODS_IN][: len(LASTING)]


def test_sections_with_words_for_workers_have_their_pods_in_the_workers_namespace() -> None:
    stack, _ = full_stack("full-eks")

    assert {pod.at[0] for pod in declared_pods(stack) if pod.namespace == WORKER_NAMESPACE} == WORKER_WORDS.keys()
