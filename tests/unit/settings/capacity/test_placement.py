"""Choice of a pod's group by processor and by the price of the nodes for all its pods."""

from pathlib import Path

import pytest

from ebbtide.provisioning_labels import Architecture
from ebbtide.settings import StackSettings
from ebbtide.settings.capacity.homes import home_groups, pod_usd_per_hour
from ebbtide.settings.capacity.placement import takes
from ebbtide.settings.sections.serving.services import ServedWorkload
from tests.builders.existing import onprem
from tests.builders.settings import loaded, problem_of, problems_of, shortest

TWO_SIZES = """\
ebbtide:nodeGroups:
  large: { kind: flexible, instanceTypes: [m7i.8xlarge], max: 4 }
  small: { kind: flexible, instanceTypes: [m7i.xlarge], max: 40 }
"""
SMALL_POD = "image: 'example.com/a:1', cpu: 500m, memory: 1Gi"


def pool(most: int, size: str = "cpu: 500m, memory: 1Gi") -> str:
    return shortest(more=TWO_SIZES).replace("max: 4, cpu: 4, memory: 16Gi", f"max: {most}, {size}")


def beside(more: str) -> str:
    return shortest(more=TWO_SIZES + more).replace("cpu: 4, memory: 16Gi", "cpu: 1, memory: 1Gi")


def group_of_pool(settings: StackSettings) -> str:
    return settings.workers["train"].node_group


@pytest.mark.parametrize(("most", "group"), [(1, "small"), (6, "small"), (60, "large")])
def test_a_pool_goes_where_its_pods_cost_least_together(most: int, group: str, tmp_path: Path) -> None:
    """Six fit on a small node and 61 on a large one, which costs eight times as much: a single pod pays for the entire
    node.
    """
    assert group_of_pool(loaded(pool(most), tmp_path)) == group


def test_where_whole_nodes_cost_the_same_the_name_decides(tmp_path: Path) -> None:
    assert group_of_pool(loaded(pool(4).replace("m7i.8xlarge", "m7i.xlarge"), tmp_path)) == "large"


@pytest.mark.parametrize(("at_a_time", "group"), [(1, "small"), (60, "large")])
def test_jobs_and_cron_jobs_go_by_the_pods_that_run_at_a_time(at_a_time: int, group: str, tmp_path: Path) -> None:
    job = f"{SMALL_POD}, longestRun: 1h, completions: 60, parallelism: {at_a_time}"
    more = f"ebbtide:jobs: {{ fit: {{ {job} }} }}\nebbtide:cronJobs: {{ nightly: {{ {job}, schedule: '0 2 * * *' }} }}"
    settings = loaded(beside(more), tmp_path)

    assert (settings.jobs["fit"].node_group, settings.cron_jobs["nightly"].node_group) == (group, group)


@pytest.mark.parametrize(("most", "group"), [(1, "small"), (60, "large")])
def test_a_group_of_ray_goes_by_its_max(most: int, group: str, tmp_path: Path) -> None:
    groups = f"groups: {{ cpu: {{ max: {most}, cpu: 1, memory: 1Gi }} }}"
    ray = f"version: '2.60.0', image: 'example.com/ray:2.60.0', head: {{ cpu: 1, memory: 4Gi }}, {groups}"
    text = beside(f"ebbtide:ray: {{ data: {{ {ray}, longestTask: 1h }} }}")

    # Three of one CPU fit on a small node and thirty on a large one.
    assert loaded(text, tmp_path).ray["data"].groups["cpu"].node_group == group


# Both processors, the ARM one cheaper.
BOTH = """\
ebbtide:nodeGroups:
  flexible: { instanceTypes: [m7i.2xlarge], max: 20 }
  graviton: { kind: flexible, instanceTypes: [m7g.2xlarge], max: 20 }
"""
OTHERS = """\
ebbtide:workloads: { api: { category: flexible, image: 'example.com/a:1', cpu: 1, memory: 1Gi, replicas: 2ARCH } }
ebbtide:services:
  serve:
    image: 'example.com/s:1'
    cpu: 1
    memory: 1Gi
    ports: { http: 8080 }
    port: http
    probes: { readiness: { http: /healthz, port: http } }
    longestRequest: 60s
    scale: { min: 2, max: 4, metrics: { cpu: 60% } }
    SERVED
ebbtide:jobs: { fit: { image: 'example.com/f:1', cpu: 1, memory: 1Gi, longestRun: 1hARCH } }
ebbtide:cronJobs:
  nightly: { image: 'example.com/f:1', cpu: 1, memory: 1Gi, longestRun: 1h, schedule: '0 2 * * *'ARCH }
ebbtide:ray:
  data:
    version: '2.60.0'
    image: 'example.com/ray:2.60.0'
    head: { cpu: 1, memory: 4Gi }
    groups: { cpu: { max: 4, cpu: 1, memory: 1GiARCH } }
    longestTask: 1h
"""


def both(arch: str = "", groups: str = BOTH) -> str:
    arch_key = f", arch: {arch}" if arch else ""
    sections = OTHERS.replace("ARCH", arch_key).replace("SERVED", arch_key.removeprefix(", ") or "args: []")
    return shortest(train=f"arch: {arch}" if arch else "", more=groups + sections)


def homes(settings: StackSettings) -> dict[str, str]:
    pools = {**settings.workers, **settings.jobs, **settings.cron_jobs, **settings.ray["data"].groups}
    return {name: pool.node_group for name, pool in pools.items()}


def processors(settings: StackSettings) -> dict[str, object]:
    pools = {**settings.workers, **settings.cron_jobs, **settings.ray["data"].groups}
    return {name: pod.arch for name, pod in {**pools, **settings.all_workloads}.items()}


def test_where_processors_differ_a_pod_goes_to_amd64(tmp_path: Path) -> None:
    """The ARM group is cheaper, and no image states that it supports it."""
    settings = loaded(both(), tmp_path)

    assert set(homes(settings).values()) == {"flexible"}
    assert set(processors(settings).values()) == {Architecture.AMD64}


@pytest.mark.parametrize("arch", ["arm64", "any"])
def test_the_file_may_say_another_processor(arch: str, tmp_path: Path) -> None:
    settings = loaded(both(arch), tmp_path)

    assert set(homes(settings).values()) == {"graviton"}
    assert set(processors(settings).values()) == {Architecture(arch)}


@pytest.mark.parametrize(
    ("arch", "groups"), [("", {"flexible"}), ("arm64", {"graviton"}), ("any", {"flexible", "graviton"})]
)
def test_services_and_workloads_come_to_nodes_of_their_processor_alone(
    arch: str, groups: set[str], tmp_path: Path
) -> None:
    settings = loaded(both(arch), tmp_path)

    for workload in settings.all_workloads.values():
        assert {name for name, group in settings.node_groups.items() if takes(group, workload)} == groups


@pytest.mark.parametrize(("arch", "priority", "hourly"), [("", 0, 0.4032), ("any", 0, 0.3264), ("any", 10, 0.4032)])
def test_a_pod_costs_its_share_of_the_nodes_on_which_it_runs(
    arch: str, priority: int, hourly: float, tmp_path: Path
) -> None:
    """An m7i.2xlarge is 0.4032 USD an hour and an m7g.2xlarge 0.3264; seven pods of a CPU fit on one. The latter has 59
    MiB less for pods, so it is the one with less idle memory.
    """
    groups = BOTH.replace("[m7i.2xlarge],", f"[m7i.2xlarge], priority: {priority},")
    settings = loaded(both(arch, groups), tmp_path)
    (name,) = (name for name, pod in settings.all_workloads.items() if isinstance(pod, ServedWorkload))
    workload = settings.all_workloads[name]
    assert isinstance(workload, ServedWorkload)

    assert pod_usd_per_hour(settings, home_groups(settings).get(name), workload) == pytest.approx(hourly / 7)


@pytest.mark.parametrize("types", ["m7i.2xlarge", "m7g.2xlarge"])
def test_where_all_groups_have_one_processor_nothing_is_chosen(types: str, tmp_path: Path) -> None:
    alike = BOTH.replace("m7i.2xlarge", types).replace("m7g.2xlarge", types)

    assert set(processors(loaded(both(groups=alike), tmp_path)).values()) == {None}


def test_a_group_that_is_too_small_for_a_pod_is_no_choice(tmp_path: Path) -> None:
    small = BOTH.replace("m7i.2xlarge", "m7i.large")
    large = both(groups=small).replace("cpu: 1, memory: 1Gi", "cpu: 4, memory: 8Gi").replace("cpu: 1\n", "cpu: 4\n")
    settings = loaded(large, tmp_path)

    assert set(homes(settings).values()) == {"graviton"}
    assert set(processors(settings).values()) == {None}


def test_a_group_that_a_pool_names_is_no_choice_either(tmp_path: Path) -> None:
    settings = loaded(shortest(train="nodeGroup: graviton", more=BOTH), tmp_path)

    assert (settings.workers["train"].node_group, settings.workers["train"].arch) == ("graviton", None)


def test_a_selector_of_the_file_counts_as_the_choice(tmp_path: Path) -> None:
    text = shortest(train="pod: { nodeSelector: { kubernetes.io/arch: arm64 } }", more=BOTH)

    assert group_of_pool(loaded(text, tmp_path)) == "graviton"
    assert loaded(text, tmp_path).workers["train"].arch is None


def required(*expressions: str) -> str:
    terms = ", ".join(f"{{ matchExpressions: [{expression}] }}" for expression in expressions)
    rule = f"requiredDuringSchedulingIgnoredDuringExecution: {{ nodeSelectorTerms: [{terms}] }}"
    return f"pod: {{ affinity: {{ nodeAffinity: {{ {rule} }} }} }}"


ON_M7G = "{ key: node.kubernetes.io/instance-type, operator: In, values: [m7g.2xlarge] }"
NOWHERE = "{ key: kubernetes.io/os, operator: NotIn, values: [linux] }"


def test_a_required_affinity_of_the_file_counts_as_well(tmp_path: Path) -> None:
    """Terms are alternatives."""
    text = shortest(train=required(NOWHERE, ON_M7G), more=BOTH)

    assert group_of_pool(loaded(text, tmp_path)) == "graviton"


@pytest.mark.parametrize(
    ("pod", "code", "parts"),
    [
        ("arch: arm64", "arch.not-offered", ("train.arch:", "flexible amd64", "found 'arm64'", "(for example amd64)")),
        ("arch: x86_64", "choice.unknown", ("train.arch:", "did you mean amd64?")),
        ("arch: aarch64", "choice.unknown", ("(for example arm64)", "did you mean arm64?")),
        ("arch: riscv64", "choice.unknown", ("amd64 or arm64 or any", "found 'riscv64'")),
        ("arch: arm64, nodeGroup: flexible", "arch.not-offered", ("train.arch:",)),
        (
            "pod: { nodeSelector: { kubernetes.io/arch: arm64 } }",
            "pod.no-such-node",
            ("train.pod.nodeSelector.kubernetes.io/arch:", "with this label; they have amd64", "found 'arm64'"),
        ),
        (
            "pod: { nodeSelector: { disktype: ssd } }",
            "pod.no-such-node",
            ("nodeSelector.disktype:", "found 'ssd'", "no labels of your own"),
        ),
        ("pod: { nodeSelector: { example.com/rack: a } }", "pod.no-such-node", ("found 'a'",)),
        (
            "pod: { nodeSelector: { topology.kubernetes.io/zone: us-east-1f } }",
            "pod.no-such-node",
            ("a node of flexible with this label; they have us-east-1a, us-east-1b, found 'us-east-1f'",),
        ),
        (required(ON_M7G), "pod.no-such-node", ("affinity.nodeAffinity.requiredDuring", "nodeSelectorTerms:")),
        (required("{ key: gpu-model, operator: Exists }"), "pod.no-such-node", ("nodeSelectorTerms:",)),
        (required("{ key: cores, operator: Gt, values: ['4'] }"), "pod.no-such-node", ("nodeSelectorTerms:",)),
        (required(NOWHERE), "pod.no-such-node", ("nodeSelectorTerms:",)),
    ],
)
def test_nodes_that_no_group_has_are_refused_where_they_are_asked_for(
    pod: str, code: str, parts: tuple[str, ...], tmp_path: Path
) -> None:
    assert problem_of(shortest(train=pod), tmp_path).tells(code, *parts)


@pytest.mark.parametrize(
    "pod",
    [
        "pod: { nodeSelector: { kubernetes.io/os: linux, topology.kubernetes.io/zone: us-east-1a } }",
        "pod: { nodeSelector: { node.kubernetes.io/instance-type: m6i.4xlarge } }",
        "pod: { nodeSelector: { eks.amazonaws.com/nodegroup: flexible-a } }",
        "pod: { nodeSelector: { feature.node.kubernetes.io/cpu-cpuid.AVX512F: 'true' } }",
        required("{ key: spot-only, operator: DoesNotExist }"),
        required("{ key: node.kubernetes.io/instance-type, operator: NotIn, values: [m7i.4xlarge] }"),
        required("{ key: eks.amazonaws.com/capacityType, operator: In, values: [ON_DEMAND] }"),
    ],
)
def test_nodes_that_a_group_has_or_may_have_are_taken(pod: str, tmp_path: Path) -> None:
    assert group_of_pool(loaded(shortest(train=pod), tmp_path)) == "flexible"


def test_every_kind_of_pod_is_asked(tmp_path: Path) -> None:
    problems = problems_of(both("arm64", groups="ebbtide:nodeGroups: { flexible: { max: 4 } }\n"), tmp_path)

    places = ["workers.train", "workloads.api", "services.serve", "jobs.fit", "cronJobs.nightly", "ray.data.groups.cpu"]
    assert {(problem.code, problem.path) for problem in problems} == {
        ("arch.not-offered", f"ebbtide:{place}.arch") for place in places
    }


def test_a_rays_head_is_asked_for_fixed_nodes(tmp_path: Path) -> None:
    text = both().replace("head: { cpu: 1,", "head: { arch: arm64, cpu: 1,")

    assert problem_of(text, tmp_path).tells("arch.not-offered", "ray.data.head.arch:", "fixed amd64")


def test_a_group_that_could_not_be_read_leaves_the_processor_open(tmp_path: Path) -> None:
    groups = "ebbtide:nodeGroups: { flexible: { instanceTypes: [m7i.2xlrge], max: 4 } }\n"

    assert problem_of(shortest(train="arch: arm64", more=groups), tmp_path).tells("instance-type.unknown")


def test_on_a_cluster_of_others_the_file_alone_says_it(tmp_path: Path) -> None:
    """Its nodes are unknown."""
    text = onprem(train="arch: arm64, pod: { nodeSelector: { disktype: ssd } }")

    assert loaded(text, tmp_path).workers["train"].arch is Architecture.ARM64
    assert loaded(onprem(), tmp_path).workers["train"].arch is None
