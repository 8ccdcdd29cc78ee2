"""Made-up weeks of stacks with idle things and with things that only look so, in blocks of a real Prometheus."""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeAlias

from ebbtide.monitoring.recorded import Recorded
from tests.builders.monitoring.day import GIB, PROMTOOL

DAYS = 17
EVERY = timedelta(minutes=4)
PAIR = timedelta(minutes=1)  # counters have a second sample so much later, as rates of two minutes need
_PAGE = 50_000  # bytes in each direction
WORKERS = "ebbtide-workers"
When: TypeAlias = Callable[[datetime], bool]
_Series: TypeAlias = tuple[str, Callable[[datetime], float | None]]


def never(at: datetime) -> bool:
    return False


def always(at: datetime) -> bool:
    return True


def days_before(now: datetime, first: float, last: float = 0) -> When:
    """From `first` to `last` days before now."""
    return lambda at: now - timedelta(days=first) <= at < now - timedelta(days=last)


@dataclass(frozen=True, kw_only=True)
class Node:
    name: str
    usd: float = 1.0
    cores: int = 16
    gpus: int = 0
    spot: str = ""  # its instance type


@dataclass(frozen=True, kw_only=True)
class Running:
    """A pod that requests a quarter of its node's CPU and memory, unless it says how much; or a GPU."""

    name: str
    workload: str
    busy: When = never
    visited: When = never  # at these times users load one page
    by_turns: bool = False  # two containers, of which one is busy at a time, as is one direction of the network
    there: When = always
    measured: When = always  # by its kubelet, or the exporter of GPUs
    namespace: str = "ebbtide"
    category: str = "flexible"
    node: str = "node-1"
    cores: float = 0
    gib: float = 0
    gpu: bool = False
    gpu_busy: When = never
    mig: bool = False  # the GPU is a MIG instance
    profiled: bool = True  # the exporter collects the profiling metric of the instance


@dataclass(frozen=True, kw_only=True)
class Weeks:
    """`gauges`: further series, with their values; None: no sample. Series of nodes have the exporter's own pod."""

    customer: str
    nodes: Sequence[Node]
    pods: Sequence[Running]
    gauges: Sequence[_Series] = ()
    network: bool = True

    def series(self) -> Iterator[_Series]:
        for node in self.nodes:
            exporter = 'namespace="ebbtide",pod="ebbtide-exporter"'
            of = f'{{node="{node.name}",{exporter}}}'
            kind = ("SPOT", node.spot) if node.spot else ("ON_DEMAND", "m7i.4xlarge")
            yield (
                f'ebbtide_node_info{{node="{node.name}",capacity_type="{kind[0]}",instance_type="{kind[1]}",{exporter}}}',
                lambda _: 1.0,
            )
            yield f"ebbtide_node_cpu_cores{of}", _constant(node.cores)
            yield f"ebbtide_node_memory_bytes{of}", _constant(4 * node.cores * GIB)
            yield f"ebbtide_node_dollars_per_hour{of}", _constant(node.usd)
            if node.gpus:
                yield f"ebbtide_node_gpus{of}", _constant(node.gpus)
        for pod in self.pods:
            yield from self._of(pod, next(node for node in self.nodes if node.name == pod.node))
        yield from self.gauges

    def _of(self, pod: Running, node: Node) -> Iterator[_Series]:
        of = f'namespace="{pod.namespace}",pod="{pod.name}"'
        info = f'{of},node="{pod.node}",workload="{pod.workload}",category="{pod.category}"'
        yield f"ebbtide_pod_info{{{info}}}", _where(pod.there, 1.0)
        yield f"ebbtide_pod_requested_cpu_cores{{{of}}}", _where(pod.there, pod.cores or node.cores / 4)
        memory = (pod.gib or node.cores) * GIB
        yield f"ebbtide_pod_requested_memory_bytes{{{of}}}", _where(pod.there, memory)
        if pod.gpu:
            yield f"ebbtide_pod_requested_gpus{{{of}}}", _where(pod.there, 1.0)
            yield from _gpu(pod, of)
        # An unused pod answers probes and scrapes.
        quiet, loud = {"cpu": 0.003, "net": 150.0}, {"cpu": 0.4, "net": 3_000.0}

        def measured(at: datetime) -> bool:
            return pod.there(at) and pod.measured(at)

        for address in ("10.0.0.1", "[fd00::1]"):  # the kubelet is scraped by both
            kubelet = f'instance="{address}:10250",node="{pod.node}",{of}'
            if pod.by_turns:
                yield from _by_turns(kubelet, measured)
                continue
            cpu = f'container_cpu_usage_seconds_total{{container="main",{kubelet}}}'
            yield cpu, _counter(pod.busy, measured, (quiet["cpu"], loud["cpu"]))
            for way in ("receive", "transmit") if self.network else ():
                yield (
                    f'container_network_{way}_bytes_total{{interface="eth0",{kubelet}}}',
                    _counter(pod.busy, measured, (quiet["net"], loud["net"]), pod.visited),
                )


def _by_turns(kubelet: str, there: When) -> Iterator[_Series]:
    """Together at most 0.009 cores and 390 bytes a second; the peaks alone add up to 0.016 and 700."""

    def first(at: datetime) -> bool:
        return at.timestamp() % (2 * EVERY.total_seconds()) < EVERY.total_seconds()

    def second(at: datetime) -> bool:
        return not first(at)

    for busy, container, way in ((first, "main", "receive"), (second, "log", "transmit")):
        cpu = f'container_cpu_usage_seconds_total{{container="{container}",{kubelet}}}'
        yield cpu, _counter(busy, there, (0.001, 0.008))
        network = f'container_network_{way}_bytes_total{{interface="eth0",{kubelet}}}'
        yield network, _counter(busy, there, (40, 350))


def _gpu(pod: Running, of: str) -> Iterator[_Series]:
    def used(percent: float) -> Callable[[datetime], float | None]:
        return lambda at: (percent if pod.gpu_busy(at) else 0.0) if pod.there(at) and pod.measured(at) else None

    if not pod.mig:
        yield f"DCGM_FI_DEV_GPU_UTIL{{{of}}}", used(97.0)
        return
    instance = f'{of},GPU_I_ID="7",GPU_I_PROFILE="1g.10gb"'
    yield f"DCGM_FI_DEV_GPU_UTIL{{{instance}}}", used(0.0)
    if pod.profiled:
        yield f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{instance}}}", used(0.4)


def _constant(value: float) -> Callable[[datetime], float]:
    return lambda _: float(value)


def _where(there: When, value: float) -> Callable[[datetime], float | None]:
    return lambda at: value if there(at) else None


def _counter(
    busy: When, there: When, rates: tuple[float, float], visited: When = never
) -> Callable[[datetime], float | None]:
    """Add up the quiet or the loud rate. A page falls into the minute between two samples."""
    total, last = 0.0, None

    def value(at: datetime) -> float | None:
        nonlocal total, last
        passed = at - (last or at)
        total += rates[busy(at)] * passed.total_seconds() + (_PAGE if passed == PAIR and visited(at) else 0)
        last = at
        return total if there(at) else None

    return value


def requests(service: str, busy: When) -> Iterator[_Series]:
    """As the rules record it. `TURNED_AWAY` has no series before the first request after Envoy's start."""
    for record in (Recorded.THROUGHPUT, Recorded.FAILING, Recorded.IN_FLIGHT):
        answers = record is Recorded.THROUGHPUT
        yield (
            f'{record}{{service="{service}",variant=""}}',
            lambda at, answers=answers: 2.0 if answers and busy(at) else 0.0,
        )


def pool_jobs(pool: str, busy: When) -> Iterator[_Series]:
    yield f'ebbtide_pool_jobs{{pool="{pool}",part="running",pod="scaler-a"}}', lambda at: float(busy(at))
    yield f'ebbtide_pool_jobs{{pool="{pool}",part="stale",pod="scaler-a"}}', _constant(1)


def ray_cluster(name: str, busy: When, why: str = "business-hours") -> Iterator[_Series]:
    """As the workload controller reports it: idle seconds exist only while the head says that nothing runs."""
    workload = f'workload="raycluster ebbtide-ray-{name}/{name}"'
    yield f'ebbtide_workload_state{{{workload},state="awake",why="{why}"}}', _constant(1)
    yield f"ebbtide_workload_idle_seconds{{{workload}}}", lambda at: None if busy(at) else 3600.0


def write(folder: Path, now: datetime, stacks: Sequence[Weeks]) -> None:
    """As blocks in `folder`/data, until a little after now: starting the server takes a while."""
    assert PROMTOOL is not None
    until = now + timedelta(seconds=55)
    first = until - timedelta(days=DAYS)
    end = [until - timedelta(seconds=30 * number) for number in reversed(range(7))]  # none older than 2 minutes
    starts = [first + EVERY * number for number in range(timedelta(days=DAYS) // EVERY)]
    gauges = [*(at for at in starts if at < end[0]), *end]
    counters = [*(at for start in starts for at in (start, start + PAIR) if at < end[0]), *end]
    by_metric: dict[str, list[str]] = {}
    for stack in stacks:
        for series, value_at in stack.series():
            metric, _, labels = series.partition("{")
            text = f'{metric}{{customer="{stack.customer}",{labels or "}"}'
            lines = by_metric.setdefault(metric, [])
            for at in counters if "_total" in metric else gauges:
                if (value := value_at(at)) is not None:
                    lines.append(f"{text} {value!r} {at.timestamp():.0f}\n")
    with (folder / "weeks.txt").open("w", encoding="utf-8") as out:
        for metric, lines in by_metric.items():
            out.write(f"# TYPE {metric} unknown\n")
            out.writelines(lines)
        out.write("# EOF\n")
    command = [PROMTOOL, "tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=486h", "weeks.txt", "data"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
