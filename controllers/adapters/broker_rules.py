"""Readings of pools whose queues are in a message broker, from the broker's counts and the workers' reports. Pure.

The broker counts messages and does not know pods; reports, which are in Redis, name idle pods. Neither is enough:

- Counts are late: RabbitMQ shows a quorum queue's unacknowledged messages up to 5 s after they were delivered, and SQS
  any change up to a minute after it. So zero unacknowledged messages do not prove that no job runs: the reports'
  running jobs count, too.
- Reports are late, too: a worker reports idle until its event loop has received the message. So a delivery that no
  report explains is in transit for `Timings.transit` seconds, during which the scaler removes no pod.
- After a restart of the broker, running jobs are waiting messages again, and may be in no count at all. So readings are
  untrusted until all known hosts report idle.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from controllers.adapters.trust import DISTRUST, Trust
from controllers.ports import Known, PodName, Reading, Unknown, Untrusted

SILENT_AFTER = 3.0
"""Seconds after which a report without a new heartbeat proves nothing. Workers report once a second."""

LONGEST_GAP = 8.0
"""Seconds between two looks, after which idleness is measured again. A slow API server makes looks late."""

SHORTAGE = 5.0
"""Seconds for which a queue may have fewer consumers than workers that report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """How late the counts of one kind of broker are, and how often they are read, in seconds."""

    idle_for: float  # a worker must report idle for longer than a message may be missing from all counts
    transit: float  # a report must explain a delivery in this time
    empty_for: float  # no pod of a pool counts as idle before its counts have been zero for this time
    blind_for: float  # a pool without reports is empty after this time of zeros; infinite: never
    most_often: int  # rounds that producers may cause in the pause between two rounds
    # Longer pauses between two rounds, each with the time without messages, changes and workers after which it begins.
    quiet: tuple[tuple[float, float], ...] = ()


RABBITMQ = Timings(idle_for=10.0, transit=10.0, empty_for=0.0, blind_for=60.0, most_often=10)
"""Source: measured with RabbitMQ 3.10; a quorum queue's counts are up to 5 s late."""

SQS = Timings(
    idle_for=60.0,
    transit=60.0,
    empty_for=120.0,
    blind_for=math.inf,
    most_often=1,
    quiet=((180.0, 5.0), (900.0, 15.0)),
)
"""Source: Amazon SQS Developer Guide: counts become consistent a minute after producers stop. Each call has a price."""

_WAITING = "waiting for the workers to report idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """One queue. Counts are messages."""

    ready: int  # exact in RabbitMQ
    consumers: int | None  # exact; None: the broker counts none
    listed: int  # ready, from the source of `unacked`: late for some kinds of queues
    unacked: int  # delivered and not acknowledged, late likewise


@dataclass(frozen=True, slots=True)
class Missing:
    """The broker has no such queue."""

    remedy: str = "Celery's producers create theirs with the first task, other queues must be created, as durable"


Answer: TypeAlias = Count | Missing | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The newest report of one worker. Its messages are `held`; of these `active` run or are about to run."""

    worker: str
    host: PodName
    queues: frozenset[str]
    idle: bool
    stopping: bool = False
    active: int = 0
    held: int = 0
    received: int = 0  # messages since the worker's start
    beat: str = ""  # changes with each report


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """The reports of a pool's workers, and the Redis that holds them."""

    workers: Sequence[Report] = ()
    served: frozenset[str] = frozenset()  # queues that any worker ever served
    identity: str = ""  # of the Redis
    size: int = 0  # of its register of queues, which only a flush makes smaller
    doubt: str = ""  # why the workers' settings contradict the pool
    warning: str = ""


@dataclass(slots=True)
class _Watched:
    """The earlier counts of one queue."""

    newest: Count | None = None
    ready: deque[tuple[float, int]] = field(default_factory=deque[tuple[float, int]])
    disagrees_since: float | None = None
    short_since: float | None = None
    short_by: int = 0  # missing consumers after which the workers had to report idle


@dataclass(slots=True)
class _Worker:
    host: PodName
    received: int
    beat: str
    beat_at: float
    idle_since: float | None = None
    stopping: bool = False


class BrokerRules:
    """Returns the readings of one pool. `at` is monotonic seconds."""

    def __init__(self, pool: str, timings: Timings) -> None:
        self._pool, self._timings = pool, timings
        self._trust = Trust()
        self._link = ""
        self._looked: float | None = None
        self._queues: dict[str, _Watched] = {}
        self._present: set[str] = set()
        self._existed: set[str] = set()
        self._served: set[str] = set()  # queues that workers served, also if Redis has lost its register
        self._workers: dict[str, _Worker] = {}
        self._lost: dict[str, tuple[float, PodName]] = {}  # workers whose report ended without a stop
        self._deliveries: deque[tuple[float, int]] = deque()  # that no report explains: (at, messages)
        self._unexplained: deque[tuple[float, int]] = deque()  # (since, unacknowledged beyond the reports)
        self._taken = 0  # messages of the newest counts that reports received and no departure explains
        self._zeros_since: float | None = None

    def look(self, at: float, link: str, answers: Mapping[str, Answer], reports: Reports | Unknown) -> Reading:
        """Return the reading at this instant.

        `link` identifies the broker and the connection to it, "" without one. `answers`: one for each of the queues.
        """
        if isinstance(reports, Unknown):
            self._zeros_since = None
            return Unknown(f"workers' reports: {reports.why}")
        self._served |= reports.served
        self._trust.observe_server(reports.identity, reports.size, at)
        if link and self._link and link != self._link:
            self._trust.distrust(f"the broker restarted, or the connection to it was lost: {_WAITING}", at)
            self._looked = None  # idleness and zeros are measured again
        self._link = link or self._link
        late = self._looked is None or at - self._looked > LONGEST_GAP
        self._looked = at
        received = self._observe_workers(at, reports.workers, late=late)
        missing = sorted(name for name, answer in answers.items() if isinstance(answer, Missing))
        for name in self._present.intersection(missing):
            self._trust.distrust(f"queue {name} vanished from the broker: {_WAITING}", at)
        counts = {name: answer for name, answer in answers.items() if isinstance(answer, Count)}
        asked = any(name not in self._queues or self._queues[name].newest is not it for name, it in counts.items())
        delivered = sum([self._observe_queue(at, name, count, reports.workers) for name, count in counts.items()])
        self._taken = max(0, received - delivered) if asked else self._taken + received
        self._observe_deliveries(at, delivered, received)
        why = self._unreadable(at, answers, missing)
        self._existed |= counts.keys()
        self._present = (self._present | counts.keys()).difference(missing)
        if why or late:
            self._zeros_since = None
        if why:
            return Unknown(why)
        hosts = self._hosts(at, reports.workers)
        known = self._known(at, answers, reports, frozenset(host for host, idle in hosts.items() if idle))
        doubt = self._trust.doubts(self._pool, [*hosts.items()], at) or reports.doubt or self._blind_doubt(at, known)
        return Untrusted(doubt, known) if doubt else known

    def _hosts(self, at: float, workers: Sequence[Report]) -> Mapping[PodName, bool]:
        """Return the hosts, and whether all workers of each are idle.

        A worker that is missing is known by its name. `Trust` would count workers: a container that starts again brings
        another worker, and a host that once had both would never be idle.
        """
        lost = {host for _, host in self._lost.values()}
        hosts: dict[PodName, bool] = {}
        for report in workers:
            hosts[report.host] = hosts.get(report.host, report.host not in lost) and self._is_idle(report, at)
        return hosts

    def _observe_workers(self, at: float, workers: Sequence[Report], *, late: bool) -> int:
        """Record the reports; return the number of messages that they received since the last look.

        A worker whose report has ended may still run its job, while another worker of the same pod reports idle. It is
        given up after a time in which no message is unacknowledged beyond the reports.
        """
        seen: dict[str, _Worker] = {}
        received = 0
        for report in workers:
            before = self._workers.get(report.worker)
            if before is None:
                received += 0 if late else report.received
                before = _Worker(report.host, report.received, report.beat, at)
            changed = report.received != before.received  # smaller in a new process with the name of an earlier one
            received += max(0, report.received - before.received)
            if report.beat != before.beat:
                before.beat, before.beat_at = report.beat, at
            silent = at - before.beat_at > SILENT_AFTER
            idle = report.idle and not report.held and not report.active and not silent
            if not idle or changed or late:
                before.idle_since = None
            if idle and before.idle_since is None:
                before.idle_since = at
            before.host, before.received, before.stopping = report.host, report.received, report.stopping
            seen[report.worker] = before
        gone = {name: (at, last.host) for name, last in self._workers.items() if name not in seen and not last.stopping}
        limit = DISTRUST.total_seconds()
        is_running = any(messages for _, messages in self._unexplained)
        self._lost = {
            name: (since, host)
            for name, (since, host) in {**gone, **self._lost}.items()
            if name not in seen and (is_running or at - since < limit)
        }
        self._workers = seen
        return received

    def _is_idle(self, report: Report, at: float) -> bool:
        since = self._workers[report.worker].idle_since
        return since is not None and at - since >= self._timings.idle_for

    def _observe_queue(self, at: float, name: str, count: Count, workers: Sequence[Report]) -> int:
        """Record the counts of a queue; return the messages that left it since the last look."""
        watched = self._queues.setdefault(name, _Watched())
        before, watched.newest = watched.newest, count
        if before is count:
            return 0  # the broker was not asked again since the last look
        left = max(0, before.ready - count.ready) if before else 0
        watched.ready.append((at, count.ready))
        while at - watched.ready[0][0] > self._timings.transit:
            watched.ready.popleft()
        past = [ready for _, ready in watched.ready]
        # The two sources are asked one after the other: messages that came in between are in the next `ready`, too.
        agrees = before is None or min(past) <= before.listed <= max(past)
        watched.disagrees_since = None if agrees else _since(watched.disagrees_since, at)
        serving = sum(
            name in report.queues and not report.stopping and at - self._workers[report.worker].beat_at <= SILENT_AFTER
            for report in workers
        )
        short_by = 0 if count.consumers is None else max(0, serving - count.consumers)
        # A worker that never gets a consumer is no new doubt at each look.
        watched.short_by = min(watched.short_by, short_by)
        watched.short_since = _since(watched.short_since, at) if short_by > watched.short_by else None
        if watched.short_since is not None and at - watched.short_since >= SHORTAGE:
            watched.short_since, watched.short_by = None, short_by
            self._trust.distrust(f"{_too_few_consumers(name)}: {_WAITING}", at)
        return left

    def _observe_deliveries(self, at: float, delivered: int, received: int) -> None:
        """Keep the messages that left the queues until a report explains them."""
        if delivered:
            self._deliveries.append((at, delivered))
        while self._deliveries and (received > 0 or at - self._deliveries[0][0] > self._timings.transit):
            since, messages = self._deliveries.popleft()
            if at - since > self._timings.transit:
                continue
            if messages > received:
                self._deliveries.appendleft((since, messages - received))
            received = max(0, received - messages)

    def _unreadable(self, at: float, answers: Mapping[str, Answer], missing: Sequence[str]) -> str:
        for answer in answers.values():
            if isinstance(answer, Unknown):
                return answer.why
        for name in missing:
            if name in self._existed or name in self._served:
                return f"queue {name} is not in the broker, and was served before: a worker or a producer creates it"
        transit = self._timings.transit
        for name, watched in self._queues.items():
            if watched.disagrees_since is not None and at - watched.disagrees_since > transit:
                return f"queue {name}: the broker's two counts of waiting messages have differed for {transit:.0f} s"
        return ""

    def _known(self, at: float, answers: Mapping[str, Answer], reports: Reports, idle: frozenset[PodName]) -> Known:
        workers, counts = reports.workers, [answer for answer in answers.values() if isinstance(answer, Count)]
        active = sum([report.active for report in workers])
        held = sum([report.held for report in workers])
        later = sum([max(0, report.held - report.active) for report in workers])
        unacked = sum([count.unacked for count in counts])
        # Held messages that run later keep their worker and need no other; an unacknowledged message that no report
        # shows counts as running.
        running = max(unacked - later, active)
        new = min(self._newly_unexplained(at, max(0, unacked - held)), running)
        consumers = [count.consumers for count in counts if count.consumers is not None]
        free = max(consumers, default=len(workers)) - sum([not report.idle for report in workers])
        left = min(sum([messages for _, messages in self._deliveries]), max(0, free))
        waiting = sum([count.ready for count in counts])
        self._zeros_since = _since(self._zeros_since, at) if waiting + unacked + active == 0 else None
        is_new_zero = self._zeros_since is not None and at - self._zeros_since < self._timings.empty_for
        never = {name: answer for name, answer in answers.items() if isinstance(answer, Missing)}
        short = [_too_few_consumers(name) for name, watched in self._queues.items() if watched.short_by]
        return Known(
            # Counts are older than reports: a message that was just received is in both until the next round.
            waiting=max(0, waiting - min(self._taken, active)),
            in_transit=max(new, left),
            running=running - new,
            idle=frozenset() if is_new_zero else idle,
            # Pods of a pool that once reported are busy while their reports are missing.
            names_idle=not self._served.isdisjoint(answers),
            seen_before=not never,
            warning="; ".join(filter(None, (reports.warning, *short, _never_seen(never)))),
        )

    def _newly_unexplained(self, at: float, unexplained: int) -> int:
        """Return the messages that have been beyond the reports for less than `Timings.transit`.

        Those that stay are in workers that do not report.
        """
        if not self._unexplained or self._unexplained[-1][1] != unexplained:
            self._unexplained.append((at, unexplained))
        while len(self._unexplained) > 1 and at - self._unexplained[1][0] >= self._timings.transit:
            self._unexplained.popleft()
        lasts = at - self._unexplained[0][0] >= self._timings.transit
        return unexplained - (min([messages for _, messages in self._unexplained]) if lasts else 0)

    def _blind_doubt(self, at: float, known: Known) -> str:
        """Without reports only lasting zeros prove that the pool is empty, if the broker's counts prove it at all."""
        if known.names_idle or known.in_flight or self._zeros_since is None:
            return ""
        zeros = self._timings.blind_for
        if at - self._zeros_since >= zeros:
            return ""
        if math.isinf(zeros):
            return known.warning or (
                "no worker has reported yet, and SQS' counts alone prove no pool empty: it does not shrink until the "
                "first one reports, which needs the hooks or a worker class of ebbtide-jobs"
            )
        return f"no worker reports: waiting for {zeros:.0f} s of zeros"


def _since(since: float | None, at: float) -> float:
    return at if since is None else since


def _too_few_consumers(queue: str) -> str:
    return f"queue {queue} has fewer consumers than workers that report"


def _never_seen(queues: Mapping[str, Missing]) -> str:
    remedy = next((answer.remedy for answer in queues.values()), "")
    return f"the broker has no queue {', '.join(sorted(queues))}: {remedy}" if remedy else ""
