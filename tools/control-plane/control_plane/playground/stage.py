"""Everything that plays a part in a show, started in order and ended in reverse, whatever happens between.

Real: the control plane, the customer's rendered stack, the controller and the closer with their own accounts' tokens,
Redis, RQ's workers and jobs. Modelled: machines (KWOK's nodes) and when the autoscaler wants them. The clocks by which
the controller, the closer and the autoscaler decide run faster; everything else takes the time that it takes.
"""

import socket
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from redis import Redis
from rq import Queue

from control_plane.night.autoscaler import RealAutoscaler
from control_plane.night.scaled import ScaledClock
from control_plane.plane.driver import ControlPlane
from control_plane.plane.kubelet import Kubelet
from control_plane.playground.evening import start_of_show
from control_plane.playground.ground import lay_out
from control_plane.playground.jobs import Submission, small
from control_plane.playground.options import Options, Unplayable
from control_plane.playground.seen import Moved, Seen, look
from controllers.adapters.kube_api import Json
from ebbtide.demo.embedded import HOST, free_port
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.demo.jobs import work
from ebbtide.demo.live import SAFE_WORKER
from ebbtide.demo.process_cluster import rq_worker_command
from ebbtide.labels import POOL, WORKER_NAMESPACE
from ebbtide.operate.api import CONFIG_KEY
from ebbtide.prices import NoPrice
from ebbtide.settings import StackInvalid, StackSettings, load_stack
from ebbtide.simulator.replay.setup import ReplayError, require_node_groups
from ebbtide.simulator.strategies.plans import FLAGS, Strategy, cluster_plan
from ebbtide.simulator.world.world import ClusterPlan
from ebbtide.vocabulary.controller_config import ControllerConfig, RedisEndpoint, dump
from ebbtide.vocabulary.labels import CATEGORY, CLOSER, CONTROLLER, NAMESPACE, Category

_LAST_WORDS = 5.0  # seconds in which the controller closes budgets on its way out
_SLACK = 600  # seconds beyond a job's length before RQ ends it


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """What is to be shown, known before anything starts."""

    options: Options
    settings: StackSettings
    plan: ClusterPlan


def prepare(options: Options) -> Play:
    """Raises `Unplayable`."""
    try:
        settings = load_stack(options.stack)
        require_node_groups(settings)
        plan = cluster_plan(settings, Strategy.FIXED_FLEXIBLE)
    except StackInvalid as invalid:
        raise Unplayable("\n".join(str(problem) for problem in invalid.problems)) from None
    except ReplayError as error:
        raise Unplayable(str(error)) from None
    except NoPrice as error:
        raise Unplayable(f"stack {options.stack}: {error}") from None
    if options.port is not None and _is_taken(options.port):
        raise Unplayable(f"playground: port {options.port} is taken: stop what listens there, or choose another")
    return Play(options=options, settings=settings, plan=plan)


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return True
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The parts, at work."""

    plane: ControlPlane
    redis: Redis
    config: ControllerConfig
    clock: ScaledClock
    autoscaler: RealAutoscaler
    port: int

    def paste(self, node: str) -> tuple[str, ...]:
        """Lines for another terminal; the last one asks about that node among others."""
        ebbtide = Path(sys.executable).with_name("ebbtide")
        here = ebbtide.relative_to(Path.cwd()) if ebbtide.is_relative_to(Path.cwd()) else ebbtide
        return (
            f"export KUBECONFIG={self.plane.kubeconfig}",
            f"export EBBTIDE_CONTROLLER_URL=http://{HOST}:{self.port}",
            f"kubectl get nodes,pods -A; {here} status; {here} why node {node}",
        )

    def look(self) -> Seen:
        """Raises `ApiError` and `RedisError`."""
        moved = [
            Moved(
                at=self.clock.start + timedelta(seconds=eviction.at),
                pod=eviction.pod,
                category=eviction.category,
                node=eviction.node,
            )
            for eviction in self.autoscaler.evictions
        ]
        return look(self.plane.api, self.redis, self.config, self.clock.now(), moved)

    def submit(self, job: Submission) -> None:
        seconds = self.clock.real(job.seconds)
        Queue(job.queue, connection=self.redis).enqueue(work, seconds, job_timeout=int(seconds) + _SLACK)

    def run_closer(self) -> None:
        """As its CronJob would: a process that ends by itself."""
        _start(self.plane, self.clock, CLOSER, ["--closer"])

    def closer_error(self) -> str | None:
        """Once it has ended: what it did, in words; None while it runs, or when it was not started."""
        how = self.plane.processes.ended().get(CLOSER)
        if how is None:
            return None
        said = self.plane.processes.log(CLOSER).read_text().splitlines()
        self.plane.processes.stop(CLOSER)
        self.plane.processes.log(CLOSER).unlink()
        closed = sum(line.endswith(" closed") for line in said)
        if closed == len(said):
            return f"the closer looked: it closed {closed}" if closed else "the closer looked: all was closed already"
        return f"the closer {how}"

    def fallen(self) -> str:
        """Which part has ended that should not; empty if none."""
        ended = {name: how for name, how in self.plane.processes.ended().items() if name != CLOSER}
        return "; ".join(f"{name} {how}" for name, how in ended.items())


@contextmanager
def stage(play: Play, say: Callable[[str], None]) -> Generator[Stage]:
    """Raises `ControlPlaneError`, `NoRedis` and `Unplayable`; nothing is left behind."""
    options = play.options
    with ExitStack() as parts:
        say("starting etcd, the API server, the scheduler, the controllers and KWOK")
        plane = parts.enter_context(ControlPlane(hands_off=f"{CATEGORY}={Category.WORKER}"))
        server = parts.enter_context(EmbeddedRedis())
        redis = parts.enter_context(server.client())
        say(f"applying stack {play.settings.stack}")
        config = _installed(plane, play, redis, server.port)
        lasting = timedelta(hours=options.hours)
        clock = ScaledClock(start_of_show(config.hours, datetime.now(UTC), lasting, options.start), options.speed)
        kubelet = Kubelet(plane.api, WORKER_NAMESPACE, _worker_command(config), speed=options.speed)
        autoscaler = RealAutoscaler(plane.api, play.plan.groups, FLAGS, clock, seed=options.seed)
        port = options.port or free_port()
        _start(plane, clock, CONTROLLER, ["--listen", f"{HOST}:{port}"])
        parts.callback(lambda: plane.processes.stop(CONTROLLER, patience=_LAST_WORDS))
        parts.enter_context(autoscaler)
        parts.enter_context(kubelet)
        yield Stage(plane=plane, redis=redis, config=config, clock=clock, autoscaler=autoscaler, port=port)


def _installed(plane: ControlPlane, play: Play, redis: Redis, port: int) -> ControllerConfig:
    """The controller's config: to its process as a file, and to whoever asks the cluster, so that both say the same."""
    try:
        rendered = lay_out(plane, play.settings, play.plan)
    except subprocess.CalledProcessError as error:
        words = str(error.stderr).strip().splitlines()
        raise Unplayable(f"stack {play.settings.stack}: {words[-1] if words else error}") from None
    config = small(rendered, RedisEndpoint(host=HOST, port=port))
    # The controller warns of queues that no job has ever been in, as these have been on any earlier day.
    redis.sadd("rq:queues", *(f"rq:queue:{queue}" for pool in config.pools for queue in pool.queues))
    document = dump(config)
    _config_file(plane).write_text(document, encoding="utf-8")
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{CONTROLLER}"
    plane.api.patch(path, {"data": {CONFIG_KEY: document}})
    return config


def _config_file(plane: ControlPlane) -> Path:
    return plane.folder / CONFIG_KEY


def _worker_command(config: ControllerConfig) -> Callable[[Json], Sequence[str] | None]:
    """A pod of a pool is an RQ worker; any other pod in that namespace just runs."""
    url = f"redis://{config.redis.host}:{config.redis.port}"
    queues = {pool.name: pool.queues for pool in config.pools}

    def command(pod: Json) -> Sequence[str] | None:
        pool = str(pod["metadata"].get("labels", {}).get(POOL, ""))
        name = str(pod["metadata"]["name"])
        return rq_worker_command(url, name, queues[pool], SAFE_WORKER) if pool in queues else None

    return command


def _start(plane: ControlPlane, clock: ScaledClock, account: str, further: Sequence[str]) -> None:
    """One of Ebbtide's processes, with its account's token and the faster clock."""
    time_ = ["--start", clock.start.isoformat(), "--speed", repr(clock.speed), "--began", repr(clock.began)]
    files = ["--config", str(_config_file(plane)), "--kubeconfig", str(plane.kubeconfig_as(NAMESPACE, account))]
    command = [sys.executable, "-m", "control_plane.night.controller", *time_]
    plane.processes.start(account, [*command, *files, *further])
