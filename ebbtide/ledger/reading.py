"""Read a month of a stack from Prometheus: nodes, prices, wanted workers and requests.

Nodes are read as times of samples, day by day: `timestamp()` of a series that ended remains at its last sample, so that
Prometheus' five minutes of grace add nothing to a node's life. A day that Prometheus no longer keeps is a gap.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ebbtide.ledger.lives import NodeKey, Sightings
from ebbtide.ledger.month import ON_DEMAND, SPOT, LedgerError, Month
from ebbtide.monitoring.client import Course, Forgotten, Prometheus, Series, Silent, Unknown
from ebbtide.monitoring.recorded import Recorded
from ebbtide.monitoring.rules import CUSTOMER, Metrics
from ebbtide.provisioning_labels import NodeKind
from ebbtide.units.durations import ONE_DAY

_STEP = timedelta(minutes=1)
_PRICE_STEP = timedelta(minutes=10)
_SLOW_STEP = timedelta(minutes=5)
_HOUR = timedelta(hours=1)
_TWO_LEADERS = 4
"""Readings in a row, five minutes apart, with two leaders. A leader that died is counted for up to five minutes."""
Steps = tuple[tuple[float, float], ...]
"""Times and the value from each of them on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Mean share of a group's node resources that a workload requested, by hour of the month."""

    group: str
    category: str
    workload: str
    shares: Mapping[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    source: str
    sightings: Sightings
    prices: Mapping[str, Steps]  # on-demand dollars an hour by instance type
    wanted: Mapping[str, Steps]  # workers by pool
    asleep: Mapping[str, Steps]  # 1 while a workload slept, otherwise 0; by kind, namespace and name
    requests: tuple[Request, ...]
    forgotten: str  # why Prometheus lacks the first days; "" if it keeps them


def read_month(prometheus: Prometheus, customer: str, month: Month) -> Recording:
    """Return what was recorded. Raises `LedgerError` if Prometheus is not to be trusted or has nothing of the month."""
    reader = MonthReader(prometheus, Metrics(customer), month)
    if (doubt := prometheus.doubt() or reader.two_clusters()) is not None:
        raise LedgerError(doubt.why)
    return reader.recording()


@dataclass(slots=True)
class MonthReader:
    prometheus: Prometheus
    of: Metrics
    month: Month
    step: timedelta = _STEP
    forgotten: str = ""

    def recording(self) -> Recording:
        """Read all. Raises `LedgerError`."""
        return Recording(
            source=self.prometheus.where,
            sightings=self.sightings(),
            prices=self._steps("instance_type", self._priced(), _PRICE_STEP),
            wanted=self._steps("pool", f"max by (pool) ({self.of('pool_wanted')})", _SLOW_STEP),
            asleep=self._steps("workload", self._asleep(), _SLOW_STEP),
            requests=self._requests(),
            forgotten=self.forgotten,
        )

    def sightings(self) -> Sightings:
        sees = self.of("exporter_sees", what="nodes")
        looks = [at for line in self._daily(f"max(timestamp({sees}) * ({sees} == bool 1))") for at in _values(line)]
        if not any(looks):
            nothing = f"{self.prometheus.where} has nothing for ebbtide_exporter_sees in {self.month.name}"
            raise LedgerError(self.forgotten or nothing)
        labels = ("node", "group", "kind", "instance_type", "capacity_type")
        seen: dict[NodeKey, set[float]] = {}
        for line in self._daily(f"max by ({', '.join(labels)}) (timestamp({self.of('node_info')}))"):
            node, group, kind, instance_type, capacity = (line.labels.get(label, "") for label in labels)
            key = NodeKey(
                node=node,
                group=group,
                category=kind,
                instance_type=instance_type,
                capacity_type=_capacity(capacity, kind),
            )
            seen.setdefault(key, set()).update(_values(line))
        created: dict[str, set[float]] = {}
        born = f"max by (node) (max_over_time({self.of('node_created_timestamp_seconds')}[10m]))"
        for line in self._daily(born, _PRICE_STEP):
            created.setdefault(line.labels.get("node", ""), set()).update(_values(line))
        return Sightings(
            looks=sorted({at for at in looks if at}),
            seen={key: sorted(times) for key, times in seen.items()},
            created={node: sorted(times) for node, times in created.items()},
        )

    def two_clusters(self) -> Unknown | None:
        in_a_row, last = 0, None
        leading = self._monthly(f"sum({self.of('leader')})", _SLOW_STEP)
        for at, leaders in (point for line in leading for point in line.points):
            in_a_row = (
                in_a_row + 1 if leaders > 1 and last is not None and at - last <= _SLOW_STEP else int(leaders > 1)
            )
            last = at
            if in_a_row >= _TWO_LEADERS:
                when = f"{at:%Y-%m-%d %H:%M} UTC"
                why = f"{leaders:.0f} controllers of {self.of.customer} led at once until {when}"
                question = f"are there two clusters with the label {CUSTOMER} of one?"
                return Unknown(f"{self.prometheus.where}: {why}: {question}")
        return None

    def _priced(self) -> str:
        price = self.of.highest("node_dollars_per_hour", "node")
        kinds = self.of.highest("node_info", "node", "instance_type")
        return f"max by (instance_type) ({price} * on (customer, node) group_left (instance_type) {kinds})"

    def _asleep(self) -> str:
        asleep, awake = (f"max by (workload) ({self.of('workload_state', state=it)})" for it in ("asleep", "awake"))
        return f"{asleep} or 0 * {awake}"

    def _steps(self, label: str, expression: str, step: timedelta) -> dict[str, Steps]:
        """Return the changes of each series."""
        changes: dict[str, list[tuple[float, float]]] = {}
        for line in self._monthly(expression, step):
            steps = changes.setdefault(line.labels.get(label, ""), [])
            for at, value in line.points:
                if not steps or steps[-1][1] != value:
                    steps.append((at.timestamp(), value))
        return {name: tuple(steps) for name, steps in changes.items()}

    def _requests(self) -> tuple[Request, ...]:
        """Read the requested share of each resource, by hour. Where nodes have GPUs, these alone decide."""
        cpu, memory, gpus = (self._shares(*pair) for pair in _RESOURCES)
        with_gpus = {line.labels.get("group", "") for line in gpus}
        shares: dict[tuple[str, ...], dict[int, float]] = {}
        for lines, weight in ((cpu, 0.5), (memory, 0.5), (gpus, 1.0)):
            for line in lines:
                key = tuple(line.labels.get(label, "") for label in _WORKLOAD)
                if (key[0] in with_gpus) != (lines is gpus):
                    continue
                by_hour = shares.setdefault(key, {})
                for at, value in line.points:
                    hour = round((at - self.month.begin) / _HOUR) - 1
                    by_hour[hour] = by_hour.get(hour, 0.0) + value * weight
        return tuple(
            Request(group=group, category=category, workload=workload, shares=by_hour)
            for (group, category, workload), by_hour in shares.items()
        )

    def _shares(self, requested: Recorded, paid: Recorded) -> Sequence[Series]:
        """Divide sums over the same evaluations, so that an hour may have holes."""
        customer = self.of.customer
        asked = f"sum by (customer, group, category, workload) (sum_over_time({requested.of(customer)}[1h]))"
        there = f"sum by (customer, group) (sum_over_time({paid.of(customer)}[1h]))"
        return self._monthly(f"{asked} / on (customer, group) group_left {there}", _HOUR, first=_HOUR)

    def _monthly(self, expression: str, step: timedelta, first: timedelta = timedelta()) -> Sequence[Series]:
        begin, end = self.month.begin + first, self.month.end
        course = self._asked(expression, begin, end, step)
        if not isinstance(course, Forgotten):
            return self._known(course)
        days = _days(begin, end + step)  # each without the instant at which the next one begins
        return [line for day, after in days for line in self._known(self._asked(expression, day, after - step, step))]

    def _daily(self, expression: str, step: timedelta | None = None) -> Iterator[Series]:
        step = step or self.step
        for begin, end in _days(self.month.begin - _SLOW_STEP, self.month.end + _SLOW_STEP):
            yield from self._known(self._asked(expression, begin, end - step, step))

    def _asked(self, expression: str, begin: datetime, end: datetime, step: timedelta) -> Course:
        return self.prometheus.over(expression, begin, step, stands_on=(), until=end)

    def _known(self, course: Course) -> Sequence[Series]:
        match course:
            case Forgotten():
                self.forgotten = self.forgotten or course.why  # of the first day
                return ()
            case Silent():
                return ()
            case Unknown():
                raise LedgerError(course.why)
            case _:
                return course


_WORKLOAD = ("group", "category", "workload")
_RESOURCES = (
    (Recorded.REQUESTED_CPU, Recorded.PAID_CPU),
    (Recorded.REQUESTED_MEMORY, Recorded.PAID_MEMORY),
    (Recorded.REQUESTED_GPUS, Recorded.PAID_GPUS),
)


def _days(begin: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    while begin < end:
        yield begin, min(begin + ONE_DAY, end)
        begin += ONE_DAY


def _values(line: Series) -> Iterator[float]:
    return (value for _, value in line.points)


def _capacity(label: str, category: str) -> str:
    """EKS writes SPOT and ON_DEMAND, Karpenter spot and on-demand."""
    return SPOT if label.lower() == SPOT or category == NodeKind.SPOT else ON_DEMAND
