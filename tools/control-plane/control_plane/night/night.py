"""A customer's night on a real control plane in faster time, and the same night in the simulator.

Real: the API server, the scheduler, the controllers with the disruption controller, KWOK's nodes, the Eviction API,
Redis, and Ebbtide's controller with its own account's token. Simulated: time (`control_plane.night.scaled`), the
machines and the autoscaler's decisions (`control_plane.night.autoscaler`), and the workers
(`control_plane.night.workers`).

Real latencies look `speed` times as long and affect node-hours: a node boots longer, a drain succeeds or not. So they
are measured on the real side, and the simulation uses the measured values.
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
from ebbtide.lab.simulator.cluster.model import Eviction
from ebbtide.lab.simulator.cluster.state import Node, Room
from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.simulator.setup import ReplayOptions, replay_setup_of
from ebbtide.lab.simulator.strategies.plans import FLAGS
from ebbtide.lab.simulator.strategies.run import controlled
from ebbtide.lab.simulator.strategies.table import cluster_plan
from ebbtide.lab.simulator.trace.traces import find_trace
from ebbtide.lab.simulator.world.edges import ActionCounts
from ebbtide.lab.simulator.world.rollouts import Rollout
from ebbtide.lab.simulator.world.workers import JobRun
from ebbtide.lab.simulator.world.world import ClusterPlan, World, WorldSetup
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.workloads import WorkloadKind
from ebbtide.vocabulary.controller_config import ControllerConfig, RedisEndpoint
from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.labels import CLOSER, CONTROLLER, NAMESPACE, WORKLOAD

_T = TypeVar("_T")

LEAD = 8.0  # real seconds before the start, for the controller to become the leader
PATIENCE = 60.0  # real seconds
TRACE = "openb2023-a"
BOOT_S, STARTUP_S = 120.0, 15.0
"""Assumptions of a replay; the real side's own latency counts as part of them."""
TOLERABLE_S = 60.0  # virtual; a third of it on an idle machine
REAL_BOOT = 0.25  # real seconds from a node's object to a ready node


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """A night from `start` for `length`. `flexible`: nodes of the flexible groups that remain from the day before."""

    settings: StackSettings
    config: ControllerConfig  # as in production, with another Redis and resync
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
    """Return the bundled trace on the stack from `start` (local time), aligned with the week as in a replay."""
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
    """Return the nodes of each workload's pods when the night begins, by the simulation."""
    world = World(night.plan(), [], WorldSetup(start=night.start, end_s=1.0, seed=night.seed, flags=FLAGS))
    world.timeline.run_until(1.0)
    return {
        name: [pod.node.name for pod in world.cluster.pods(name) if pod.node is not None]
        for name in night.settings.workloads
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """Mean virtual seconds on the real side, since node-hours are sums."""

    boot_s: float
    startup_s: float

    @property
    def tolerable(self) -> bool:
        """True if the machine kept up with the speed.

        If not, the night shows more of the machine than of the product: the controller's turns, which are not measured,
        took as many times too long.
        """
        return self.startup_s <= TOLERABLE_S and self.boot_s <= BOOT_S + TOLERABLE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """Result of a night, on either side."""

    node_hours: Mapping[str, float]
    evictions: Sequence[Eviction]
    history: Sequence[tuple[float, Mapping[str, int]]]
    jobs: Sequence[JobRun]


def simulated(night: Night, latencies: Latencies) -> Course:
    """Run the night in the simulator: the production loop with modelled edges."""
    plan = night.plan()
    plan = replace(
        plan,
        groups=tuple(replace(group, boot_s=latencies.boot_s) for group in plan.groups),
        workloads=tuple((replace(workload, startup_s=latencies.startup_s), n) for workload, n in plan.workloads),
        workers={name: replace(worker, startup_s=STARTUP_S) for name, worker in plan.workers.items()},
    )
    jobs, end_s = night.runs(), night.length.total_seconds()
    setup = WorldSetup(start=night.start, end_s=end_s, seed=night.seed, flags=FLAGS, rollouts=night.rollouts)
    world = World(plan, jobs, setup)
    controlled(night.config, world, ActionCounts())
    series = world.recorder.series()
    return Course(
        node_hours={group: seconds / 3600 for group, seconds in world.cluster.billed_seconds().items()},
        evictions=world.cluster.evictions,
        history=[(at, {group: counts[i] for group, counts in series.nodes.items()}) for i, at in enumerate(series.at)],
        jobs=jobs,
    )


class RealNight:
    """A night on a control plane that leaves the workers' pods alone. Context manager.

    It begins when the stack is installed, the first nodes exist and the controller leads.
    """

    def __init__(self, plane: ControlPlane, night: Night, speed: float, folder: Path) -> None:
        self._plane, self.night, self._speed, self._folder = plane, night, speed, folder
        self._open, self._playing = ExitStack(), ExitStack()
        self.said: list[tuple[float, str]] = []  # the autoscaler's lines, at virtual seconds
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
        """Install the stack with its pods placed as in the simulation, while the scheduler is suspended."""
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
            items = self._plane.api.get(pods, labelSelector=f"{WORKLOAD}={workload}")["items"]
            return [pod["metadata"]["name"] for pod in items] if len(items) == len(nodes) else []

        for name, node in zip(self._wait_for(names, f"the pods of {workload}"), nodes, strict=True):
            target = {"apiVersion": "v1", "kind": "Node", "name": node}
            self._plane.api.create(f"{pods}/{name}/binding", {"metadata": {"name": name}, "target": target})

    def _wait_for(self, look: Callable[[], _T], what: str) -> _T:
        deadline = time.monotonic() + PATIENCE
        while not (result := look()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"still waiting for {what} after {PATIENCE:.0f} s")
            time.sleep(0.05)
        return result

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
        """Run the closer with its own token; its clock starts at `at` and runs at normal speed."""
        clock = ScaledClock(at, 1.0)
        arguments = [*self._timing(clock), "--closer", "--", "--config", str(self.config_file)]
        arguments += ["--kubeconfig", str(self._plane.kubeconfig_as(NAMESPACE, CLOSER))]
        return subprocess.run([*_PROGRAM, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False)

    def why(self, node: str) -> str:
        """Return the output of `ebbtide why node`, by the real clock. Raises `subprocess.CalledProcessError`."""
        command = [sys.executable, "-m", "ebbtide.cli", "why", "node", node, f"--kubeconfig={self._plane.kubeconfig}"]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout

    def kill_controller(self) -> None:
        """Kill it at once, as when its node is lost: it closes nothing."""
        self._controller.kill()
        self._controller.wait()

    def _roll_out(self, rollout: Rollout) -> None:
        stateful = self.night.settings.workloads[rollout.workload].kind is WorkloadKind.STATEFUL_SET
        kind = "statefulsets" if stateful else "deployments"
        stamp = {"metadata": {"annotations": {"example.com/rolled-out": f"{rollout.at:.0f}"}}}
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/{kind}/{rollout.workload}"
        self._plane.api.patch(path, {"spec": {"template": stamp}})

    def wait_until(self, second: float) -> None:
        """Wait for a second of the night. Raises `RuntimeError` when a part of it has ended."""
        while (remaining := self.clock.real(second - self.clock.seconds())) > 0:
            time.sleep(min(remaining, 0.5))
            if self._controller.poll() is not None or self.autoscaler.failed or self.workers.failed:
                raise RuntimeError("a part of the night has ended before its time")

    def stop(self) -> tuple[Course, Latencies]:
        """Kill the controller and freeze the rest: no node appears or disappears, no job ends."""
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
