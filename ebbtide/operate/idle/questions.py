"""Questions to Prometheus that find out what is idle. Pure.

**What only looks idle.** Each question covers an entire period, so it finds nothing younger than that. The pods of a
workload count together: the standby of a pair is as busy as its leader. A worker of a pool without a minimum has a job
or leaves within minutes; pools with a minimum are judged only by their nights. Workloads that sleep by the calendar are
not judged.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeAlias

from ebbtide.monitoring.gpus import gpu_use
from ebbtide.monitoring.recorded import Recorded
from ebbtide.monitoring.rules import CUSTOMER, Metrics
from ebbtide.monitoring.serving import counts_requests
from ebbtide.operate.idle.owners import expired
from ebbtide.operate.idle.pods import PricedPod
from ebbtide.settings.capacity.placed import resident_pods
from ebbtide.settings.capacity.placement import with_adopted_pools
from ebbtide.settings.capacity.process_documents import sleepers_of
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.pods.kubernetes import started_by
from ebbtide.settings.sections.ray import namespace_of_ray
from ebbtide.vocabulary.idleness import MOST_BYTES, MOST_CORES, busiest
from ebbtide.vocabulary.labels import Category

STEP = timedelta(minutes=15)
LONGEST = timedelta(weeks=6)  # within the retention of the bundled Prometheus
_WINDOW = f"[{STEP // timedelta(minutes=1)}m]"
_USE = f"CPU above {MOST_CORES:g} cores or network above {MOST_BYTES:,} B/s"
_GPU_USE = "use of GPUs"
_TOGETHER, _SINGLY = ("workload",), ("namespace", "pod")
_Things: TypeAlias = Mapping[tuple[str, ...], Sequence[PricedPod]]


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleQuestion:
    """Which of `things` had no `activity` for `days`? `things` are pods, by the values of the labels `by`.

    `expression` is above 0 if there was activity in the last `STEP`, and has no result if that is unknown. Only `steps`
    are judged; they count backwards from now.
    """

    kind: str
    activity: str
    by: tuple[str, ...]
    expression: str
    days: int
    things: _Things
    steps: Sequence[int] = range(LONGEST // STEP)


def questions_of(settings: StackSettings, pods: Sequence[PricedPod], now: datetime) -> Iterator[IdleQuestion]:
    """Yield questions about GPUs last: their pods may belong to a thing that is idle as a whole."""
    asleep = {policy.name for policy in sleepers_of(settings)}
    awake = [pod for pod in pods if pod.workload not in asleep]
    yield from (_services(settings, awake), _ray(settings, awake), _nights(settings, awake, now))
    yield from _by_use(settings, awake)


def _services(settings: StackSettings, pods: Sequence[PricedPod]) -> IdleQuestion:
    """Ask the gateway, since only it counts requests: a service without a route is judged as a workload."""
    records = (Recorded.THROUGHPUT, Recorded.FAILING, Recorded.IN_FLIGHT)  # the rules give them a known zero
    peak = "max by (service) (max_over_time({}{}))"
    return IdleQuestion(
        kind="service",
        activity="requests at the gateway",
        by=("service",),
        expression=" + ".join(peak.format(record.of(settings.customer), _WINDOW) for record in records),
        days=7,
        things={(name,): _of(pods, names) for name, names in _routed(settings).items()},
    )


def _ray(settings: StackSettings, pods: Sequence[PricedPod]) -> IdleQuestion:
    """Compare how often the controller reported a cluster at all and how often as idle. A sleeping one has no jobs."""
    state, idle = (Metrics(settings.customer)(f"workload_{name}") for name in ("state", "idle_seconds"))
    reported = f"sum by (workload) (count_over_time({state}{_WINDOW}))"
    quiet = f'count_over_time({idle}{_WINDOW}) or count_over_time({state[:-1]},state="asleep"}}{_WINDOW})'
    busy = f"{reported} - sum by (workload) ({quiet}) or {reported}"
    return IdleQuestion(
        kind="Ray cluster",
        activity="jobs",
        by=("name",),
        expression=f'label_replace({busy}, "name", "$1", "workload", "raycluster .+/(.+)")',
        days=7,
        things={(name,): [pod for pod in pods if pod.namespace == namespace_of_ray(name)] for name in settings.ray},
    )


def _nights(settings: StackSettings, pods: Sequence[PricedPod], now: datetime) -> IdleQuestion:
    """Ask for jobs in closed hours, in pools with a minimum. Workers that a minimum keeps ready by day are no waste."""
    hours, steps = settings.business_hours.hours((now.year - 1, now.year, now.year + 1)), range(LONGEST // STEP)
    closed = [step for step in steps if not any(hours.is_open(now - edge * STEP) for edge in (step, step + 1))]
    ended = {found.name for found in expired(settings, now.date(), None)}  # `expired` lists them with their full cost
    nightly = [replace(pod, usd=None if pod.usd is None else pod.usd * len(closed) / len(steps)) for pod in pods]
    jobs = f'ebbtide_pool_jobs{{{CUSTOMER}="{settings.customer}",part!="stale"}}'
    return IdleQuestion(
        kind="pool at night",
        activity="jobs outside business hours",
        by=("pool",),
        expression=f"max by (pool) (max_over_time({jobs}{_WINDOW}))",
        days=14,
        things={
            (name,): _of(nightly, {name})[:least]
            for name, least in _pools_with_minimum(settings).items()
            if name not in ended
        },
        steps=closed,
    )


def _by_use(settings: StackSettings, pods: Sequence[PricedPod]) -> Iterator[IdleQuestion]:
    """Ask for the use of workloads as a whole, and of notebooks and workers with GPUs one by one.

    A worker of a pool without a minimum has jobs, weekends included, so one day without use of its GPUs is enough.
    """
    servers = {
        name for name, rule in settings.adopted.items() if rule.selector.get("component") == ("singleuser-server",)
    }
    servers |= {started_by(name) for name, workload in settings.workloads.items() if workload.starts_pods}
    workloads = {pod.name for pod in resident_pods(settings)} - servers - set[str]().union(*_routed(settings).values())
    gpus = [pod for pod in pods if pod.gpus and pod.workload not in _pools_with_minimum(settings)]
    with_jobs = _of(gpus, with_adopted_pools(settings).workers)
    single = [pod for pod in gpus if pod.category == Category.WORKER or not pod.workload]
    ours = f'{CUSTOMER}=~"|{settings.customer}"'  # on an existing cluster another scraper adds no such label
    used = gpu_use(f'pod!="",{ours}', f"max_over_time({{}}{_WINDOW})")
    gpu = f"max by (namespace, pod) ({used})"
    for kind, activity, by, days, members in (
        ("workload", _USE, _TOGETHER, 7, _of(pods, workloads)),
        ("notebook", _USE, _SINGLY, 4, _of(pods, servers)),  # longer than a weekend, as for GPUs
        ("GPU workload", _GPU_USE, _TOGETHER, 4, [pod for pod in gpus if pod not in single]),
        ("GPU pod", _GPU_USE, _SINGLY, 4, [pod for pod in single if pod not in with_jobs]),
        ("GPU worker", _GPU_USE, _SINGLY, 1, with_jobs),
    ):
        # Matching the node too leaves out a pod of the same name in another cluster.
        use, on = (gpu, _SINGLY) if activity == _GPU_USE else (_cpu_and_network(members, ours), ("node", *_SINGLY))
        peak = _highest(settings, use, on, by, members)
        yield IdleQuestion(
            kind=kind, activity=activity, by=by, expression=peak, days=days, things=_grouped(members, by)
        )


def _highest(settings: StackSettings, use: str, on: Sequence[str], by: Sequence[str], pods: Sequence[PricedPod]) -> str:
    """Return the highest use among each thing's pods; it has no result while one of the pods is not measured.

    Pods that ended before an evaluation, for example of a CronJob, count like running ones. A pod that starts or ends
    has too few samples for a rate, so only pods that existed in the middle of the step must be measured.
    """
    info, labels = Metrics(settings.customer)("pod_info"), ", ".join(by)
    of_workloads = f'{info[:-1]},workload=~"{"|".join(sorted({pod.workload for pod in pods}))}"}}'
    present, settled = (
        f"max by ({', '.join((*on, 'workload'))}) (max_over_time({of_workloads}{window}))"
        for window in (_WINDOW, "[5m] offset 5m")
    )
    of_pods = f"on ({', '.join(on)})"
    unmeasured = f"count by ({labels}) ({settled} unless {of_pods} {use})"
    return f"max by ({labels}) ({present} * {of_pods} group_left () {use}) unless {unmeasured}"


def _cpu_and_network(pods: Sequence[PricedPod], ours: str) -> str:
    """Return an expression that is 0 while a pod uses neither CPU nor network. NaN counts as use."""
    where = f'{ours},namespace=~"{"|".join(sorted({pod.namespace for pod in pods}))}"'
    cpu, network = busiest(where, "node, namespace, pod", STEP)
    return f"(2 - (({cpu} <= bool {MOST_CORES:g}) + ({network} <= bool {MOST_BYTES})))"


def _routed(settings: StackSettings) -> Mapping[str, set[str]]:
    """Return, for each service whose requests the gateway counts, the names of its pods."""
    services = settings.services.items() if counts_requests(settings) else ()
    return {name: {*service.pods(name)} for name, service in services if service.route is not None}


def _pools_with_minimum(settings: StackSettings) -> Mapping[str, int]:
    return {name: pool.min for name, pool in with_adopted_pools(settings).workers.items() if pool.min}


def _of(pods: Sequence[PricedPod], names: Collection[str]) -> list[PricedPod]:
    return [pod for pod in pods if pod.workload in names]


def _grouped(pods: Sequence[PricedPod], by: Sequence[str]) -> _Things:
    things: dict[tuple[str, ...], list[PricedPod]] = {}
    for pod in pods:
        things.setdefault(tuple(getattr(pod, label) for label in by), []).append(pod)
    return things
