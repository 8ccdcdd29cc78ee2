"""`python -m controllers --config FILE`: read the config document, wire the adapters, run until told to stop."""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import FrameType

from controllers.adapters.clock import SystemClock
from controllers.adapters.journal import LineJournal
from controllers.adapters.redis_connection import MissingPassword, connect
from controllers.adapters.rq_demand import RqDemand
from controllers.adapters.wakers import PollingWaker
from controllers.loop import run
from controllers.ports import Cluster, Ports
from ebbtide.vocabulary.controller_config import ControllerConfig, UnreadableConfig, load

POLL = timedelta(milliseconds=50)
WRONG_INPUT = 2  # exit code

ClusterFactory = Callable[[ControllerConfig], Cluster]


class Unusable(Exception):
    """The controller cannot start with what it was given; the message says what to change."""


def main(arguments: Sequence[str], clusters: Mapping[str, ClusterFactory]) -> int:
    """Run until SIGTERM or SIGINT; `clusters` are the adapters to choose from."""
    parser = argparse.ArgumentParser(prog="controllers", description="Scales queue workers and flips budgets.")
    parser.add_argument("--config", required=True, type=Path, metavar="FILE", help="the controller config document")
    parser.add_argument("--cluster", default="kubernetes", help="the cluster adapter (default: kubernetes)")
    chosen = parser.parse_args(arguments)
    try:
        config = read_config(chosen.config)
        cluster = choose_cluster(chosen.cluster, clusters)(config)
        ports, waker = wire(config, cluster)
    except Unusable as error:
        print(f"controllers: {error}", file=sys.stderr)
        return WRONG_INPUT

    def stop(_signal: int, _frame: FrameType | None) -> None:
        waker.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    run(config, ports)
    return 0


def read_config(path: Path) -> ControllerConfig:
    try:
        config = load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise Unusable(f"--config {path}: cannot be read: {error}") from error
    except UnreadableConfig as error:
        raise Unusable(f"--config {path}: {error}") from error
    foreign = [pool.name for pool in config.pools if pool.source != "rq"]
    if foreign:
        raise Unusable(f"--config {path}: pools {', '.join(foreign)} have a demand source other than rq")
    return config


def choose_cluster(name: str, clusters: Mapping[str, ClusterFactory]) -> ClusterFactory:
    if name not in clusters:
        has = f"this release has {', '.join(sorted(clusters))}" if clusters else "this release has none yet"
        raise Unusable(f"--cluster {name}: no such cluster adapter, {has}")
    return clusters[name]


def wire(config: ControllerConfig, cluster: Cluster) -> tuple[Ports, PollingWaker]:
    try:
        connection = connect(config.redis, os.environ)
    except MissingPassword as error:
        raise Unusable(str(error)) from error
    waker = PollingWaker(POLL)
    demand = RqDemand(connection, {pool.name: pool.queues for pool in config.pools})
    journal = LineJournal(sys.stdout)
    return Ports(demand=demand, cluster=cluster, clock=SystemClock(), waker=waker, journal=journal), waker


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], clusters={}))
