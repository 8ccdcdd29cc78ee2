"""Trust in a Redis that answers "empty".

After a restart, a failover or a flush the queues may read as empty while jobs still run. Then only the workers know:
readings stay untrusted until every earlier host has reported idle again, or until a limit has passed, since a deleted
host never reports. A host without a report counts as busy in any case. A host with several workers counts as idle only
when all of them report: after a flush idle workers register at once, a busy one perhaps only after its job.
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from datetime import timedelta

from controllers.ports import PoolName

DISTRUST = timedelta(minutes=10)


class Trust:
    """Tracks the server's identity and the hosts of each pool. `at` is monotonic seconds, one instant per reading."""

    def __init__(self, limit: timedelta = DISTRUST) -> None:
        self._limit = limit.total_seconds()
        self._identity, self._queues_known = "", 0
        self._hosts: dict[PoolName, Mapping[str, int]] = {}  # newest hosts of each pool, with their registered workers
        self._crews: dict[PoolName, dict[str, int]] = {}  # the same before a change, until all are back
        self._suspects: dict[PoolName, dict[str, float]] = {}  # hosts, each with the time until which it is awaited
        self._why, self._revealed = "", -1.0  # reason; time at which a change was noticed

    def observe_server(self, identity: str, queues_known: int, at: float) -> None:
        if self._identity not in ("", identity):
            self.distrust("Redis restarted or failed over: waiting for the workers to report idle", at)
        elif queues_known < self._queues_known:
            self.distrust("the register of queues shrank: was the database flushed? waiting for the workers", at)
        self._identity, self._queues_known = identity, queues_known

    def distrust(self, why: str, at: float) -> None:
        """Suspect every known host until it reports idle. The reading at this instant is untrusted in any case.

        A host that is gone since an earlier change keeps that change's limit: it may have been deleted.
        """
        self._why, self._revealed = why, at
        for pool, hosts in self._hosts.items():
            self._suspects[pool] = self._suspects.get(pool, {}) | dict.fromkeys(hosts, at + self._limit)
            crew = {host: workers for host, workers in hosts.items() if workers > 1}
            self._crews[pool] = crew | self._crews.get(pool, {})

    def concerned(self, pools: Set[PoolName], at: float) -> Set[PoolName]:
        """Return the pools that must be checked for doubt even if their queues are empty; most pools need no check."""
        return pools if at == self._revealed or self._suspects else pools & self._hosts.keys()

    def doubts(self, pool: PoolName, workers: Sequence[tuple[str, bool]], at: float) -> str | None:
        """Return why this pool's reading is not trusted, given its hosts and their idleness; None if it is trusted."""
        idle = self.idle_hosts(pool, workers)
        awaited = self._suspects.pop(pool, {})
        suspects = {host: until for host, until in awaited.items() if at < until and host not in idle}
        if suspects:
            self._suspects[pool] = suspects
        self._hosts.pop(pool, None)
        if workers:
            self._hosts[pool] = Counter(host for host, _ in workers)
        # The reading that reveals the change is untrusted in any case: it ends the series of trusted readings.
        return f"{self._why} (hosts to go: {len(suspects)})" if suspects or at == self._revealed else None

    def idle_hosts(self, pool: PoolName, workers: Sequence[tuple[str, bool]]) -> frozenset[str]:
        """Return the hosts whose workers all report idle and, after a change, are as many as before."""
        verdict: dict[str, bool] = {}
        for host, idle in workers:
            verdict[host] = verdict.get(host, True) and idle
        crews = self._crews.get(pool)
        if crews:
            registered = Counter(host for host, _ in workers)
            self._crews[pool] = crews = {host: crew for host, crew in crews.items() if registered[host] < crew}
        return frozenset(host for host, idle in verdict.items() if idle and not (crews and host in crews))
