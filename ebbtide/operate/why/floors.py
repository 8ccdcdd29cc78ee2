"""Why a service's minimum is what it is, in one line: what the workload controller was told, against the field."""

from datetime import datetime

from controllers.adapters.kube_api import ApiError, KubeApi
from controllers.workloads.floors.calendar import FloorNow, floor_at
from ebbtide.operate.api import CannotOperate, one_line
from ebbtide.operate.objects import Document, at
from ebbtide.operate.ray.facts import ray_config_of
from ebbtide.vocabulary.windows import BusinessHours
from ebbtide.vocabulary.workloads import WorkloadsConfig

_WHY = {
    "at-min": "its min, since neither business hours nor a night nor an event ask for more",
    "business-hours": "for business hours",
    "before-business-hours": "ahead of business hours",
    "overnight": "for the work of this night",
    "before-overnight": "ahead of the work of this night",
    "event": "for an event",
    "before-event": "ahead of an event",
}


def floors_told(api: KubeApi, namespace: str) -> tuple[WorkloadsConfig | None, str]:
    """What the workload controller was told, and why that is not known; neither in a stack without one."""
    try:
        return ray_config_of(api, namespace), ""
    except (ApiError, CannotOperate) as error:
        return None, f"floors: {one_line(error)}"


def floor_line(config: WorkloadsConfig | None, pods: str, least: int | None, now: datetime) -> str:
    """Empty for pods without a floor. `least`: what the field says."""
    policy = next((it for it in config.floors if it.name == pods), None) if config is not None else None
    if config is None or policy is None:
        return ""
    floor = floor_at(now, policy, config.hours)
    late = "" if least in (None, floor.pods) else f"; its autoscaler says {least}: ask ebbtide status"
    return f"floor: {floor.pods}{_until(floor, config.hours)}, {_WHY[floor.reason]}{late}"


def _until(floor: FloorNow, hours: BusinessHours) -> str:
    return "" if floor.until is None else f" until {hours.local(floor.until):%a %d %b %H:%M} ({hours.timezone})"


def least_of(scaled: Document | None, hpa: Document | None) -> int | None:
    """The field that the workload controller writes: KEDA's where there is one."""
    return at(hpa, "spec", "minReplicas") if scaled is None else at(scaled, "spec", "minReplicaCount")
