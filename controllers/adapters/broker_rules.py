"""Readings of pools whose queues are in a message broker, from the broker's counts and the workers' reports. Pure.

The broker counts messages and does not know pods; reports, which are in Redis, name idle pods. Neither is enough:

- Counts are late: RabbitMQ shows a quorum queue's unacknowledged messages up to 5 s after they were delivered. So zero
  unacknowledged messages do not prove that no job runs: the reports' running jobs count, too.
- Reports are late, too: a worker reports idle until its event loop has received the message. So a delivery that no
  report explains is in transit for `TRANSIT` seconds, during which the scaler removes no pod.
- After a restart of the broker, running jobs are waiting messages again, and may be in no count at all. So readings are
  untrusted until all known hosts report idle.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from controllers.adapters.trust import Trust
from controllers.ports import Known, PodName, Reading, Unknown, Untrusted

IDLE_FOR = 10.0
"""Seconds for which a worker must report idle: longer than a message may be missing from all counts."""

TRANSIT = 10.0
"""Seconds in which a report must explain a delivery."""

SILENT_AFTER = 3.0
"""Seconds after which a report without a new heartbeat proves nothing. Workers report once a second."""

LONGEST_GAP = 5.0
"""Seconds between two looks, after which idleness is measured again."""

SHORTAGE = 5.0
"""Seconds for which a queue may have fewer consumers than workers that report."""

ZEROS = 60.0
"""Seconds of zeros after which a pool without reports is empty."""

_WAITING = "waiting for the workers to report idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """One queue. Counts are messages."""

    ready: int  # exact
    consumers: int  # exact
    listed: int  # ready, from the source of `unacked`: late for some kinds of queues
    unacked: int  # delivered and not acknowledged, late likewise


@dataclass(frozen=True, slots=True)
class Missing:
    """The broker has no such queue."""


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
    """What one queue showed before."""

    newest: Count | None = None
    ready: deque[tuple[float, int]] = field(default_factory=deque[tuple[float, int]])
    disagrees_since: float | None = None
    short_since: float | None = None


@dataclass(slots=True)
class _Worker:
    received: int
    beat: str
    beat_at: float
    idle_since: float | None = None


class BrokerRules:
    """Returns the readings of one pool. `at` is monotonic seconds."""

    def __init__(self, pool: str) -> None:
        self._pool = pool
        self._trust = Trust()
        self._link = ""
        self._looked: float | None = None
        self._queues: dict[str, _Watched] = {}
        self._present: set[str] = set()
        self._existed: set[str] = set()
        self._workers: dict[str, _Worker] = {}
        self._deliveries: deque[tuple[float, int]] = deque()  # that no report explains: (at, messages)
        self._unexplained: deque[tuple[float, int]] = deque()  # unacknowledged messages beyond the reports
        self._zeros_since: float | None = None

    def look(self, at: float, link: str, answers: Mapping[str, Answer], reports: Reports | Unknown) -> Reading:
        """Return the reading at this instant.

        `link` identifies the broker and the connection to it, "" without one. `answers`: one for each of the queues.
        """
        if isinstance(reports, Unknown):
            return Unknown(f"workers' reports: {reports.why}")
        self._trust.observe_server(reports.identity, reports.size, at)
        if link and self._link and link != self._link:
            self._trust.distrust(f"the broker restarted, or the connection to it was lost: {_WAITING}", at)
            self._looked = None  # idleness is measured again
        self._link = link or self._link
        received = self._observe_workers(at, reports.workers)
        missing = sorted(name for name, answer in answers.items() if isinstance(answer, Missing))
        for name in self._present.intersection(missing):
            self._trust.distrust(f"queue {name} vanished from the broker: {_WAITING}", at)
        counts = {name: answer for name, answer in answers.items() if isinstance(answer, Count)}
        delivered = sum([self._observe_queue(at, name, count, reports.workers) for name, count in counts.items()])
        self._observe_deliveries(at, delivered, received)
        why = self._unreadable(at, answers, missing, reports)
        self._existed |= counts.keys()
        self._present = (self._present | counts.keys()).difference(missing)
        if why:
            return Unknown(why)
        proven = [(report.host, self._is_idle(report, at)) for report in reports.workers]
        known = self._known(at, answers, reports, self._trust.idle_hosts(self._pool, proven))
        doubt = self._trust.doubts(self._pool, proven, at) or reports.doubt or self._blind_doubt(at, known)
        return Untrusted(doubt, known) if doubt else known

    def _observe_workers(self, at: float, workers: Sequence[Report]) -> int:
        """Record the reports; return the number of messages that they received since the last look."""
        late = self._looked is None or at - self._looked > LONGEST_GAP
        self._looked = at
        seen: dict[str, _Worker] = {}
        received = 0
        for report in workers:
            before = self._workers.get(report.worker)
            if before is None:
                received += 0 if late else report.received
                before = _Worker(report.received, report.beat, at)
            new = max(0, report.received - before.received)
            received += new
            if report.beat != before.beat:
                before.beat, before.beat_at = report.beat, at
            silent = at - before.beat_at > SILENT_AFTER
            if not report.idle or new or late or silent:
                before.idle_since = None
            if report.idle and not silent and before.idle_since is None:
                before.idle_since = at
            before.received = report.received
            seen[report.worker] = before
        self._workers = seen
        return received

    def _is_idle(self, report: Report, at: float) -> bool:
        since = self._workers[report.worker].idle_since
        return since is not None and at - since >= IDLE_FOR

    def _observe_queue(self, at: float, name: str, count: Count, workers: Sequence[Report]) -> int:
        """Record the counts of a queue; return the messages that left it since the last look."""
        watched = self._queues.setdefault(name, _Watched())
        before, watched.newest = watched.newest, count
        if before is count:
            return 0  # the broker was not asked again since the last look
        left = max(0, before.ready - count.ready) if before else 0
        watched.ready.append((at, count.ready))
        while at - watched.ready[0][0] > TRANSIT:
            watched.ready.popleft()
        past = [ready for _, ready in watched.ready]
        agrees = min(past) <= count.listed <= max(past)
        watched.disagrees_since = None if agrees else _since(watched.disagrees_since, at)
        serving = sum(
            name in report.queues and not report.stopping and at - self._workers[report.worker].beat_at <= SILENT_AFTER
            for report in workers
        )
        watched.short_since = _since(watched.short_since, at) if count.consumers < serving else None
        if watched.short_since is not None and at - watched.short_since >= SHORTAGE:
            watched.short_since = at
            why = f"queue {name} has fewer consumers than workers that report: {_WAITING}"
            self._trust.distrust(why, at)
        return left

    def _observe_deliveries(self, at: float, delivered: int, received: int) -> None:
        """Keep the messages that left the queues until a report explains them."""
        if delivered:
            self._deliveries.append((at, delivered))
        while self._deliveries and (received > 0 or at - self._deliveries[0][0] > TRANSIT):
            since, messages = self._deliveries.popleft()
            if at - since > TRANSIT:
                continue
            if messages > received:
                self._deliveries.appendleft((since, messages - received))
            received = max(0, received - messages)

    def _unreadable(self, at: float, answers: Mapping[str, Answer], missing: Sequence[str], reports: Reports) -> str:
        for answer in answers.values():
            if isinstance(answer, Unknown):
                return answer.why
        for name in missing:
            if name in self._existed or name in reports.served:
                return f"queue {name} is not in the broker, and was served before: a worker or a producer creates it"
        for name, watched in self._queues.items():
            if watched.disagrees_since is not None and at - watched.disagrees_since > TRANSIT:
                return f"queue {name}: the broker's two counts of waiting messages have differed for {TRANSIT:.0f} s"
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
        free = max([count.consumers for count in counts], default=0) - sum([not report.idle for report in workers])
        left = min(sum([messages for _, messages in self._deliveries]), max(0, free))
        waiting = sum([count.ready for count in counts])
        self._zeros_since = _since(self._zeros_since, at) if waiting + unacked + active == 0 else None
        never = sorted(name for name, answer in answers.items() if isinstance(answer, Missing))
        return Known(
            waiting=waiting,
            in_transit=max(new, left),
            running=running - new,
            idle=idle,
            # Pods of a pool that once reported are busy while their reports are missing.
            names_idle=not reports.served.isdisjoint(answers),
            seen_before=not never,
            warning="; ".join(filter(None, (reports.warning, _never_seen(never)))),
        )

    def _newly_unexplained(self, at: float, unexplained: int) -> int:
        """Return the messages that have been beyond the reports for less than `TRANSIT`.

        Those that stay are in workers that do not report.
        """
        self._unexplained.append((at, unexplained))
        while len(self._unexplained) > 1 and at - self._unexplained[1][0] >= TRANSIT:
            self._unexplained.popleft()
        lasts = at - self._unexplained[0][0] >= TRANSIT
        return unexplained - (min([messages for _, messages in self._unexplained]) if lasts else 0)

    def _blind_doubt(self, at: float, known: Known) -> str:
        """Without reports only lasting zeros prove that the pool is empty."""
        if known.names_idle or not self._existed or known.in_flight or self._zeros_since is None:
            return ""
        return f"no worker reports: waiting for {ZEROS:.0f} s of zeros" if at - self._zeros_since < ZEROS else ""


def _since(since: float | None, at: float) -> float:
    return at if since is None else since


def _never_seen(names: Sequence[str]) -> str:
    if not names:
        return ""
    return (
        f"the broker has no queue {', '.join(names)}: with min: 0 no worker creates it, so create it beforehand as "
        "durable, or write min: 1"
    )
