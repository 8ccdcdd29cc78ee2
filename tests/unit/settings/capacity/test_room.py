"""Capacity of the maximum number of nodes: all pods at their maximum, and one more during a release."""

from pathlib import Path
from typing import Any

import pytest

from ebbtide.settings import Caution, warnings_of
from ebbtide.settings.load import stack_of_text
from tests.builders.generated import text_of
from tests.builders.recorded import record
from tests.builders.settings import loaded, problem_of, shortest
from tests.builders.stack_files.listed import config_of

pytestmark = pytest.mark.whole

TWO_GPUS = {"gpu": {"instanceTypes": ["g5.xlarge"], "max": 2}}  # one GPU each
GPU: dict[str, Any] = {"category": "flexible", "image": "a:1", "cpu": 1, "memory": "2Gi", "gpu": 1}
SIZE: dict[str, Any] = {"cpu": 1, "memory": "2Gi", "gpu": 1}
SERVED: dict[str, Any] = {
    **SIZE,
    "image": "a:1",
    "ports": {"http": 80},
    "port": "http",
    "probes": {"readiness": {"http": "/", "port": "http"}},
    "longestRequest": "30s",
}


def stack(**sections: Any) -> str:
    groups = {"fixed": {"max": 4}, "flexible": {"max": 4}, **TWO_GPUS}
    more = {f"ebbtide:{name}": entries for name, entries in {"nodeGroups": groups, **sections}.items()}
    return text_of({**config_of("eks", ["flexible-workloads"]), **more})


def rolls(text: str) -> dict[str, dict[str, int]]:
    """Return the strategy of each Deployment by name."""
    settings = stack_of_text(text, stack="acme", file="Pulumi.acme.yaml")
    specs = {
        resource.name.removesuffix("-deployment"): resource.inputs
        for resource in record(settings)
        if "spec" in resource.inputs
    }
    return {name: specs[name]["spec"]["strategy"]["rollingUpdate"] for name in settings.all_workloads}


def cautions(text: str, code: str) -> list[Caution]:
    return [
        caution
        for caution in warnings_of(stack_of_text(text, stack="acme", file="Pulumi.acme.yaml"))
        if caution.code == code
    ]


BRINGS, TAKES = {"maxSurge": 1, "maxUnavailable": 0}, {"maxSurge": 0, "maxUnavailable": 1}
CPU = {"metrics": {"cpu": "70%"}}


@pytest.mark.parametrize(
    ("sections", "strategies"),
    [
        ({"workloads": {"api": {**GPU, "replicas": 1}}}, {"api": BRINGS}),
        ({"workloads": {"api": {**GPU, "replicas": 2}}}, {"api": TAKES}),
        ({"workloads": {"a": {**GPU, "replicas": 1}, "b": {**GPU, "replicas": 1}}}, {"a": TAKES, "b": TAKES}),
        ({"workloads": {}, "services": {"m": {**SERVED, "scale": {**CPU, "min": 1, "max": 2}}}}, {"m": TAKES}),
        ({"workloads": {"api": {**GPU, "gpu": 0, "replicas": 9}}}, {"api": BRINGS}),  # of 4 nodes with 16 CPU each
    ],
)
def test_the_next_pod_comes_first_only_where_a_node_can_have_it(
    sections: dict[str, Any], strategies: dict[str, dict[str, int]]
) -> None:
    assert rolls(stack(**sections)) == strategies


def test_on_nodes_that_others_made_the_next_pod_comes_first() -> None:
    assert rolls(text_of(config_of("existing", ["flexible-workloads"]))) == {"api": BRINGS}


JOB = {**SIZE, "image": "a:1", "longestRun": "1h", "completions": 3, "parallelism": 3}
RAY = {
    "version": "2.60.0",
    "image": "example.com/ray:2.60.0",
    "head": {"cpu": 1, "memory": "2Gi"},
    "groups": {"gpu": {**SIZE, "max": 3}},
    "longestTask": "30m",
}


@pytest.mark.parametrize(
    "sections",
    [
        {"workloads": {"api": {**GPU, "replicas": 3}}},
        {"services": {"m": {**SERVED, "scale": {**CPU, "min": 1, "max": 40}}}},
        {"jobs": {"j": JOB}},
        {"cronJobs": {"c": {**JOB, "schedule": "0 3 * * *"}}},
        {"ray": {"flow": RAY}},
        {"workloads": {"api": GPU}, "jobs": {"j": {**JOB, "parallelism": 2}}},
    ],
)
def test_whatever_may_not_find_its_nodes_is_told(sections: dict[str, Any]) -> None:
    (caution,) = cautions(stack(**sections), "node-group.too-small")

    assert caution.place == "nodeGroups.gpu.max"
    assert caution.text.startswith("2 nodes, while the pods that may run there need ")


def test_what_fills_its_nodes_exactly_is_not_told() -> None:
    sections = {"workloads": {"api": GPU}, "jobs": {"j": {**JOB, "completions": 1, "parallelism": 1}}}

    assert cautions(stack(**sections), "node-group.too-small") == []


def test_a_service_that_a_release_stops_is_named_with_the_way_out() -> None:
    claim = {"volumes": {"data": {"claim": "data", "at": "/data"}}}
    api = {**GPU, "gpu": 0}
    text = stack(workloads={"a": GPU, "b": GPU, "c": {**api, **claim}, "d": api})

    cautions_of_file = cautions(text, "release.only-pod")

    assert [caution.place for caution in cautions_of_file] == ["workloads.a", "workloads.b", "workloads.c"]
    assert "raise max of nodeGroups.gpu" in cautions_of_file[0].text
    assert "shared: true" in cautions_of_file[2].text


@pytest.mark.parametrize("text", ["shared: true", "shared: false"])
def test_what_the_file_says_of_a_claim_is_not_asked_again(text: str) -> None:
    pod = {**GPU, "gpu": 0, "volumes": {"data": {"claim": "data", "at": "/data", "shared": text.endswith("true")}}}

    assert cautions(stack(workloads={"api": pod}), "release.only-pod") == []


def test_only_a_claim_is_shared(tmp_path: Path) -> None:
    volumes = "volumes: { v: { scratch: 1Gi, at: /v, shared: true } }"
    pod = f'api: {{ category: flexible, image: "a:1", cpu: 1, memory: 1Gi, {volumes} }}'

    assert problem_of(shortest(more=f"ebbtide:workloads:\n  {pod}"), tmp_path).tells("volume.stray-key", "shared:")


OF_A_SERVICE = "port: a, ports: { a: 80 }, probes: { readiness: { tcp: a } }, longestRequest: 60s"


@pytest.mark.parametrize(
    "pod",
    [
        "workloads: { api: { category: flexible, replicas: 2",
        "workloads: { api: { category: fixed, kind: stateful-set, replicas: 3",
        "workloads: { api: { category: flexible, replicasOwner: hpa",
        f"services: {{ api: {{ {OF_A_SERVICE}, scale: {{ min: 2, max: 2 }}",
    ],
    ids=["replicas", "stateful set", "another autoscaler", "service"],
)
def test_a_claim_of_one_node_at_a_time_is_refused_where_there_may_be_a_second_pod(pod: str, tmp_path: Path) -> None:
    def text(claim: str) -> str:
        return shortest(more=f'ebbtide:{pod}, image: "a:1", cpu: 1, memory: 1Gi, volumes: {{ d: {{ {claim} }} }} }} }}')

    problem = problem_of(text("claim: data, at: /d, shared: false"), tmp_path)

    assert problem.tells("volume.one-node", "volumes.d.shared:", "found false", "(for example true)")
    for other in ("claim: data, at: /d, shared: true", "claim: data, at: /d"):
        loaded(text(other), tmp_path)
