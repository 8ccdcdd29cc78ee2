"""Reported and omitted metrics."""

import pytest

from controllers.exporter.exposition import ClusterObjects, process_text, text
from controllers.exporter.objects import Node, Pod, asleep, node, pod
from controllers.exporter.tally import Tally
from ebbtide.vocabulary.exporter import AdoptedRule, LabelValues
from tests.builders.monitoring import cluster_objects as objects
from tests.builders.monitoring.expositions import of_the_exporter
from tests.builders.monitoring.promql import series

PARTS = {
    "nodes": "ebbtide_node_",
    "pods": ("ebbtide_pod", "ebbtide_container_", "ebbtide_evictions_"),
    "hpas": "ebbtide_hpa_",
    "cronjobs": "ebbtide_closer_",
    "workloads": "ebbtide_workload_left_asleep",
}
_CONTRACT = """
    node_info node group kind instance_type capacity_type zone
    node_cpu_cores node
    node_memory_bytes node
    node_gpus node
    node_created_timestamp_seconds node
    node_ready node
    node_dollars_per_hour node
    pod_info namespace pod node workload category
    pod_requested_cpu_cores namespace pod
    pod_requested_memory_bytes namespace pod
    pod_requested_gpus namespace pod
    pods_pending workload category
    adopted_pods_unlabelled workload
    container_restarts_total workload
    container_oom_kills_total workload
    evictions_total workload reason
    hpa_scaling_active namespace hpa
    hpa_able_to_scale namespace hpa
    hpa_replicas namespace hpa
    hpa_wanted_replicas namespace hpa
    hpa_max_replicas namespace hpa
    closer_last_success_timestamp_seconds cronjob
    closer_last_schedule_timestamp_seconds cronjob
    workload_left_asleep workload
    certificate_end_timestamp_seconds endpoint
    holidays_end_timestamp_seconds
    group_max_nodes group
    exporter_config_good
    exporter_clocks_agree
    exporter_sees what
    exporter_api_calls_total verb
"""
"""The metrics that rules and dashboards may name, with their labels."""


def told(*, nodes: list[Node] | None = None, pods: list[Pod] | None = None, **dollars: float) -> list[str]:
    prices = {name.replace("_", "."): price for name, price in dollars.items()}
    seen = ClusterObjects(nodes=nodes, pods=pods, hpas=None, cronjobs=None, workloads=None)
    return [line for line in text(seen, Tally(), prices).splitlines() if line[0] != "#"]


def test_a_cluster_in_which_everything_is_known_has_each_metric_with_its_labels() -> None:
    found = series(of_the_exporter())

    contract = {f"ebbtide_{name}": labels for name, *labels in map(str.split, _CONTRACT.strip().splitlines())}
    assert {name: [*one] for name, (one, *_) in found.items()} == contract


@pytest.mark.parametrize("away", PARTS)
def test_of_what_is_out_of_sight_nothing_is_told(away: str) -> None:
    """And of all else as before."""
    everything = {
        "nodes": [node(objects.node())],
        "pods": [pod(objects.pod())],
        "hpas": (),
        "cronjobs": (),
        "workloads": ("deployment ebbtide/notes",),
    }
    whole, tally = ClusterObjects(**everything), Tally()  # pyright: ignore[reportArgumentType] - by name
    tally.see(pod(objects.pod()), counted=True)
    before = text(whole, tally, {"g5.xlarge": 1.0})
    after = text(ClusterObjects(**{**everything, away: None}), tally, {"g5.xlarge": 1.0})  # pyright: ignore[reportArgumentType]

    assert f'ebbtide_exporter_sees{{what="{away}"}} 0.0' in after
    lost = {name for name in series(before) if name.startswith(PARTS[away])}
    assert series(before).keys() - series(after).keys() == lost
    assert bool(lost) == bool(everything[away])


def test_a_node_without_gpus_or_a_price_has_no_such_series() -> None:
    plain = objects.node("n2", **{"node.kubernetes.io/instance-type": "m7i.large"})
    del plain["status"]["capacity"]["nvidia.com/gpu"]
    zero = objects.node("n3")
    zero["status"]["capacity"]["nvidia.com/gpu"] = "0"
    lines = told(nodes=[node(plain), node(zero)], g5_xlarge=1.006)

    assert not any(line.startswith("ebbtide_node_gpus") for line in lines)
    assert [line for line in lines if "dollars" in line] == ['ebbtide_node_dollars_per_hour{node="n3"} 1.006']


def test_pods_that_have_ended_or_wait_ask_for_nothing_of_a_node() -> None:
    over, waiting = objects.pod("p1", phase="Succeeded"), objects.pod("p2", node="")
    lines = told(pods=[pod(over), pod(waiting), pod(objects.pod("p3"))])

    assert [line.partition('pod="')[2][:2] for line in lines if "pod_info" in line] == ["p3"]
    assert [line.partition('pod="')[2][:2] for line in lines if "cpu_cores" in line] == ["p3"]


def test_waiting_pods_are_counted_by_workload_and_where_none_waits_it_is_zero() -> None:
    stray = objects.pod("p4", node="")
    stray["metadata"]["labels"] = {}
    over = objects.pod("p5", node="", phase="Failed")
    lines = told(pods=[pod(it) for it in (objects.pod("p1"), stray, over)])

    assert [line for line in lines if "pending" in line] == [
        'ebbtide_pods_pending{workload="",category=""} 1.0',
        'ebbtide_pods_pending{workload="train",category="worker"} 0.0',
    ]


def adopted(name: str, owner: str = "ReplicaSet", phase: str = "Running", **labels: str) -> Pod:
    """A pod in the team's namespace, without labels of ours."""
    item = objects.pod(name, phase=phase)
    named = {"app": "hub", **labels}
    item["metadata"] |= {"namespace": "jupyter", "labels": named, "ownerReferences": [{"kind": owner}]}
    return pod(item)


def unlabelled(*pods: Pod) -> list[str]:
    selector = (LabelValues(key="app", values=("hub", "proxy")),)
    rules = (AdoptedRule(name="hub", namespace="jupyter", selector=selector),)
    seen = ClusterObjects(nodes=None, pods=pods, hpas=None, cronjobs=None, workloads=None)
    return [line for line in text(seen, Tally(), {}, rules).splitlines() if line.startswith("ebbtide_adopted")]


def test_pods_that_a_rule_selects_and_that_lack_its_label_are_counted() -> None:
    labelled, other = {"ebbtide.dev/workload": "hub"}, {"ebbtide.dev/workload": "former-name"}

    assert unlabelled(adopted("a"), adopted("b", **labelled), adopted("c", **other), adopted("d", app="proxy")) == [
        'ebbtide_adopted_pods_unlabelled{workload="hub"} 3.0'
    ]


@pytest.mark.parametrize(
    "alone",
    [
        adopted("a", app="web"),
        adopted("a", owner="DaemonSet"),
        adopted("a", owner="Node"),
        adopted("a", phase="Succeeded"),
        adopted("a", **{"ebbtide.dev/adopt": "no"}),
        pod(objects.pod("a")),
    ],
)
def test_pods_that_no_rule_may_adopt_do_not_count(alone: Pod) -> None:
    assert unlabelled(alone) == ['ebbtide_adopted_pods_unlabelled{workload="hub"} 0.0']


def test_without_rules_there_is_no_such_series() -> None:
    assert not any("adopted" in line for line in told(pods=[adopted("a")]))


def test_without_a_calendar_and_without_tls_nothing_ends() -> None:
    assert process_text(holidays_end=None, certificate_ends={}, max_nodes={}) == ""


def test_a_workload_that_sleeps_without_an_entry_is_reported() -> None:
    items = [
        objects.deployment("left"),
        objects.deployment("slept"),
        objects.deployment("awake", 2),
        objects.deployment("parked", 0, "kubectl"),
        objects.deployment("shared", 0, "argocd-controller", "ebbtide-workloads"),
    ]
    workloads = [named for item in items if (named := asleep("deployment", item)) is not None]
    seen = ClusterObjects(nodes=None, pods=None, hpas=None, cronjobs=None, workloads=workloads)
    lines = text(seen, Tally(), {}, sleepers=("deployment ebbtide/slept", "statefulset ebbtide/left")).splitlines()

    assert [line for line in lines if line.startswith("ebbtide_workload")] == [
        'ebbtide_workload_left_asleep{workload="deployment ebbtide/left"} 1.0',
        'ebbtide_workload_left_asleep{workload="deployment ebbtide/shared"} 1.0',
    ]
