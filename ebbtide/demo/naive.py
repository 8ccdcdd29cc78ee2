"""What a hurried script does: as many workers as jobs *wait*. It exists to show what the safe controller avoids.

It forgets the jobs that run, so the moment the list is empty it removes workers that are busy.
"""

import time
from collections.abc import Callable, Sequence

from redis import Redis

from controllers.ports import Clock, Cluster, Journal, Scale, Unknown
from ebbtide.vocabulary.controller_config import PoolPolicy

POLL = 0.1  # seconds


def run_naively(
    pools: Sequence[PoolPolicy], connection: Redis, cluster: Cluster, journal: Journal, clock: Clock
) -> Callable[[Callable[[], bool]], None]:
    """The loop, ready to run until told that it is over."""

    def loop(is_over: Callable[[], bool]) -> None:
        while not is_over():
            seen = cluster.observe()
            if not isinstance(seen, Unknown):
                for pool in pools:
                    waiting = sum(int(connection.llen(f"rq:queue:{queue}")) for queue in pool.queues)
                    wanted = min(waiting, pool.max_workers)
                    if wanted != seen.pools[pool.name].replicas:
                        action = Scale(pool=pool.name, replicas=wanted, version=None, reason="jobs-waiting")
                        journal.acted(clock.now(), action, cluster.act(action))
            time.sleep(POLL)

    return loop
