"""One customer's night twice: on a real control plane in faster time, and in the simulator.

Real are the API server, the scheduler, the controllers and their disruption controller, KWOK's nodes, the Eviction API,
Redis, and Ebbtide's controller with its own account's token. Played are time (`control_plane.night.scaled`), the
machines and the autoscaler's decisions (`control_plane.night.autoscaler`), and the workers
(`control_plane.night.workers`).

Real latencies look `speed` times as long, and they decide node-hours too: a node boots longer, a drain succeeds or not.
So what they were on the real side is measured, and the simulation is given the same.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean
from types import TracebackType
from typing import Self, TypeVar

from control_plane.night.autoscaler import RealAutoscaler
from control_plane.night.fleet import is_ready, node_object
from control_plane.night.paced import Paced
from control_plane.night.scaled import ScaledClock
from control_plane.night.workers import PlayedWorkers, Shift
from control_plane.plane.driver import ControlPlane
from control_plane.plane.stack import InstalledStack, install
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.workloads import WorkloadKind
from ebbtide.simulator.cluster.model import Eviction
from ebbtide.simulator.cluster.state import Node, Room
from ebbtide.simulator.results import Strategy
from ebbtide.simulator.setup import ReplayOptions, replay_setup_of
from ebbtide.simulator.strategies.plans import FLAGS
from ebbtide.simulator.strategies.run import controlled
from ebbtide.simulator.strategies.table import cluster_plan
from ebbtide.simulator.trace.traces import find_trace
from ebbtide.simulator.world.edges import Tally
from ebbtide.simulator.world.rollouts import Rollout
from ebbtide.simulator.world.workers import JobRun
from ebbtide.simulator.world.world import ClusterPlan, World, WorldSetup
from ebbtide.vocabulary.controller_config import ControllerConfig, RedisEndpoint
from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.labels import CLOSER, CONTROLLER, NAMESPACE, WORKLOAD

_T = TypeVar("_T")

LEAD = 8.0  # real seconds before the start, in which the controller comes to lead
PATIENCE = 60.0  # real seconds
TRACE = "openb2023-a"
BOOT_S, STARTUP_S = 120.0, 15.0
"""What a replay takes for granted. The real side's own latency is part of it, as far as it goes."""
TOLERABLE_S = 60.0  # virtual; on a quiet machine it is a third of that
REAL_BOOT = 0.25  # real seconds from a node's object to a node that takes pods


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """From `start` for `length`. `flexible`: nodes of the flexible groups that the day before has left behind."""

    settings: StackSettings
    config: ControllerConfig  # as in production, but for a Redis and a resync of its own
    start: datetime
    length: timedelta
    jobs: tuple[tuple[float, float, str], ...]  # submitted at, duration, pool; seconds
    rollouts: tuple[Rollout, ...]
    flexible: int
    seed: int = 0

    def runs(self) -> list[JobRun]:
        return [JobRun(at, duration, pool) for at, duration, pool in self.jobs]

    def plan(self) -> ClusterPlan:
        plan = cluster_plan(self.settings, Strategy.FIXED_FLEXIBLE)
        kinds = {name: group.kind for name, group in self.settings.node_groups.items()}
        groups = [
            replace(group, initial=max(group.initial, self.flexible if kinds[group.name] is NodeKind.FLEXIBLE else 0))
            for group in plan.groups
        ]
        return replace(plan, groups=tuple(groups))


def demo_night(
    settings: StackSettings, start: datetime, length: timedelta, *, resync: timedelta, flexible: int
) -> Night:
    """The bundled trace on the stack, aligned with the customer's week as in a replay, from `start` on (local time)."""
    scene = replay_setup_of(settings, find_trace(TRACE), ReplayOptions())
    local = start.replace(tzinfo=scene.start.tzinfo)
    offset, end = (local - scene.start).total_seconds(), length.total_seconds()
    return Night(
        settings=settings,
        config=replace(scene.config, resync=resync),
        start=local.astimezone(UTC),
        length=length,
        jobs=tuple(
            (job.submitted_at - offset, job.duration_s, job.pool)
            for job in scene.jobs
            if 0 <= job.submitted_at - offset < end
        ),
        rollouts=tuple(
            replace(rollout, at=rollout.at - offset, until=rollout.until - offset)
            for rollout in scene.rollouts
            if 0 <= rollout.at - offset < end
        ),
        flexible=flexible,
    )


def evening(night: Night) -> Mapping[str, list[str]]:
    """Which nodes the pods of each workload are on when the night begins, as the simulation puts them there."""
    world = World(night.plan(), [], WorldSetup(start=night.start, end_s=1.0, seed=night.seed, flags=FLAGS))
    world.timeline.run_until(1.0)
    return {
        name: [pod.node.name for pod in world.cluster.pods(name) if pod.node is not None]
        for name in night.settings.workloads
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """Virtual seconds, each as it was on the real side in the mean, which is what node-hours add up to."""

    boot_s: float
    startup_s: float

    @property
    def tolerable(self) -> bool:
        """Whether the machine kept up with the speed. If not, the night says more of the machine than of the product:
        the controller's turns, which nobody measures, took as many times too long.
        """
        return self.startup_s <= TOLERABLE_S and self.boot_s <= BOOT_S + TOLERABLE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What became of a night, on either side."""

    node_hours: Mapping[str, float]
    evictions: Sequence[Eviction]
    history: Sequence[tuple[float, Mapping[str, int]]]
    jobs: Sequence[JobRun]


def simulated(night: Night, took: Latencies) -> Course:
    """The night in the simulator: the production loop, modelled edges."""
    plan = night.plan()
    plan = replace(
        plan,
        groups=tuple(replace(group, boot_s=took.boot_s) for group in plan.groups),
        workloads=tuple((replace(workload, startup_s=took.startup_s), n) for workload, n in plan.workloads),
        workers={name: replace(worker, startup_s=STARTUP_S) for name, worker in plan.workers.items()},
    )
    jobs, end_s = night.runs(), night.length.total_seconds()
    setup = WorldSetup(start=night.start, end_s=end_s, seed=night.seed, flags=FLAGS, rollouts=night.rollouts)
    world = World(plan, jobs, setup)
    controlled(night.config, world, Tally())
    series = world.recorder.series()
    return Course(
        node_hours={group: seconds / 3600 for group, seconds in world.cluster.billed_seconds().items()},
        evictions=world.cluster.evictions,
        history=[(at, {group: counts[i] for group, counts in series.nodes.items()}) for i, at in enumerate(series.at)],
        jobs=jobs,
    )


class RealNight:
    """A night on a control plane that leaves the pods of workers alone; from `with` to its end.

    It begins when the stack is installed, the first nodes are there and the controller leads.
    """

    def __init__(self, plane: ControlPlane, night: Night, speed: float, folder: Path) -> None:
        self._plane, self.night, self._speed, self._folder = plane, night, speed, folder
        self._open, self._playing = ExitStack(), ExitStack()
        self.said: list[tuple[float, str]] = []  # by the autoscaler, at virtual seconds
        self.clock: ScaledClock
        self.autoscaler: RealAutoscaler
        self.workers: PlayedWorkers
        self.stack: InstalledStack
        self._controller: subprocess.Popen[bytes]
        self._jobs = night.runs()

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            self._start(undo)
            self._open = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, trace)

    def _start(self, undo: ExitStack) -> None:
        plane, night = self._plane, self.night
        redis = undo.enter_context(EmbeddedRedis())
        self._set_up_evening()
        config = replace(night.config, redis=RedisEndpoint(host=redis.host, port=redis.port))
        self.config_file.write_text(dump(config), encoding="utf-8")
        self.clock = ScaledClock(night.start, self._speed, began=time.monotonic() + LEAD)
        self._controller = self._launch_controller()
        undo.callback(self.kill_controller)
        client = undo.enter_context(redis.client())
        queue_of = {pool.name: pool.queues[0] for pool in config.pools}
        shift = Shift(jobs=self._jobs, queue_of=queue_of, startup_s=STARTUP_S)
        self._playing = undo.enter_context(ExitStack())
        self.workers = self._playing.enter_context(PlayedWorkers(plane.api, client, self.clock, shift))
        boot_s = max(0.0, BOOT_S - REAL_BOOT * self._speed)
        groups = [replace(group, boot_s=boot_s) for group in night.plan().groups]
        self.autoscaler = self._playing.enter_context(
            RealAutoscaler(plane.api, groups, FLAGS, self.clock, seed=night.seed, tell=self._tell)
        )
        deployer = Paced(self.clock, "rollouts")
        for rollout in night.rollouts:
            deployer.timeline.at(rollout.at, lambda rollout=rollout: self._roll_out(rollout))
        self._playing.enter_context(deployer)

    def _set_up_evening(self) -> None:
        """The stack with its pods where the simulation has them. The scheduler is held meanwhile."""
        api = self._plane.api
        for group in self.night.plan().groups:
            for number in range(1, group.initial + 1):
                api.create("/api/v1/nodes", node_object(Node(f"{group.name}-{number}", group, 0.0, 0.0, Room(group))))
        self._wait_for(lambda: all(is_ready(node) for node in api.get("/api/v1/nodes")["items"]), "the first nodes")
        self._plane.suspend("kube-scheduler")
        try:
            self.stack = install(self._plane, self.night.settings, self._folder)
            for workload, nodes in evening(self.night).items():
                self._bind(workload, nodes)
        finally:
            self._plane.resume("kube-scheduler")

    def _bind(self, workload: str, nodes: Sequence[str]) -> None:
        pods = f"/api/v1/namespaces/{NAMESPACE}/pods"

        def names() -> list[str]:
            found = self._plane.api.get(pods, labelSelector=f"{WORKLOAD}={workload}")["items"]
            return [pod["metadata"]["name"] for pod in found] if len(found) == len(nodes) else []

        for name, node in zip(self._wait_for(names, f"the pods of {workload}"), nodes, strict=True):
            target = {"apiVersion": "v1", "kind": "Node", "name": node}
            self._plane.api.create(f"{pods}/{name}/binding", {"metadata": {"name": name}, "target": target})

    def _wait_for(self, look: Callable[[], _T], what: str) -> _T:
        deadline = time.monotonic() + PATIENCE
        while not (found := look()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"still waiting for {what} after {PATIENCE:.0f} s")
            time.sleep(0.05)
        return found

    @property
    def config_file(self) -> Path:
        return self._folder / "night-config.json"

    def _tell(self, line: str) -> None:
        self.said.append((self.clock.seconds(), line))

    def _launch_controller(self) -> "subprocess.Popen[bytes]":
        arguments = [*self._timing(self.clock), "--", "--config", str(self.config_file)]
        arguments += ["--kubeconfig", str(self._plane.kubeconfig_as(NAMESPACE, CONTROLLER))]
        with (self._folder / "controller.log").open("wb") as log:
            return subprocess.Popen([*_PROGRAM, *arguments], env=_environment(), stdout=log, stderr=log)

    def _timing(self, clock: ScaledClock) -> list[str]:
        return [f"--start={clock.start.isoformat()}", f"--speed={clock.speed}", f"--began={clock.began}"]

    def close_as_cron_would(self, at: datetime) -> "subprocess.CompletedProcess[str]":
        """The closer with its own token, its clock showing `at` when it starts and going on at the usual speed."""
        clock = ScaledClock(at, 1.0)
        arguments = [*self._timing(clock), "--closer", "--", "--config", str(self.config_file)]
        arguments += ["--kubeconfig", str(self._plane.kubeconfig_as(NAMESPACE, CLOSER))]
        return subprocess.run([*_PROGRAM, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False)

    def why(self, node: str) -> str:
        """What `ebbtide why node` says of it, by the real clock. Raises `subprocess.CalledProcessError`."""
        command = [sys.executable, "-m", "ebbtide.cli", "why", "node", node, f"--kubeconfig={self._plane.kubeconfig}"]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout

    def kill_controller(self) -> None:
        """At once, as when its node is lost: it closes nothing on the way out."""
        self._controller.kill()
        self._controller.wait()

    def _roll_out(self, rollout: Rollout) -> None:
        stateful = self.night.settings.workloads[rollout.workload].kind is WorkloadKind.STATEFUL_SET
        kind = "statefulsets" if stateful else "deployments"
        stamp = {"metadata": {"annotations": {"example.com/rolled-out": f"{rollout.at:.0f}"}}}
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/{kind}/{rollout.workload}"
        self._plane.api.patch(path, {"spec": {"template": stamp}})

    def wait_until(self, second: float) -> None:
        """Of the night. Raises `RuntimeError` when a part of it has ended."""
        while (left := self.clock.real(second - self.clock.seconds())) > 0:
            time.sleep(min(left, 0.5))
            if self._controller.poll() is not None or self.autoscaler.failed or self.workers.failed:
                raise RuntimeError("a part of the night has ended before its time")

    def stop(self) -> tuple[Course, Latencies]:
        """Kill the controller and let everything stand as it is: no node comes or goes, no job ends."""
        self.kill_controller()
        autoscaler = self.autoscaler
        course = Course(
            node_hours=autoscaler.node_hours(),
            evictions=autoscaler.evictions,
            history=autoscaler.history,
            jobs=self._jobs,
        )
        self._playing.close()
        return course, Latencies(boot_s=fmean(autoscaler.boots), startup_s=fmean(autoscaler.startups))


_PROGRAM = (sys.executable, "-m", "control_plane.night.controller")


def _environment() -> dict[str, str]:
    return {**os.environ, "POD_NAME": "night", "POD_NAMESPACE": NAMESPACE, "PYTHONUNBUFFERED": "1"}
