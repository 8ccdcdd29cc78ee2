"""What Prometheus recorded for the commands that ask it, written by hand."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ebbtide.monitoring.recorded import Recorded
from tests.builders.evidence.told import Points, Told
from tests.builders.monitoring.recorded_requests import ANSWERS, MEDIAN, RecordedRequests
from tests.unit.cli.test_advise_sizes import VPAS as RECOMMENDED
from tests.unit.cli.test_advise_sizes import recorded
from tests.unit.operate.raw_objects import NOW

_RATES = {"small": dict.fromkeys(range(12), 0.8), "large": dict.fromkeys(range(12), 0.2)}
_MEDIANS = {"small": dict.fromkeys(range(12), 2.0), "large": dict.fromkeys(range(12), 0.25)}
OF_REQUESTS = RecordedRequests(
    {(name, variant): each[variant] for name, each in ((ANSWERS, _RATES), (MEDIAN, _MEDIANS)) for variant in each}, NOW
)
OF_SIZES = Told(NOW, recorded())
_TARGET = {"cpu": "587m", "memory": "1258291200"}
VPAS: Mapping[str, Any] = {
    RECOMMENDED: {
        "items": [
            {
                "spec": {"targetRef": {"kind": "Deployment", "name": "api"}},
                "status": {
                    "recommendation": {"containerRecommendations": [{"containerName": "api", "target": _TARGET}]}
                },
            }
        ]
    }
}

_STEPS = 4 * 24 * 17  # quarters of an hour in which something was recorded


def _quarters(busy: Callable[[float], bool], days: float = 17, gap: float = -1) -> Points:
    """Whether something happened, by the days before now; from `gap` on, half a day is missing."""
    steps = (step for step in range(_STEPS) if step < days * 96 and not gap <= step / 96 < gap + 0.5)
    return [(step / 4, float(busy(step / 96))) for step in reversed([*steps])]


def _now(metric: str, value: float, **labels: str) -> tuple[str, Points]:
    shown = " ".join(f"{key}={text}" for key, text in {"__name__": f"ebbtide_{metric}", **labels}.items())
    return shown, [(0.0, value)]


def _node(name: str, usd: float, gpus: int = 0, spot: str = "") -> Iterator[tuple[str, Points]]:
    kind = {"capacity_type": "SPOT" if spot else "ON_DEMAND", "instance_type": spot or "m7i.4xlarge"}
    yield _now("node_info", 1, node=name, **kind)
    yield _now("node_cpu_cores", 16, node=name)
    yield _now("node_memory_bytes", 64 * 2.0**30, node=name)
    if usd:
        yield _now("node_dollars_per_hour", usd, node=name)
    if gpus:
        yield _now("node_gpus", gpus, node=name)


def _pod(
    name: str, workload: str, node: str, namespace: str = "ebbtide", gpus: int = 0
) -> Iterator[tuple[str, Points]]:
    category = "worker" if "-workers" in namespace or "hub" in namespace else "flexible"
    labels = {"namespace": namespace, "pod": name}
    yield _now("pod_info", 1, node=node, workload=workload, category=category, **labels)
    yield _now("pod_requested_cpu_cores", 4, **labels)
    yield _now("pod_requested_memory_bytes", 16 * 2.0**30, **labels)
    if gpus:
        yield _now("pod_requested_gpus", gpus, **labels)


_WORKERS, _HUB = "ebbtide-workers", "ebbtide-hub"
_THERE = (
    *_node("node-1", 1.0),
    *_node("node-2", 0.0),
    *_node("node-gpu", 2.0, gpus=2),
    *_node("node-spot", 9.0, spot="m7i.4xlarge"),
    *(sample for n in (1, 2) for sample in _pod(f"dashboard-{n}", "dashboard", "node-1")),
    *_pod("api-1", "api", "node-1"),
    *_pod("moved-1", "moved", "node-2"),
    *_pod("holey-1", "holey", "node-1"),
    *_pod("jupyter-ada", "hub-pods", "node-spot", _HUB),
    *_pod("jupyter-bob", "hub-pods", "node-gpu", _HUB, gpus=1),
    *(sample for n in (1, 2, 3) for sample in _pod(f"warm-{n}", "warm", "node-1", _WORKERS)),
    *_pod("train-1", "train", "node-gpu", _WORKERS, gpus=1),
    *_pod("embedder-1", "embedder", "node-1"),
    *_pod("flow-head", "flow-head", "node-1", "ebbtide-ray-flow"),
)
OF_IDLE = Told(
    NOW,
    {
        "ebbtide_(pod|node)_": dict(_THERE),
        "raycluster": {"name=flow": _quarters(lambda days: 14 < days < 15)},
        'part!="stale"': {"pool=warm": _quarters(lambda days: days % 1 < 0.2 or days % 1 > 0.95)},
        "DCGM": {
            f"namespace={_WORKERS} pod=train-1": _quarters(lambda days: 1.5 < days < 2),
            f"namespace={_HUB} pod=jupyter-bob": _quarters(lambda days: days > 5),
        },
        "service_variant": {"service=embedder": _quarters(lambda _: False)},
        "max by (workload) (": {
            "workload=dashboard": _quarters(lambda days: days > 11),
            "workload=api": _quarters(lambda _: True),
            "workload=moved": _quarters(lambda _: False, days=12),
            "workload=holey": _quarters(lambda _: False, gap=3),
        },
        "max by (namespace, pod) (": {
            f"namespace={_HUB} pod=jupyter-ada": _quarters(lambda days: days > 6),
            f"namespace={_HUB} pod=jupyter-bob": _quarters(lambda _: True),
        },
    },
)


def _course(value: Callable[[float], float], hours: float = 6) -> Points:
    """Each two minutes, by the hours before now."""
    return [(step / 30, value(step / 30)) for step in range(round(hours * 30), -1, -1)]


def _recorded(series: Recorded, **values: Callable[[float], float]) -> Mapping[str, Mapping[str, Points]]:
    label = series.value.partition(":")[0].rpartition("_")[2]
    label = "" if label == "customer" else label
    return {series.value: {f"{label}={name}" if label else "": _course(value) for name, value in values.items()}}


def _by_day(hours: float) -> float:
    return 4.0 if hours < 3 else 1.0


OF_LIVE = Told(
    NOW,
    {
        **_recorded(Recorded.NODES, fixed=lambda _: 2, flexible=_by_day, gpu=lambda hours: float(hours < 1)),
        **_recorded(Recorded.DOLLARS, fixed=lambda _: 0.8, flexible=lambda hours: 0.8 * _by_day(hours)),
        **_recorded(Recorded.PAID_CPU, fixed=lambda _: 16, flexible=lambda hours: 16 * _by_day(hours)),
        **_recorded(Recorded.REQUESTED_CPU, api=lambda _: 4, train=lambda hours: 12 * _by_day(hours)),
        **_recorded(Recorded.USED_CPU, api=lambda _: 0.5, train=lambda hours: 10 * _by_day(hours)),
        **_recorded(Recorded.PAID_MEMORY, fixed=lambda _: 2.0**36, flexible=lambda hours: 2.0**36 * _by_day(hours)),
        **_recorded(Recorded.REQUESTED_MEMORY, api=lambda _: 2.0**33, train=lambda _: 2.0**35),
        **_recorded(Recorded.WORKERS_RUNNING, all=_by_day),
        **_recorded(Recorded.WORKERS_WANTED, all=_by_day),
        **_recorded(Recorded.JOBS, waiting=lambda hours: 5 * (hours < 2), running=_by_day),
        **_recorded(Recorded.WAITS, train=lambda hours: 90 * (hours < 2)),
        **_recorded(Recorded.UNREMOVABLE, NoPlaceToMovePods=lambda _: 1),
    },
)
