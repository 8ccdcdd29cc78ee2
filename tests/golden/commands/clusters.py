"""Commands on clusters of others and with other people's work: probe, adopt, maintenance, jobs."""

import json
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from ebbtide.operate.why.pod_exec import Completed
from tests.builders.existing import CLUSTER_ID, onprem
from tests.golden.commands import platform
from tests.golden.commands.case import Case, Stage, replaced, returns
from tests.golden.commands.cluster import cluster
from tests.unit.operate.adoptable import Adoptable
from tests.unit.operate.test_adopt import STACK as ADOPTING
from tests.unit.operate.test_adopt import platform as team_platform
from tests.unit.operate.test_probe import (
    AUTOSCALER,
    DEPLOYMENT,
    GPU_NODES,
    NODES,
    STORAGE,
    SYSTEM,
    CannedCluster,
    controller,
    namespace,
    node,
    storage_class,
    taint,
)
from tests.unit.operate.test_probe_ray import RAY, SOUND

_JOBS: Mapping[str, Any] = {
    "waits": {"rq": {"status": "queued", "queue": "train", "position": 2, "waiting": 3}},
    "taken": {"rq": {"status": "queued", "queue": "train"}},
    "runs": {
        "rq": {"status": "started", "queue": "train", "pod": "train-1-a", "since": "2026-11-20T14:30:00Z"},
        "checkpoint": {
            "step": 40,
            "saved": "2026-11-20T14:55:00Z",
            "token": 3,
            "deaths": 2,
            "problem": "disk full",
        },
    },
    "silent": {
        "rq": {"status": "started", "queue": "other", "worker": "w1", "since": "2026-11-20T10:00:00Z", "silent": True}
    },
    "failed": {
        "rq": {"status": "failed", "queue": "train", "ended": "2026-11-19T15:00:00Z", "error": "ValueError: no"},
        "checkpoint": {"deaths": 1},
    },
    "of-celery": {"checkpoint": {"step": 4, "saved": "2026-11-20T14:55:00Z"}},
    "strange": {},
}


def _connected(api: Callable[[], Any]) -> Stage:
    """An API of other tests, for each run a new one."""

    @contextmanager
    def stage() -> Generator[Sequence[object]]:
        new = api()
        with patch("ebbtide.cli.cluster.connect", returns(new)):
            yield getattr(new, "patches", ())

    return stage


def _probed(answers: Mapping[str, Any], ahead: timedelta | None = timedelta(), **how: Any) -> Stage:
    def made() -> Any:
        api: Any = CannedCluster(answers, **how)
        api.source, api.clock_ahead = "kubeconfig ~/.kube/config, context onprem", ahead
        return api

    return _connected(made)


def _labelling(conflicts: bool = False) -> Callable[[], Adoptable]:
    def made() -> Adoptable:
        team = Adoptable()
        team.workload("Deployment", "hub", 3)

        def goes(_: str) -> None:
            team.pods.pop("team/hub-5d4c-1", None)

        if conflicts:
            team.before_patch = goes
        return team

    return made


def _run_in_pod(_api: object, _pod: str, _container: str, command: Sequence[str]) -> Completed:
    job = command[-1]
    if job not in _JOBS:
        return Completed(1, "", "No module named ebbtide.jobs")
    return Completed(0, json.dumps({"job": job, "rq": None, "checkpoint": None, **_JOBS[job]}), "")


class _Soon(threading.Event):
    """Set after two looks, without waiting."""

    def __init__(self) -> None:
        super().__init__()
        self._looks = 2

    def is_set(self) -> bool:
        self._looks -= 1
        return self._looks < 0

    def wait(self, timeout: float | None = None) -> bool:
        del timeout
        return False


@contextmanager
def _stop_soon() -> Generator[threading.Event]:
    yield _Soon()


def _maintained(**changes: int) -> Stage:
    objects = {**platform.objects(), **changes}
    return replaced({"ebbtide.cli.maintenance._stop_on_signal": _stop_soon}, cluster(objects))


_STACKS = {
    "stacks/Pulumi.onprem.yaml": onprem(f'clusterId: "{CLUSTER_ID}", {GPU_NODES}'),
    "stacks/Pulumi.ray.yaml": onprem() + RAY,
    "stacks/Pulumi.acme.yaml": ADOPTING,
}
_LACKING: Mapping[str, Any] = {
    "/version": {"gitVersion": "v1.28.0"},
    "/api/v1/namespaces/kube-system": {"metadata": {"uid": "another"}},
    STORAGE: {"items": [storage_class(default=False)]},
    NODES: {"items": [node("2", "4Gi"), node("8", "32Gi", 1, taint("gpu"), pool="gpu")]},
    SYSTEM: namespace("other"),
    DEPLOYMENT: controller("ghcr.io/ebbtide/controller:0.0.1"),
    AUTOSCALER: 403,
    "/apis": {"groups": []},
}

CASES: Mapping[str, Case] = {
    "probe/sound": Case(
        lines=["probe", "probe onprem"], json=["probe onprem --json"], files=_STACKS, stage=_probed({})
    ),
    "probe/lacking": Case(
        lines=["probe onprem", "probe strange"],
        json=["probe onprem --json"],
        files=_STACKS,
        stage=_probed(
            _LACKING,
            timedelta(seconds=70),
            denied=(("create", "deployments"), ("patch", "roles")),
            others_lack=None,
        ),
    ),
    "probe/colors": Case(lines=["probe onprem"], files=_STACKS, stage=_probed(_LACKING), widths=(80,), colors=True),
    "probe/ray": Case(
        lines=["probe ray"],
        files=_STACKS,
        stage=_probed({**SOUND, STORAGE: 403}, None, others_lack=(("flow", "get", "pods"),)),
    ),
    "adopt/proposed": Case(
        lines=[
            "adopt --namespace jupyter --namespace postgres --namespace api",
            "adopt acme --namespace jupyter",
            "adopt --namespace none",
            "adopt",
            "adopt --namespace kube-system",
            "adopt --label-running",
        ],
        files=_STACKS,
        stage=_connected(team_platform),
    ),
    "adopt/labelled": Case(
        lines=["adopt acme --label-running", "adopt acme --label-running --yes", "adopt acme --label-running"],
        files=_STACKS,
        stage=_connected(_labelling()),
    ),
    "adopt/conflict": Case(
        lines=["adopt acme --label-running --yes"], files=_STACKS, stage=_connected(_labelling(conflicts=True))
    ),
    "maintenance/nodes": Case(
        lines=[
            "maintenance --for 2h --why 'new AMI' --node fixed-1 --selector ebbtide.dev/node-group=flexible",
            "maintenance --for 30m --why 'new AMI' --node fixed-1",
            "maintenance --for 30m --why 'new AMI' --node general-1",
            "maintenance --for 12h --why 'new AMI'",
            "maintenance --for 13h --why 'new AMI'",
            "maintenance --for 2h --why 'new AMI' --node strange",
        ],
        stage=_maintained(),
    ),
    "maintenance/not-closed": Case(
        lines=["maintenance --for 2h --why 'new AMI' --node cpu-1"],
        stage=_maintained(**{f"PATCH {platform.BUDGETS}/db": 403}),
    ),
    "maintenance/ray": Case(
        lines=[
            "maintenance --for 2h --why 'new image' --ray flow --yes",
            "maintenance --for 2h --why 'new image' --ray nightly --yes",
            "maintenance --for 2h --why 'new image' --ray strange --yes",
            "maintenance --for 2h --why 'new image' --ray flow",
        ],
        stage=_maintained(),
    ),
    "why/jobs": Case(
        lines=[f"why job {name}" for name in (*_JOBS, "unanswered")],
        stage=replaced({"ebbtide.operate.why.job.run_in_pod": _run_in_pod}, cluster(platform.objects())),
    ),
}
