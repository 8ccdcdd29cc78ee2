"""The exporter's metrics as text. Pure. Objects that are unknown are None; metrics that depend on them are omitted."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from controllers.adapters.metrics import Sample, family
from controllers.exporter.objects import ClosingJob, Hpa, Node, Pod, unlabelled
from controllers.exporter.sight import KINDS
from controllers.exporter.tally import Tally
from ebbtide.vocabulary.exporter import AdoptedRule


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterObjects:
    nodes: Collection[Node] | None
    pods: Collection[Pod] | None
    hpas: Collection[Hpa] | None
    cronjobs: Collection[ClosingJob] | None
    workloads: Collection[str] | None  # workloads that the workload controller put to sleep


def no_cost_labels(_: Mapping[str, str]) -> Mapping[str, str]:
    return {}


def text(
    objects: ClusterObjects,
    tally: Tally,
    dollars_per_hour: Mapping[str, float],
    rules: Collection[AdoptedRule] = (),
    sleepers: Collection[str] = (),
    cost_labels: Callable[[Mapping[str, str]], Mapping[str, str]] = no_cost_labels,
) -> str:
    """Render the metric families that describe the cluster. `cost_labels` of a pod's labels are added to its info."""
    sees = [({"what": kind}, getattr(objects, kind) is not None) for kind in KINDS]
    families = [
        family("exporter_sees", "1 if the series of these objects are up to date; otherwise they are omitted", sees)
    ]
    if objects.nodes is not None:
        families += _node_families(objects.nodes, dollars_per_hour)
    if objects.pods is not None:
        families += [
            *_pod_families(objects.pods, cost_labels),
            *_event_families(tally),
            *_rule_families(objects.pods, rules),
        ]
    families += _hpa_families(objects.hpas or ())
    families += _closer_families(objects.cronjobs or ())
    left: list[Sample] = [({"workload": name}, 1) for name in sorted({*(objects.workloads or ())} - {*sleepers})]
    left_help = "1 for a workload that the workload controller put to sleep, and that no entry of its document wakes"
    families.append(family("workload_left_asleep", left_help, left))
    return "".join(families)


def process_text(
    *, holidays_end: datetime | None, certificate_ends: Mapping[str, float], max_nodes: Mapping[str, int]
) -> str:
    """Render the metric families that do not depend on the cluster."""
    most: list[Sample] = [({"group": group}, nodes) for group, nodes in sorted(max_nodes.items())]
    ends: list[Sample] = [({"endpoint": endpoint}, end) for endpoint, end in sorted(certificate_ends.items())]
    until = holidays_end.timestamp() if holidays_end is not None else None
    families = (
        family("holidays_end_timestamp_seconds", "End of the last day for which holidays are known", [({}, until)]),
        family("certificate_end_timestamp_seconds", "Expiry of the certificate that the endpoint presents", ends),
        family("group_max_nodes", "Highest number of nodes that the stack file allows for the group", most),
    )
    return "".join(families)


def _node_families(nodes: Collection[Node], dollars_per_hour: Mapping[str, float]) -> Iterator[str]:
    infos: list[Sample] = [
        (
            {
                "node": node.name,
                "group": node.group,
                "kind": node.kind,
                "instance_type": node.instance_type,
                "capacity_type": node.capacity_type,
                "zone": node.zone,
            },
            1,
        )
        for node in nodes
    ]

    def by_node(values: Iterable[float | None]) -> list[Sample]:
        return [({"node": node.name}, value) for node, value in zip(nodes, values, strict=True)]

    yield family("node_info", "1 for each node; labels are empty if the node lacks them", infos)
    yield family("node_cpu_cores", "CPU capacity of the node", by_node(node.capacity.cpu for node in nodes))
    yield family("node_memory_bytes", "Memory capacity of the node", by_node(node.capacity.memory for node in nodes))
    yield family("node_gpus", "GPU capacity of the node", by_node(node.capacity.gpus or None for node in nodes))
    created = by_node(node.created for node in nodes)
    yield family("node_created_timestamp_seconds", "Time at which the node joined the cluster", created)
    ready = by_node(node.ready for node in nodes)
    yield family("node_ready", "1 if the node is ready; 0 also if its kubelet is silent", ready)
    costs = by_node(dollars_per_hour.get(node.instance_type) for node in nodes)
    yield family("node_dollars_per_hour", "On-demand list price, also of spot nodes; omitted if unknown", costs)


def _pod_families(
    pods: Collection[Pod], cost_labels: Callable[[Mapping[str, str]], Mapping[str, str]]
) -> Iterator[str]:
    alive = [pod for pod in pods if not pod.ended]
    scheduled = [({"namespace": pod.namespace, "pod": pod.name}, pod) for pod in alive if pod.node]
    infos: list[Sample] = [
        (
            {
                **labels,
                "node": pod.node,
                "workload": pod.workload,
                "category": pod.category,
                **cost_labels(pod.labels),
            },
            1,
        )
        for labels, pod in scheduled
    ]
    yield family("pod_info", "1 for each pod that is on a node and has not ended", infos)
    cpu, memory, gpus = (
        [(labels, getattr(pod.requested, part)) for labels, pod in scheduled] for part in ("cpu", "memory", "gpus")
    )
    yield family("pod_requested_cpu_cores", "CPU that the scheduler reserves for the pod", cpu)
    yield family("pod_requested_memory_bytes", "Memory that the scheduler reserves for the pod", memory)
    yield family("pod_requested_gpus", "GPUs that the scheduler reserves for the pod", gpus)
    pending = Counter({(pod.workload, pod.category): 0 for pod in alive})
    pending.update((pod.workload, pod.category) for pod in alive if not pod.node)
    counts: list[Sample] = [
        ({"workload": workload, "category": category}, count) for (workload, category), count in sorted(pending.items())
    ]
    yield family("pods_pending", "Pods without a node", counts)


def _event_families(tally: Tally) -> Iterator[str]:
    restarts, kills, evictions = dict(tally.restarts), dict(tally.oom_kills), dict(tally.evictions)
    yield family("container_restarts_total", "Container restarts since the exporter started", _by_workload(restarts))
    yield family(
        "container_oom_kills_total",
        "Containers killed for lack of memory since the exporter started",
        _by_workload(kills),
    )
    reasons: list[Sample] = [
        ({"workload": workload, "reason": reason}, count) for (workload, reason), count in sorted(evictions.items())
    ]
    yield family("evictions_total", "Evicted pods since the exporter started", reasons)


def _rule_families(pods: Collection[Pod], rules: Collection[AdoptedRule]) -> Iterator[str]:
    if rules:
        counts: list[Sample] = [({"workload": rule.name}, unlabelled(rule, pods)) for rule in rules]
        yield family("adopted_pods_unlabelled", "Pods that match the rule of this name and lack its label", counts)


def _by_workload(counts: Mapping[str, int]) -> list[Sample]:
    return [({"workload": workload}, count) for workload, count in sorted(counts.items())]


def _hpa_families(hpas: Collection[Hpa]) -> Iterator[str]:
    labels = [{"namespace": hpa.namespace, "hpa": hpa.name} for hpa in hpas]
    for name, meaning, values in (
        ("scaling_active", "1 if the HPA can read its metrics", [hpa.scaling_active for hpa in hpas]),
        ("able_to_scale", "1 if the HPA can scale its target", [hpa.able_to_scale for hpa in hpas]),
        ("replicas", "Current replicas", [hpa.replicas for hpa in hpas]),
        ("wanted_replicas", "Replicas that the HPA wants", [hpa.wanted for hpa in hpas]),
        ("max_replicas", "Maximum replicas", [hpa.most for hpa in hpas]),
    ):
        yield family(f"hpa_{name}", meaning, zip(labels, values, strict=True))


def _closer_families(jobs: Collection[ClosingJob]) -> Iterator[str]:
    successes = [({"cronjob": job.name}, job.last_success) for job in jobs]
    yield family("closer_last_success_timestamp_seconds", "Time of the closer's last success", successes)
    starts = [({"cronjob": job.name}, job.last_schedule) for job in jobs]
    yield family("closer_last_schedule_timestamp_seconds", "Time of the closer's last start", starts)
