"""Plays scenarios to the real HPA controller and records each of its looks.

**Real**: kube-apiserver, with its aggregation, and kube-controller-manager: HPA, Deployments, ReplicaSets. What the HPA
controller reads and writes is taken from the API server's audit log, so nothing is guessed from samples.
**Played**: the metrics, whose values are the experiment's input, and the pods, which are ready when the script says.
All scenarios run at once, each in a namespace of its own.
"""

import json
import time
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from control_plane.plane.driver import ControlPlane
from control_plane.plane.mode import Mode

from controllers.adapters.kube_api import Json
from ebbtide.vocabulary.labels import WORKLOADS
from tests.builders.control_plane import eventually
from tests.control_plane.hpa.metrics_api import CPU, Script, Told, serving
from tests.control_plane.hpa.pods import LABEL, Count, PlayedPods
from tests.fidelity.hpa import Beat, Change, HpaScenario

_NAME = "scaled"
_AUDITED = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "RequestResponse",
            "verbs": ["get", "update"],
            "resources": [
                {"group": "apps", "resources": ["deployments/scale"]},
                {"group": "autoscaling", "resources": ["horizontalpodautoscalers/status"]},
            ],
        },
        {"level": "None"},
    ],
}
_CONTROLLER = "horizontal-pod-autoscaler"  # the end of its user agent
_SETTLES_S = 1.0
_AT_ONCE = 20  # looks: none waits for that of another scenario, after which the next one would come early


@dataclass(frozen=True, slots=True)
class Written:
    """What stood from an instant on."""

    at: datetime
    least: int


@dataclass
class Recorder:
    plane: ControlPlane
    audit: Path
    script: Script
    pods: PlayedPods
    floors: dict[str, list[Written]] = field(default_factory=lambda: defaultdict[str, list[Written]](list))

    def take(self, scenarios: Sequence[HpaScenario], take: str) -> dict[str, list[Beat]]:
        """One take of all of them. `take` is part of the namespaces' names."""
        spaces = {one.name: f"{one.name}-{take}" for one in scenarios}
        self.pods.starts_s = {**self.pods.starts_s, **{spaces[one.name]: one.starts_s for one in scenarios}}
        self.pods.quick = True
        for one in scenarios:
            self._prepare(one, spaces[one.name])
        for one in scenarios:
            self._wait_for(spaces[one.name], one.first)
        time.sleep(_SETTLES_S)
        self.pods.quick = False
        began = datetime.now(UTC)
        for one in scenarios:
            self._begin(one, spaces[one.name])
        self._follow(scenarios, spaces, began)
        found = {one.name: list(self._beats(one, spaces[one.name], began)) for one in scenarios}
        for space in spaces.values():
            self.plane.api.delete(f"/api/v1/namespaces/{space}")
        return found

    def _prepare(self, one: HpaScenario, space: str) -> None:
        self.plane.api.create("/api/v1/namespaces", {"metadata": {"name": space}})
        surges = {"maxSurge": max((change.surge or 0 for change in one.timeline), default=0) or 1, "maxUnavailable": 0}
        container = {"name": "x", "image": "x", "resources": {"requests": {CPU: "1"}}}
        pod = {"nodeName": "one", "terminationGracePeriodSeconds": 0, "containers": [container]}
        labels = {LABEL: "yes", "of": space}
        spec = {
            "replicas": one.first,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": surges},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        }
        body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": _NAME}, "spec": spec}
        self.plane.api.create(f"/apis/apps/v1/namespaces/{space}/deployments", body)
        self._play(one.timeline[0], space)

    def _wait_for(self, space: str, count: int) -> None:
        path = f"/apis/apps/v1/namespaces/{space}/deployments/{_NAME}"
        eventually(
            lambda: self.plane.api.get(path).get("status", {}).get("readyReplicas", 0) == count,
            what=f"{count} ready pods of {space}",
        )

    def _begin(self, one: HpaScenario, space: str) -> None:
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": _NAME}
        body = {"metadata": {"name": _NAME}, "spec": {"scaleTargetRef": target, **one.hpa}}
        self.plane.api.create(self._hpa(space).rpartition("/")[0], body)
        self.floors[space].append(Written(datetime.now(UTC), one.hpa["minReplicas"]))

    def _hpa(self, space: str) -> str:
        return f"/apis/autoscaling/v2/namespaces/{space}/horizontalpodautoscalers/{_NAME}"

    def _follow(self, scenarios: Sequence[HpaScenario], spaces: Mapping[str, str], began: datetime) -> None:
        due = [(change, spaces[one.name]) for one in scenarios for change in one.timeline[1:]]
        for change, space in sorted(due, key=lambda it: it[0].at_s):
            _sleep_until(began, change.at_s)
            self._play(change, space)
        _sleep_until(began, max(one.end_s for one in scenarios))

    def _play(self, change: Change, space: str) -> None:
        for metric, value in change.values.items():
            self.script.values[space, metric] = value
        deployment = f"/apis/apps/v1/namespaces/{space}/deployments/{_NAME}"
        if change.least is not None:
            body = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
            self.plane.api.apply(self._hpa(space), {**body, "spec": {"minReplicas": change.least}}, manager=WORKLOADS)
            self.floors[space].append(Written(datetime.now(UTC), change.least))
        if change.replicas is not None:
            self.plane.api.patch(f"{deployment}/scale", {"spec": {"replicas": change.replicas}})
        if change.surge is not None:
            self.plane.api.patch(deployment, {"spec": {"template": {"metadata": {"labels": {"held": "yes"}}}}})

    # --- what was seen ------------------------------------------------------------------------------------------------

    def _beats(self, one: HpaScenario, space: str, began: datetime) -> Iterator[Beat]:
        """A look begins when the controller reads the scale; what it reads again after a conflict is no other look."""
        looks: list[list[Json]] = []
        refused = False
        for event in self._audited(space):
            reads = event["verb"] == "get"
            if reads and not refused:
                looks.append([])
            refused = not reads and event["responseStatus"]["code"] >= 400
            if looks:
                looks[-1].append(event)
        starts = [_at(look[0]) for look in looks]
        told = [it for it in self.script.told if it.scenario == space]
        for place, look in enumerate(looks):
            at = starts[place]
            until = starts[place + 1] if place + 1 < len(looks) else datetime.max.replace(tzinfo=UTC)
            if (at - began).total_seconds() < one.end_s:
                yield self._beat(look, began, [it for it in told if at <= it.at < until], space)

    def _beat(self, look: Sequence[Json], began: datetime, told: Sequence[Told], space: str) -> Beat:
        first, at = look[0], _at(look[0])
        scale = first["responseObject"]
        count = _latest(self.pods.counts[space], at)
        status: Json = {}
        wrote: int | None = None
        for event in look:
            if event["verb"] == "update" and event["responseStatus"]["code"] == 200:
                if event["objectRef"]["subresource"] == "scale":
                    wrote = event["requestObject"]["spec"].get("replicas", 0)
                else:
                    status = event["requestObject"]["status"]
        return Beat(
            at_s=round((at - began).total_seconds(), 2),
            replicas=scale["spec"].get("replicas", 0),
            there=scale["status"].get("replicas", 0),
            ready=0 if count is None else count.ready,
            least=[it for it in self.floors[space] if it.at <= at][-1].least,
            values={it.metric: it.value for it in told},
            wrote=wrote,
            desired=status.get("desiredReplicas"),
            conditions={it["type"]: it["reason"] for it in status.get("conditions", ())},
        )

    def _audited(self, space: str) -> list[Json]:
        with self.audit.open(encoding="utf-8") as lines:
            events = [json.loads(line) for line in lines if f'"{space}"' in line]
        own = [it for it in events if it["objectRef"]["namespace"] == space and it["userAgent"].endswith(_CONTROLLER)]
        return sorted(own, key=lambda it: it["requestReceivedTimestamp"])


def _sleep_until(began: datetime, at_s: float) -> None:
    time.sleep(max(0.0, at_s - (datetime.now(UTC) - began).total_seconds()))


def _at(event: Json) -> datetime:
    return datetime.fromisoformat(event["requestReceivedTimestamp"])


def _latest(counts: Sequence[Count], at: datetime) -> Count | None:
    return next((it for it in reversed(list(counts)) if it.at <= at), None)


@contextmanager
def recorder(folder: Path, *, sync_s: int = 3, stabilization_s: int = 20) -> Generator[Recorder]:
    """A control plane of its own, whose controller looks every `sync_s`."""
    policy, audit = folder / "audit-policy.json", folder / "audit.log"
    policy.write_text(json.dumps(_AUDITED), encoding="utf-8")
    mode = Mode(
        api_server=(f"--audit-policy-file={policy}", f"--audit-log-path={audit}"),
        manager=(
            f"--horizontal-pod-autoscaler-downscale-stabilization={stabilization_s}s",
            f"--concurrent-horizontal-pod-autoscaler-syncs={_AT_ONCE}",
        ),
    )
    with ControlPlane(hands_off=LABEL, mode=mode) as plane:
        plane.hpa_every(sync_s)
        plane.add_node("one", cpu=1000)
        pods = PlayedPods(plane.api, {})
        script = Script(pods.ready)
        with pods, serving(plane, script):
            yield Recorder(plane, audit, script, pods)
