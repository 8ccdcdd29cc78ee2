"""Read a month of a stack from Prometheus: nodes, prices, wanted workers and requests.

Nodes are read as sample times, day by day: `timestamp()` of a series that ended remains at its last sample, so
Prometheus' five-minute lookback adds nothing to a node's life. A day that Prometheus no longer keeps is a gap.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from ebbtide.lab.ledger.lives import NodeKey, Sightings
from ebbtide.lab.ledger.month import NOT_RECORDED, ON_DEMAND, OTHER_PODS, SPOT, LedgerError, Month
from ebbtide.monitoring.client import Forgotten, Prometheus, Silent, UnknownAnswer
from ebbtide.monitoring.history import Labels, Points, TimeRange, history
from ebbtide.monitoring.recorded import Recorded
from ebbtide.monitoring.rules import CUSTOMER, Metrics
from ebbtide.text.durations import ONE_DAY

VALUE = "value"
"""In place of a category: the share is of pods with this value of a label."""
PRICE_STEP = timedelta(minutes=10)
_STEP = timedelta(minutes=1)
_SLOW_STEP = timedelta(minutes=5)
_HOUR = timedelta(hours=1)
_AT_ONCE = ONE_DAY // _STEP  # steps of one query
_TWO_LEADERS = 4
"""Two leaders in all four readings of twenty minutes mean two clusters. A dead leader counts for up to five minutes."""
Steps = tuple[tuple[float, float], ...]
"""Pairs of a time and the value that holds from then on."""
Requests = Mapping[tuple[str, str, str], Mapping[int, float]]
"""Mean share of the group's node resources that a workload requested in each hour; keys: group, category, workload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedNodes:
    """The part of a recording that states what nodes cost."""

    source: str
    sightings: Sightings
    prices: Mapping[str, Steps]  # on-demand dollars an hour by instance type
    most_nodes: Mapping[str, Steps] = field(default_factory=dict[str, Steps])  # the max of each group
    forgotten: str  # why Prometheus lacks the first days; "" if it keeps them


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedMonth(RecordedNodes):
    wanted: Mapping[str, Steps]  # workers by pool
    asleep: Mapping[str, Steps]  # 1 while a workload slept, otherwise 0; by kind, namespace and name
    requests: Requests
    labels: Mapping[str, Requests] = field(default_factory=dict[str, Requests])
    """The same shares by value of each label in `costs.labels`; keys: group, "value", value."""


def read_nodes(prometheus: Prometheus, customer: str, month: Month, until: datetime) -> RecordedNodes:
    """Return the nodes of a month's part before `until`.

    Raises `LedgerError` if Prometheus cannot be trusted or lacks the part.
    """
    reader = _reader(prometheus, customer, month, until)
    return RecordedNodes(
        source=prometheus.where,
        sightings=reader.sightings(),
        prices=reader.prices(),
        most_nodes=reader.most_nodes(),
        forgotten=reader.forgotten,
    )


def read_month(prometheus: Prometheus, customer: str, month: Month, labels: Sequence[str] = ()) -> RecordedMonth:
    """Return the month's recording. Raises `LedgerError` if Prometheus cannot be trusted or lacks the month."""
    reader = _reader(prometheus, customer, month, month.end)
    return RecordedMonth(
        source=prometheus.where,
        sightings=reader.sightings(),
        prices=reader.prices(),
        wanted=reader.wanted(),
        asleep=reader.asleep(),
        requests=reader.requests(),
        most_nodes=reader.most_nodes(),
        forgotten=reader.forgotten,
        labels={label: reader.labelled(label) for label in labels},
    )


def _reader(prometheus: Prometheus, customer: str, month: Month, until: datetime) -> "MonthReader":
    reader = MonthReader(prometheus, Metrics(customer), month, end=until)
    if (doubt := prometheus.doubt()) is not None:  # wait for one time-out, not for one per query
        raise LedgerError(doubt.why)
    reader.refuse_two_clusters()
    return reader


@dataclass
class MonthReader:
    """Each method raises `LedgerError` if an answer is unknown."""

    prometheus: Prometheus
    of: Metrics
    month: Month
    end: datetime
    step: timedelta = _STEP
    forgotten: str = ""

    def sightings(self) -> Sightings:
        sees = self.of("exporter_sees", what="nodes")
        looks = self._values(f"max(timestamp({sees}) * ({sees} == bool 1))", self.step).get((), set()) - {0.0}
        if not looks:
            raise LedgerError(f"{self.prometheus.where} has nothing for ebbtide_exporter_sees in {self.month.name}")
        labels = ("node", "group", "kind", "instance_type", "capacity_type")
        times = self._values(f"max by ({', '.join(labels)}) (timestamp({self.of('node_info')}))", self.step, *labels)
        seen: defaultdict[NodeKey, set[float]] = defaultdict(set)
        for (node, group, kind, instance_type, capacity), at in times.items():
            is_spot = SPOT in (capacity.lower(), kind)  # EKS writes SPOT, Karpenter spot
            seen[NodeKey(node, group, kind, instance_type, SPOT if is_spot else ON_DEMAND)] |= at
        born = f"max by (node) (max_over_time({self.of('node_created_timestamp_seconds')}[10m]))"
        created = {node: at for (node,), at in self._values(born, PRICE_STEP, "node").items()}
        return Sightings(looks=sorted(looks), seen=seen, created=created)

    def refuse_two_clusters(self) -> None:
        readings = f"sum_over_time(({self.of.leaders()} > bool 1)[20m:5m])"
        for points in self._read(readings, _SLOW_STEP).values():
            for at, count in points.items():
                if count >= _TWO_LEADERS:
                    why = f"several controllers of {self.of.customer} led at once until {at:%Y-%m-%d %H:%M} UTC"
                    question = f"do two clusters have this value of the label {CUSTOMER}?"
                    raise LedgerError(f"{self.prometheus.where}: {why}: {question}")

    def prices(self) -> dict[str, Steps]:
        price, kinds = self.of("node_dollars_per_hour"), self.of.newest("node_info", ("node",), "instance_type")
        last = f"timestamp({price}) == on (customer, node) group_left () max by (customer, node) (timestamp({price}))"
        usd = f"max by (customer, node) ({price} and ({last}))"
        priced = f"max by (instance_type) ({kinds} * on (customer, node) group_left () {usd})"
        return self._steps("instance_type", priced, PRICE_STEP)

    def wanted(self) -> dict[str, Steps]:
        return self._steps("pool", f"max by (pool) ({self.of('pool_wanted')})", _SLOW_STEP)

    def most_nodes(self) -> dict[str, Steps]:
        return self._steps("group", f"max by (group) ({self.of('group_max_nodes')})", PRICE_STEP)

    def asleep(self) -> dict[str, Steps]:
        asleep, awake = (f"max by (workload) ({self.of('workload_state', state=it)})" for it in ("asleep", "awake"))
        return self._steps("workload", f"{asleep} or 0 * {awake}", _SLOW_STEP)

    def _values(self, expression: str, step: timedelta, *labels: str) -> dict[tuple[str, ...], set[float]]:
        """Return values by labels, with a margin around the month, so that lives at its edges have their ends."""
        recorded = self._read(expression, step, *labels, margin=_SLOW_STEP)
        return {key: set(points.values()) for key, points in recorded.items()}

    def _steps(self, label: str, expression: str, step: timedelta) -> dict[str, Steps]:
        """Return the changes of each series."""
        changes: dict[str, Steps] = {}
        for (name,), points in self._read(expression, step, label).items():
            steps: list[tuple[float, float]] = []
            for at, value in points.items():
                if not steps or steps[-1][1] != value:
                    steps.append((at.timestamp(), value))
            changes[name] = tuple(steps)
        return changes

    def requests(self) -> Requests:
        records = Recorded.REQUESTED_CPU, Recorded.REQUESTED_MEMORY, Recorded.REQUESTED_GPUS
        requested = self._requested(records, ("category", "workload"))
        return {(group, category, name or OTHER_PODS): shares for (group, category, name), shares in requested.items()}

    def labelled(self, label: str) -> Requests:
        """Read requests by value of a label of pods. An exporter without the label reports pods without a value."""
        records = Recorded.LABELLED_CPU, Recorded.LABELLED_MEMORY, Recorded.LABELLED_GPUS
        requested = self._requested(records, ("value",), label=label)
        return {
            (group, VALUE, value) if value else (group, "", NOT_RECORDED): shares
            for (group, value), shares in requested.items()
        }

    def _requested(
        self, records: tuple[Recorded, Recorded, Recorded], by: tuple[str, ...], **chosen: str
    ) -> Mapping[Labels, Mapping[int, float]]:
        """Read the requested share of CPU and memory by hour, or of GPUs only in groups with GPUs."""
        paid = Recorded.PAID_CPU, Recorded.PAID_MEMORY, Recorded.PAID_GPUS
        cpu, memory, gpus = (self._shares(*pair, by, **chosen) for pair in zip(records, paid, strict=True))
        with_gpus = {group for group, *_ in gpus}
        shares: dict[Labels, dict[int, float]] = {}
        for recorded, weight in ((cpu, 0.5), (memory, 0.5), (gpus, 1.0)):
            for key, points in recorded.items():
                if (key[0] in with_gpus) != (recorded is gpus):
                    continue
                by_hour = shares.setdefault(key, {})
                for at, value in points.items():
                    hour = round((at - self.month.begin) / _HOUR) - 1
                    by_hour[hour] = by_hour.get(hour, 0.0) + value * weight
        return shares

    def _shares(
        self, requested: Recorded, paid: Recorded, by: tuple[str, ...], **chosen: str
    ) -> Mapping[Labels, Points]:
        """Divide sums over the same evaluations, so that missing evaluations in an hour do not matter.

        Of replicas of Prometheus the one with most evaluations counts.
        """
        customer, labels = self.of.customer, ("group", *by)
        series = f"sum_over_time({requested.of(customer, **chosen)}[1h])"
        asked = f"max by (customer, {', '.join(labels)}) ({series})"
        there = f"max by (customer, group) (sum_over_time({paid.of(customer)}[1h]))"
        return self._read(f"{asked} / on (customer, group) group_left {there}", _HOUR, *labels)

    @cached_property
    def _kept_from(self) -> datetime:
        """The begin of the month, or of the first day that Prometheus keeps. Raises `LedgerError`."""
        begin = self.month.begin
        while begin < self.end:
            first = begin - _HOUR  # so that Prometheus still keeps it when the last query runs
            kept = history(self.prometheus, "vector(1)", TimeRange(since=first, until=begin, step=_SLOW_STEP))
            if not isinstance(kept, Forgotten):
                return begin
            self.forgotten = self.forgotten or kept.why  # the reason for the first day
            begin += ONE_DAY
        raise LedgerError(self.forgotten)

    def _read(
        self, expression: str, step: timedelta, *labels: str, margin: timedelta = timedelta()
    ) -> Mapping[Labels, Points]:
        """Return the recorded values by labels; empty without any. Raises `LedgerError`."""
        since, until = self._kept_from - margin, self.end + margin
        over = TimeRange(since=since, until=until, step=step, piece=_AT_ONCE * step)
        recorded = history(self.prometheus, expression, over, by=labels)
        if not isinstance(recorded, UnknownAnswer):
            return recorded
        if isinstance(recorded, Silent):
            return {}
        raise LedgerError(recorded.why)
