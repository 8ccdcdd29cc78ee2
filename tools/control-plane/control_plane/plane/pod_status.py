"""The status of a pod, as the API server accepts it from a kubelet. Pure.

It is sent as a strategic merge: conditions are merged by type, so that the scheduler's own stays, and container
statuses replace each other. It includes the uid, since there may be a new pod of the same name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from controllers.adapters.kube_api import Json

STRATEGIC_MERGE = "application/strategic-merge-patch+json"
_READY = ("Initialized", "ContainersReady", "Ready")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """A kubelet's knowledge of one pod; instants are RFC 3339."""

    running: bool
    since: str  # of the present value of `running`
    started: str  # the first start of the pod
    ip: str
    restarts: int = 0
    waiting: Mapping[str, str] = field(default_factory=dict[str, str])  # why it does not run
    ended: Mapping[str, Any] = field(default_factory=dict[str, Any])  # how the last process ended


def status_patch(pod: Json, state: PodState) -> Json:
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": _status(pod, state)}


def _status(pod: Json, state: PodState) -> Json:
    conditions = [
        {
            "type": kind,
            "status": "True" if state.running or kind == "Initialized" else "False",
            "lastTransitionTime": state.started if kind == "Initialized" else state.since,
        }
        for kind in _READY
    ]
    return {
        "phase": "Running" if state.running or state.ended else "Pending",
        "startTime": state.started,
        "podIP": state.ip,
        "podIPs": [{"ip": state.ip}],
        "conditions": conditions,
        "containerStatuses": [_container(container, state) for container in pod["spec"]["containers"]],
    }


def _container(container: Json, state: PodState) -> Json:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": state.running,
        "started": state.running,
        "restartCount": state.restarts,
        "state": {"running": {"startedAt": state.since}} if state.running else {"waiting": dict(state.waiting)},
        "lastState": {"terminated": dict(state.ended)} if state.ended else {},
    }
