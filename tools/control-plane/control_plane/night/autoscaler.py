"""The simulator's cluster autoscaler on a real API server.

Its decisions are the simulator's own code, with the same timers in faster time. Its objects are real: nodes are KWOK
nodes, pods leave through the Eviction API, and it observes by lists and watches. So the latencies of the API server,
the scheduler and KWOK are real, and look `speed` times as long to it.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from control_plane.night.fleet import RealFleet
from control_plane.night.mirror import Mirror
from control_plane.night.paced import Paced
from control_plane.night.scaled import ScaledClock
from controllers.adapters.kube_api import ApiError, KubeApi
from ebbtide.lab.simulator.cluster.autoscaler import ModelledAutoscaler, Reach
from ebbtide.lab.simulator.cluster.model import AutoscalerFlags, Eviction, GroupModel, WorkloadModel
from ebbtide.lab.simulator.cluster.scheduler import Placement, group_takes
from ebbtide.lab.simulator.cluster.state import ClusterState, Pod

_GONE, _REFUSED = 404, 429


def _silent(_: str) -> None:
    pass


class RealAutoscaler:
    """Context manager. Missing `initial` nodes of its groups are created at once.

    `tell` receives one line for each action, and for each pod that the model cannot express.
    """

    def __init__(
        self,
        api: KubeApi,
        groups: Sequence[GroupModel],
        flags: AutoscalerFlags,
        clock: ScaledClock,
        *,
        seed: int = 0,
        tell: Callable[[str], None] = _silent,
    ) -> None:
        self._clock = clock
        self._state = ClusterState({group.name: group for group in groups})
        self._pace = Paced(clock, "autoscaler")
        self._fleet = RealFleet(api, self._state, self._pace, tell)
        self._mirror = Mirror(api, self._state, self._changed, tell)
        reach = Reach(machines=self._fleet, lifecycle=RealEvictor(api, tell), placement=_UncachedPlacement())
        self._autoscaler = ModelledAutoscaler(self._pace.timeline, self._state, reach, flags, random.Random(seed))
        self._look_is_due = False
        self._open = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(self._mirror.close)
            self._mirror.start()
            self._pace.call(self._look)
            self._pace.call(self._fleet.begin)
            self._pace.after_each = self._fleet.write_taints
            undo.enter_context(self._pace)
            self._open = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, leaving nodes and pods unchanged; raise the error that ended its thread."""
        self._open.__exit__(kind, error, trace)

    @property
    def without_capacity(self) -> set[str]:
        """Names of groups whose launches make no machine. May be changed at any time."""
        return self._fleet.without_capacity

    @property
    def evictions(self) -> tuple[Eviction, ...]:
        """Granted evictions by virtual second; pods and workloads as "namespace/name"."""
        return tuple(self._autoscaler.evictions)

    @property
    def history(self) -> tuple[tuple[float, Mapping[str, int]], ...]:
        """Launched nodes by group at each change; seconds are virtual."""
        return tuple(self._fleet.history)

    @property
    def failed(self) -> bool:
        """True if its thread has ended by an error, which the end of the context raises."""
        return self._pace.failed

    def node_hours(self) -> Mapping[str, float]:
        """Return virtual node-hours by group so far, from launch to termination: boot and drain are paid for."""
        now = self._clock.seconds()
        return {group: seconds / 3600 for group, seconds in self._fleet.billed_seconds(now).items()}

    @property
    def boots(self) -> tuple[float, ...]:
        """Virtual seconds from each launch to a ready node."""
        return tuple(self._fleet.boots)

    @property
    def startups(self) -> tuple[float, ...]:
        """Virtual seconds from creation to ready, for pods that are no workers and found a node at once."""
        return tuple(self._mirror.startups)

    def unremovable_reasons(self) -> tuple[str, ...]:
        """Return the distinct reasons why nodes were kept so far, sorted."""
        return self._autoscaler.reasons()

    def _changed(self) -> None:
        """Schedule a look; called from the watches' threads. Many changes at a time cause one look."""
        if not self._look_is_due:
            self._look_is_due = True
            self._pace.call(self._look)

    def _look(self) -> None:
        self._look_is_due = False
        self._fleet.see(self._mirror.nodes())
        homeless = self._mirror.look(self._pace.timeline.now)
        if self._mirror.moved():
            self._state.version += 1
            self._autoscaler.state_changed()
        if homeless:
            self._autoscaler.pod_unschedulable()


class RealEvictor:
    def __init__(self, api: KubeApi, tell: Callable[[str], None]) -> None:
        self._api, self._tell = api, tell

    def evict(self, pod: Pod, grace_s: float) -> bool:
        """Send `grace_s` unscaled, in real seconds: scaled down it could become 0, which means "at once"."""
        if pod.stopping:
            return True
        namespace, _, name = pod.name.partition("/")
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"gracePeriodSeconds": int(grace_s)},
        }
        try:
            self._api.create(f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body)
        except ApiError as error:
            if error.status not in (_GONE, _REFUSED):
                self._tell(f"eviction of {pod.name}: {error}")
            return error.status == _GONE
        self._tell(f"pod {pod.name} evicted")
        pod.stopping = True
        return True


class _UncachedPlacement(Placement):
    """Placement without a cache: an update may move a workload to other nodes under the same name."""

    def takes(self, group: GroupModel, workload: WorkloadModel) -> bool:
        return group_takes(group, workload)
