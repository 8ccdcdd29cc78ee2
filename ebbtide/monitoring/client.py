"""Query Prometheus: answers are known or unknown, and never an unmeasured zero.

Prometheus answers with nothing for a metric that is not scraped, for a mistyped label and for a target that has been
silent for five minutes. Within those five minutes it returns the last sample as a current one. A store that lost a part
answers with the remaining data and a warning. So the caller names the metrics behind an expression, and each is checked
first: its existence, the age of its newest sample, and the clock. Two leaders at once are two clusters with one
customer's name.

**Query values, not conditions**: an expression with a comparison is empty when all is well, which counts as unknown.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import isnan
from typing import Any, TypeAlias, cast

from ebbtide.monitoring.links import NOT_PROMETHEUS, Link, NoReply
from ebbtide.monitoring.rules import CUSTOMER, Metrics
from ebbtide.units.durations import duration, read_duration
from ebbtide.vocabulary.clocks import MAX_CLOCK_SKEW

_SAMPLES = 11_000  # of one series; Prometheus answers no more


@dataclass(frozen=True, slots=True)
class Unknown:
    """An unknown answer; `why` is one line for the operator."""

    why: str


@dataclass(frozen=True, slots=True)
class Silent(Unknown):
    """Prometheus answered, but has no data for the query."""


@dataclass(frozen=True, slots=True)
class Forgotten(Unknown):
    """Prometheus does not keep samples for that long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """`points` are instants and values; gaps have no points."""

    labels: Mapping[str, str]
    points: tuple[tuple[datetime, float], ...]


Answer: TypeAlias = tuple[Sample, ...] | Unknown
Course: TypeAlias = tuple[Series, ...] | Unknown


class Prometheus:
    """One stack's view of a Prometheus. `now` is the clock that answers are compared with."""

    def __init__(
        self,
        link: Link,
        customer: str,
        now: Callable[[], datetime],
        *,
        freshness: timedelta = timedelta(minutes=2),
    ) -> None:
        self._link, self.where = link, link.where
        self._of, self._now, self._freshness = Metrics(customer), now, freshness

    def ask(self, expression: str, *, stands_on: Sequence[str]) -> Answer:
        """Return the current values. `stands_on`: metrics behind the expression, without prefix, like `pool_jobs`."""
        if (why := self._doubt(stands_on)) is not None:
            return why
        return self._samples(expression)

    def doubt(self) -> Unknown | None:
        """Return why no answer can be trusted: Prometheus is down, its clock is off, or two clusters share a label."""
        answer = self.ask("vector(1)", stands_on=())
        return answer if isinstance(answer, Unknown) else None

    def over(
        self,
        expression: str,
        since: datetime,
        step: timedelta,
        *,
        stands_on: Sequence[str],
        called: str = "",
        until: datetime | None = None,
    ) -> Course:
        """Return the values from `since` until now, or `until`; unknown if that exceeds Prometheus' retention.

        `called`: the name of the data in messages, instead of the expression.
        """
        now = self._now()
        until = now if until is None else until
        if (until - since) / step > _SAMPLES:
            return Unknown(f"{until - since} in steps of {step} are more than {_SAMPLES} values: take longer steps")
        if (why := self._doubt(stands_on) or self._forgotten(now - since)) is not None:
            return why
        query = {"query": expression, "start": since.timestamp(), "end": until.timestamp()}
        data = self._data("query_range", **query, step=step.total_seconds())
        if isinstance(data, Unknown):
            return data
        try:
            return tuple(
                Series(labels=line["metric"], points=points)
                for line in data["result"]
                if (points := tuple(_points(line["values"])))
            ) or self._silent(called or expression)
        except (KeyError, TypeError, ValueError, OverflowError, OSError):
            return self._garbled()

    def _doubt(self, metrics: Sequence[str]) -> Unknown | None:
        """Return why answers from these metrics cannot be trusted now."""
        for metric in metrics:
            newest = self._samples(f"max(timestamp({self._of(metric)}))")
            if isinstance(newest, Unknown):
                return newest
            try:
                age = self._now() - _instant(newest[0].value)
            except (ValueError, OverflowError, OSError):
                return self._garbled()
            if age > self._freshness:
                return Unknown(f"{self.where}: ebbtide_{metric} is {duration(age.total_seconds())} old")
            if age < -MAX_CLOCK_SKEW:
                return Unknown(f"{self.where}: ebbtide_{metric} is {duration(-age.total_seconds())} in the future")
        leaders = self._samples(f"sum({self._of('leader')})")
        if not isinstance(leaders, Unknown) and leaders[0].value > 1:
            leading = f"{leaders[0].value:.0f} controllers of {self._of.customer} lead at once"
            return Unknown(f"{self.where}: {leading}: are there two clusters with the label {CUSTOMER} of one?")
        return None

    def _forgotten(self, needed: timedelta) -> Unknown | None:
        """Return unknown if the retention is too short; compatible stores without this page are not checked."""
        runtime = self._data("status/runtimeinfo")
        retention = _retention(str(runtime.get("storageRetention", ""))) if not isinstance(runtime, Unknown) else None
        if retention is None or retention >= needed:
            return None
        lengths = [duration(span.total_seconds()) for span in (retention, needed)]
        return Forgotten(f"{self.where} keeps {lengths[0]}, and {lengths[1]} were asked for")

    def _samples(self, expression: str) -> Answer:
        data = self._data("query", query=expression, time=self._now().timestamp())
        if isinstance(data, Unknown):
            return data
        try:
            return tuple(
                Sample(labels=line["metric"], value=value)
                for line in data["result"]
                if not isnan(value := float(line["value"][1]))
            ) or self._silent(expression)
        except (KeyError, TypeError, ValueError, IndexError):
            return self._garbled()

    def _data(self, path: str, **query: object) -> dict[str, Any] | Unknown:
        """Return the complete data of an answer; a partial answer is unknown."""
        try:
            reply = self._link.get(path, query)
        except NoReply as error:
            return Unknown(f"{self.where}: {error}")
        if (apart := self._apart(reply.at)) is not None:
            return apart
        try:
            answer = cast("dict[str, Any]", reply.document)
            partial = answer.get("warnings") or (["a part of the data is missing"] if answer.get("isPartial") else [])
            if answer["status"] != "success":
                return Unknown(f"{self.where}: {_one_line(answer.get('error', 'an error without a word'))}")
            if partial:
                return Unknown(f"{self.where}: the answer is partial: {_one_line(partial[0])}")
            return cast("dict[str, Any]", answer["data"])
        except (ValueError, KeyError, TypeError, AttributeError):
            return self._garbled()

    def _apart(self, theirs: datetime | None) -> Unknown | None:
        apart = abs(self._now() - theirs) if theirs is not None else timedelta()
        if apart <= MAX_CLOCK_SKEW:
            return None
        return Unknown(f"{self.where}: its clock and ours are {duration(apart.total_seconds())} apart")

    def _silent(self, expression: str) -> Silent:
        return Silent(f"{self.where} has nothing for {expression}")

    def _garbled(self) -> Unknown:
        return Unknown(f"{self.where}: {NOT_PROMETHEUS}")


def _one_line(text: object) -> str:
    return " ".join(str(text).split())[:300]


def _points(values: Iterable[tuple[float, str]]) -> Iterator[tuple[datetime, float]]:
    """Leave out NaN, Prometheus' result of zero divided by zero."""
    for at, text in values:
        if not isnan(value := float(text)):
            yield _instant(at), value


def _instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(float(seconds), UTC)


def _retention(text: str) -> timedelta | None:
    """Read `15d`, or `2w` for 14 days; None for a limit by size or no limit."""
    match = re.fullmatch(r"(?:([0-9]{1,3})y)?(?:([0-9]{1,5})w)?((?:[0-9]{1,9}[dhms])*)", text)
    if not text or match is None:
        return None
    smaller = read_duration(match[3]) if match[3] else timedelta()
    return None if smaller is None else smaller + timedelta(days=365 * int(match[1] or 0), weeks=int(match[2] or 0))
