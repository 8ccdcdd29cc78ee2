"""The section of Ray clusters: values, contradictions, and placement of its pods."""

from datetime import timedelta
from pathlib import Path

import pytest

from ebbtide.settings.declared import declared_pods
from ebbtide.settings.model import StackSettings
from tests.builders.existing import onprem
from tests.builders.settings import loaded, problem_of, problems_of, shortest, told

IMAGE = "registry.example.com/ml/ray:2.60.0"
HEAD = "head: { cpu: 2, memory: 6Gi }"
CPU = "cpu: { max: 20, cpu: 7, memory: 24Gi }"
GPU = "gpu: { max: 4, cpu: 3, memory: 12Gi, gpu: 1 }"


def cluster(
    *, version: str = '"2.60.0"', image: str = IMAGE, head: str = HEAD, groups: str = f"{CPU}, {GPU}", more: str = ""
) -> str:
    told = f"version: {version}, image: {image!r}, {head}, groups: {{ {groups} }}, longestTask: 30m"
    return f"{told}, {more}" if more else told


def stack(section: str, *, train: str = "", more: str = "") -> str:
    return shortest(train=train, more=f"ebbtide:ray: {{ flow: {{ {section} }} }}\n{more}")


def loaded_stack(text: str, folder: Path) -> StackSettings:
    return loaded(text, folder)


def test_head_and_groups_have_the_image_of_the_cluster_and_a_place(tmp_path: Path) -> None:
    settings = loaded_stack(stack(cluster()), tmp_path)
    flow = settings.ray["flow"]

    assert {entry.image for entry in (flow.head, *flow.groups.values())} == {IMAGE}
    assert {name: group.node_group for name, group in flow.groups.items()} == {"cpu": "flexible", "gpu": "gpu"}
    assert (flow.groups["cpu"].min, flow.groups["cpu"].idle_after) == (0, timedelta(minutes=2))
    assert flow.grace == timedelta(minutes=32)
    of_ray = {entry.path: entry.namespace for entry in declared_pods(settings) if entry.path.startswith("ray.")}
    paths = ("ray.flow.head", "ray.flow.groups.cpu", "ray.flow.groups.gpu")
    assert of_ray == dict.fromkeys(paths, "ebbtide-ray-flow")


@pytest.mark.parametrize(
    ("section", "code", "at"),
    [
        (cluster(version="2.60"), "ray.version-form", "version:"),
        (cluster(version='"2.40.0"', image="ray"), "ray.version-unknown", "version:"),
        (cluster(image="example.com/ray:2.59.1-py311"), "ray.image-version", "image:"),
        (cluster(groups=""), "list.empty", "groups:"),
        (cluster(groups="cpu: { max: 2, cpu: 500m, memory: 1Gi }"), "ray.cores", "groups.cpu.cpu:"),
        (cluster(groups="cpu: { max: 2, cpu: 64, memory: 1Gi }"), "pod.too-large", "groups.cpu:"),
        (cluster(groups="cpu: { min: 3, max: 2, cpu: 1, memory: 1Gi }"), "min.above-max", "groups.cpu.min:"),
        (
            cluster(groups="cpu: { max: 2, cpu: 1, memory: 1Gi, nodeGroup: fixed }"),
            "node-group.kind",
            "groups.cpu.node",
        ),
        (cluster(groups="cpu: { max: 2, cpu: 1, memory: 1Gi, nodeGroup: none }"), "name.unknown", "groups.cpu.node"),
        (cluster(groups="cpu: { max: 2, cpu: 1, memory: 1Gi, spot: true }"), "ray.spot-too-long", "longestTask:"),
        (cluster(groups="cpu: { max: 2, cpu: 1, memory: 1Gi, replicas: 2 }"), "key.elsewhere", "groups.cpu.replicas:"),
        (
            cluster(groups=f"cpu: {{ max: 2, cpu: 1, memory: 1Gi, image: {IMAGE!r} }}"),
            "ray.not-its-own",
            "groups.cpu.image:",
        ),
        (cluster(head="head: { cpu: 2, memory: 6Gi, command: [sh] }"), "ray.not-its-own", "head.command:"),
        (cluster(head="head: { cpu: 2, memory: 6Gi, ports: { http: 80 } }"), "ray.not-its-own", "head.ports:"),
        (cluster(head="head: { cpu: 2, memory: 6Gi, priority: 5 }"), "ray.not-its-own", "head.priority:"),
        (cluster(head="head: { cpu: 2, memory: 6Gi, nodeGroup: flexible }"), "key.elsewhere", "head.nodeGroup:"),
        (
            cluster(head="head: { cpu: 2, memory: 6Gi, faultTolerance: disk }"),
            "choice.unknown",
            "head.faultTolerance:",
        ),
        (
            cluster(head="head: { cpu: 2, memory: 6Gi, faultTolerance: redis, env: { REDIS_PASSWORD: x } }"),
            "ray.head-redis",
            "head.env.REDIS_PASSWORD:",
        ),
        (cluster(head="head: { cpu: 64, memory: 6Gi }"), "pod.too-large", "head:"),
        (cluster(more="autoscaler: v1"), "key.elsewhere", "autoscaler:"),
        (cluster(more="loginShell: true"), "key.elsewhere", "loginShell:"),
        (cluster(more="sleep: { when: sometimes }"), "choice.unknown", "sleep.when:"),
        (cluster(more="sleep: { when: idle, wake: [queue, queue] }"), "list.twice", "sleep.wake"),
        (cluster(more="sleep: { after: 1h }"), "key.missing", "sleep.when"),
    ],
)
def test_what_cannot_hold_is_refused_where_it_stands(section: str, code: str, at: str, tmp_path: Path) -> None:
    assert problem_of(stack(section), tmp_path).tells(code, f"ray.flow.{at}")


def test_a_head_with_a_gpu_is_refused(tmp_path: Path) -> None:
    problems = problems_of(stack(cluster(head="head: { cpu: 2, memory: 6Gi, gpu: 1 }")), tmp_path)
    assert {told(problem).code for problem in problems} >= {"ray.head-gpu"}


def test_a_pool_drives_a_cluster_of_the_file(tmp_path: Path) -> None:
    assert loaded_stack(stack(cluster(), train="ray: flow"), tmp_path).workers["train"].ray == "flow"
    problem = problem_of(stack(cluster(), train="ray: flo"), tmp_path)
    assert problem.tells("ray.unknown-cluster", "workers.train.ray:", "did you mean flow?")


def test_the_secrets_that_ray_pods_take_are_looked_up(tmp_path: Path) -> None:
    head = "head: { cpu: 2, memory: 6Gi, env: { TOKEN: { secret: hub, key: NAME } } }"
    secrets = 'ebbtide:secrets: { hub: { TOKEN: { secure: "v1:x" } } }\nebbtide:digestKey: { secure: "v1:y" }'
    problem = problem_of(stack(cluster(head=head), more=secrets), tmp_path)
    assert problem.tells("secret.key-unknown", "ray.flow.head.env.TOKEN")


def test_an_image_for_the_operator_is_of_no_use_where_another_one_is_there(tmp_path: Path) -> None:
    own = f"ebbtide:ray: {{ flow: {{ {cluster()} }} }}\nebbtide:images: {{ rayOperator: 'kuberay:1' }}"

    assert loaded_stack(onprem(more=own), tmp_path).images.ray_operator == "kuberay:1"
    problem = problem_of(onprem("rayOperator: existing", more=own), tmp_path)
    assert problem.tells("image.unused", "ebbtide:images.rayOperator:")


def test_heads_count_among_what_fixed_nodes_must_hold(tmp_path: Path) -> None:
    one = "ebbtide:nodeGroups: { fixed: { instanceTypes: [m7i.xlarge], min: 2, max: 2 }, flexible: {}, gpu: {} }"
    heads = ", ".join(f"f{n}: {{ {cluster(head='head: { cpu: 3, memory: 6Gi }')} }}" for n in range(3))
    problem = problem_of(shortest(more=f"ebbtide:ray: {{ {heads} }}\n{one}"), tmp_path)
    assert problem.tells("fixed.no-room", "nodeGroups.fixed.max:")
