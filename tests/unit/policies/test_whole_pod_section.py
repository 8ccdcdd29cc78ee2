"""A stack that uses every key of a pod breaks no rule."""

from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path

from ebbtide.policies import judge
from ebbtide.recording.resources import Resource, short_type
from ebbtide.recording.state import StackState
from ebbtide.settings import StackSettings, parse_stack
from ebbtide.settings.sections.pods.pod import PodSettings
from ebbtide.settings.sections.pods.volumes import Volume
from tests.builders.real_size import real_size, real_size_text
from tests.builders.recorded import record
from tests.builders.settings import loaded

TODAY = date(2026, 11, 20)


@cache
def settings() -> StackSettings:
    return parse_stack(real_size(workloads=8, pools=6), stack="acme", file="any")


@cache
def resources() -> tuple[Resource, ...]:
    return record(settings())


def test_no_rule_is_broken_by_any_key() -> None:
    assert judge(settings(), resources(), TODAY) == ()


def with_a_gpu_service() -> StackSettings:
    config = real_size(workloads=1, pools=1)
    config["ebbtide:nodeGroups"]["gpu-large"] = {"kind": "gpu", "instanceTypes": ["g6e.2xlarge"], "max": 4}
    size = {"image": "serve:1", "replicas": 2, "cpu": 1, "memory": "4Gi", "gpu": {"memory": "40Gi"}}
    probe = {"readiness": {"tcp": "http"}}
    config["ebbtide:workloads"]["serve"] = {"category": "flexible", **size, "ports": {"http": 80}, "probes": probe}
    return parse_stack(config, stack="acme", file="any")


def test_a_service_is_judged_by_the_gpu_groups_that_its_pods_may_go_to() -> None:
    stack = with_a_gpu_service()
    resources = record(stack)
    without = [one for one in resources if not one.name.startswith("gpu-large-")]

    pods = next(pods for pods in StackState(stack, resources).pods if pods.name == "serve")
    assert {group.name for group in StackState(stack, resources).groups_for(pods)} == {"gpu-large"}
    assert judge(stack, resources, TODAY) == ()
    assert "Deployment ebbtide/serve" in {result.resource for result in judge(stack, without, TODAY)}


def test_every_key_is_used() -> None:
    pods: list[PodSettings] = [*settings().workloads.values(), *settings().workers.values()]
    volumes = [volume for pod in pods for volume in pod.volumes.values()]

    used = {key for pod in pods for key in pod.model_fields_set}
    assert set(PodSettings.model_fields) - used == set()
    assert set(Volume.model_fields) - {key for volume in volumes for key in volume.model_fields_set} == set()


def test_a_priority_whose_class_preempts_is_found_on_its_workloads_alone() -> None:
    preempting = [
        replace(one, inputs={**one.inputs, "preemptionPolicy": "PreemptLowerPriority"})
        if short_type(one.type) == "PriorityClass" and one.inputs["value"] == 10
        else one
        for one in resources()
    ]

    found = judge(settings(), preempting, TODAY)

    assert {result.code for result in found} == {"EB016"}
    assert {result.resource for result in found} == {f"Deployment ebbtide-workers/pool-0{n}" for n in range(6)}


def test_its_text_is_read_as_it_is(tmp_path: Path) -> None:
    assert loaded(real_size_text(workloads=8, pools=6), tmp_path).workloads.keys() == settings().workloads.keys()
