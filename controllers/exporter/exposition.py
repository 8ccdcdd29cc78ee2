"""What Prometheus is told. Pure. A part that is out of sight is None, and nothing that stands on it is told."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from controllers.adapters.metrics import Sample, family
from controllers.exporter.objects import ClosingJob, Hpa, Node, Pod
from controllers.exporter.sight import WHAT
from controllers.exporter.tally import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    nodes: Collection[Node] | None
    pods: Collection[Pod] | None
    hpas: Collection[Hpa] | None
    cronjobs: Collection[ClosingJob] | None


def text(seen: Seen, tally: Tally, dollars_per_hour: Mapping[str, float]) -> str:
    """Of the cluster."""
    sees = [({"what": what}, getattr(seen, what) is not None) for what in WHAT]
    parts = [
        family("exporter_sees", "1 if the series of these objects are up to date; otherwise they are omitted", sees)
    ]
    if seen.nodes is not None:
        parts += _of_nodes(seen.nodes, dollars_per_hour)
    if seen.pods is not None:
        parts += [*_of_pods(seen.pods), *_of_events(tally)]
    parts += _of_hpas(seen.hpas or ())
    parts += _of_closing_jobs(seen.cronjobs or ())
    return "".join(parts)


def process_text(*, holidays_end: datetime | None, certificate_ends: Mapping[str, float]) -> str:
    """Render the families that need no cluster."""
    ends: list[Sample] = [({"endpoint": endpoint}, end) for endpoint, end in sorted(certificate_ends.items())]
    until = holidays_end.timestamp() if holidays_end is not None else None
    families = (
        family("holidays_end_timestamp_seconds", "End of the last day for which holidays are known", [({}, until)]),
        family("certificate_end_timestamp_seconds", "Expiry of the certificate that the endpoint presents", ends),
    )
    return "".join(families)


def _of_nodes(nodes: Collection[Node], dollars_per_hour: Mapping[str, float]) -> Iterator[str]:
    infos: list[Sample] = [
        (
            {
                "node": it.name,
                "group": it.group,
                "kind": it.kind,
                "instance_type": it.instance_type,
                "capacity_type": it.capacity_type,
                "zone": it.zone,
            },
            1,
        )
        for it in nodes
    ]
    named = [({"node": it.name}, it) for it in nodes]
    yield family("node_info", "1 for each node; labels are empty if the node lacks them", infos)
    yield family("node_cpu_cores", "CPU capacity of the node", [(at, it.capacity.cpu) for at, it in named])
    yield family("node_memory_bytes", "Memory capacity of the node", [(at, it.capacity.memory) for at, it in named])
    yield family("node_gpus", "GPU capacity of the node", [(at, it.capacity.gpus or None) for at, it in named])
    yield family(
        "node_created_timestamp_seconds",
        "Time at which the node joined the cluster",
        [(at, it.created) for at, it in named],
    )
    yield family(
        "node_ready", "1 if the node is ready; 0 also if its kubelet is silent", [(at, it.ready) for at, it in named]
    )
    costs: list[Sample] = [(at, dollars_per_hour.get(it.instance_type)) for at, it in named]
    yield family("node_dollars_per_hour", "On-demand list price, also of spot nodes; omitted if unknown", costs)


def _of_pods(pods: Collection[Pod]) -> Iterator[str]:
    alive = [it for it in pods if not it.ended]
    placed = [({"namespace": it.namespace, "pod": it.name}, it) for it in alive if it.node]
    infos: list[Sample] = [
        ({**at, "node": it.node, "workload": it.workload, "category": it.category}, 1) for at, it in placed
    ]
    yield family("pod_info", "1 for each pod that is on a node and has not ended", infos)
    cpu, memory, gpus = ([(at, getattr(it.requested, part)) for at, it in placed] for part in ("cpu", "memory", "gpus"))
    yield family("pod_requested_cpu_cores", "CPU that the scheduler reserves for the pod", cpu)
    yield family("pod_requested_memory_bytes", "Memory that the scheduler reserves for the pod", memory)
    yield family("pod_requested_gpus", "GPUs that the scheduler reserves for the pod", gpus)
    waiting = Counter({(it.workload, it.category): 0 for it in alive})
    waiting.update((it.workload, it.category) for it in alive if not it.node)
    counts: list[Sample] = [
        ({"workload": workload, "category": category}, count) for (workload, category), count in sorted(waiting.items())
    ]
    yield family("pods_pending", "Pods without a node", counts)


def _of_events(tally: Tally) -> Iterator[str]:
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


def _by_workload(counts: Mapping[str, int]) -> list[Sample]:
    return [({"workload": workload}, count) for workload, count in sorted(counts.items())]


def _of_hpas(hpas: Collection[Hpa]) -> Iterator[str]:
    named = [({"namespace": it.namespace, "hpa": it.name}, it) for it in hpas]
    yield family(
        "hpa_scaling_active", "1 if the HPA can read its metrics", [(at, it.scaling_active) for at, it in named]
    )
    yield family("hpa_able_to_scale", "1 if the HPA can scale its target", [(at, it.able_to_scale) for at, it in named])
    yield family("hpa_replicas", "Current replicas", [(at, it.replicas) for at, it in named])
    yield family("hpa_wanted_replicas", "Replicas that the HPA wants", [(at, it.wanted) for at, it in named])
    yield family("hpa_max_replicas", "Maximum replicas", [(at, it.most) for at, it in named])


def _of_closing_jobs(jobs: Collection[ClosingJob]) -> Iterator[str]:
    named = [({"cronjob": it.name}, it) for it in jobs]
    yield family(
        "closer_last_success_timestamp_seconds",
        "Time of the closer's last success",
        [(at, it.last_success) for at, it in named],
    )
    yield family(
        "closer_last_schedule_timestamp_seconds",
        "Time of the closer's last start",
        [(at, it.last_schedule) for at, it in named],
    )
