"""Questions to a Prometheus, whose answers are known or unknown and never a zero that nobody measured.

An empty answer is what Prometheus gives for a metric that nobody scrapes, for a label that is mistyped and for a target
that has been silent for five minutes. It gives the last sample of those five minutes as if it were of now. And a store
that lost one of its parts answers with the rest, and a warning beside it. So whoever asks names the metrics that the
answer stands on, and each is looked at first: whether it is there, how old its newest sample is, whether its clock is
ours. Two leaders at once are two clusters that carry one customer's name.

**Ask for values, not for conditions**: an expression with a comparison is empty when all is well, which reads as
unknown here.
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

APART = timedelta(seconds=60)
"""Clocks that differ by more are not compared, as everywhere in Ebbtide."""
_SAMPLES = 11_000  # of one series; Prometheus answers no more


@dataclass(frozen=True, slots=True)
class Unknown:
    """`why` is one line for the operator."""

    why: str


@dataclass(frozen=True, slots=True)
class Silent(Unknown):
    """Prometheus answered, and has nothing for what was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """`points` are instants and values; where nothing was measured there is no point."""

    labels: Mapping[str, str]
    points: tuple[tuple[datetime, float], ...]


Answer: TypeAlias = tuple[Sample, ...] | Unknown
Course: TypeAlias = tuple[Series, ...] | Unknown


class Prometheus:
    """One stack's view of a Prometheus. `now` is the clock that answers are held to."""

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
        """The values now. `stands_on`: the metrics behind the expression, without the prefix: `pool_jobs`."""
        if (why := self._doubt(stands_on)) is not None:
            return why
        return self._samples(expression)

    def doubt(self) -> Unknown | None:
        """Why nothing that it says may be believed: it is away, its clock is wrong, or two clusters are one in it."""
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
        """The values from `since` until now, or `until`; unknown if Prometheus keeps nothing for so long.

        `called`: what the operator is told that there is nothing for, where that is not the expression.
        """
        now = self._now()
        until = now if until is None else until
        if (until - since) / step > _SAMPLES:
            return Unknown(f"{until - since} in steps of {step} are more than {_SAMPLES} values: take longer steps")
        if (why := self._doubt(stands_on) or self._forgotten(now - since)) is not None:
            return why
        query = {"query": expression, "start": since.timestamp(), "end": until.timestamp()}
        found = self._data("query_range", **query, step=step.total_seconds())
        if isinstance(found, Unknown):
            return found
        try:
            return tuple(
                Series(labels=one["metric"], points=points)
                for one in found["result"]
                if (points := tuple(_points(one["values"])))
            ) or self._silent(called or expression)
        except (KeyError, TypeError, ValueError, OverflowError, OSError):
            return self._garbled()

    def _doubt(self, metrics: Sequence[str]) -> Unknown | None:
        """Why nothing that stands on these metrics may be believed now."""
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
            if age < -APART:
                return Unknown(f"{self.where}: ebbtide_{metric} is {duration(-age.total_seconds())} in the future")
        leaders = self._samples(f"sum({self._of('leader')})")
        if not isinstance(leaders, Unknown) and leaders[0].value > 1:
            what = f"{leaders[0].value:.0f} controllers of {self._of.customer} lead at once"
            return Unknown(f"{self.where}: {what}: are there two clusters with the label {CUSTOMER} of one?")
        return None

    def _forgotten(self, asked: timedelta) -> Unknown | None:
        """Stores that only speak Prometheus' language have no such page: then the answer itself must tell."""
        found = self._data("status/runtimeinfo")
        kept = _kept(str(found.get("storageRetention", ""))) if not isinstance(found, Unknown) else None
        if kept is None or kept >= asked:
            return None
        lengths = [duration(span.total_seconds()) for span in (kept, asked)]
        return Unknown(f"{self.where} keeps {lengths[0]}, and {lengths[1]} were asked for")

    def _samples(self, expression: str) -> Answer:
        found = self._data("query", query=expression, time=self._now().timestamp())
        if isinstance(found, Unknown):
            return found
        try:
            return tuple(
                Sample(labels=one["metric"], value=value)
                for one in found["result"]
                if not isnan(value := float(one["value"][1]))
            ) or self._silent(expression)
        except (KeyError, TypeError, ValueError, IndexError):
            return self._garbled()

    def _data(self, path: str, **query: object) -> dict[str, Any] | Unknown:
        """What Prometheus says, whole; a part of it is unknown."""
        try:
            reply = self._link.get(path, query)
        except NoReply as error:
            return Unknown(f"{self.where}: {error}")
        if (apart := self._apart(reply.at)) is not None:
            return apart
        try:
            told = cast("dict[str, Any]", reply.document)
            partial = told.get("warnings") or (["a part of the data is missing"] if told.get("isPartial") else [])
            if told["status"] != "success":
                return Unknown(f"{self.where}: {_one_line(told.get('error', 'an error without a word'))}")
            if partial:
                return Unknown(f"{self.where}: the answer is partial: {_one_line(partial[0])}")
            return cast("dict[str, Any]", told["data"])
        except (ValueError, KeyError, TypeError, AttributeError):
            return self._garbled()

    def _apart(self, theirs: datetime | None) -> Unknown | None:
        apart = abs(self._now() - theirs) if theirs is not None else timedelta()
        if apart <= APART:
            return None
        return Unknown(f"{self.where}: its clock and ours are {duration(apart.total_seconds())} apart")

    def _silent(self, expression: str) -> Silent:
        return Silent(f"{self.where} has nothing for {expression}")

    def _garbled(self) -> Unknown:
        return Unknown(f"{self.where}: {NOT_PROMETHEUS}")


def _one_line(text: object) -> str:
    return " ".join(str(text).split())[:300]


def _points(values: Iterable[tuple[float, str]]) -> Iterator[tuple[datetime, float]]:
    """Without those that are no number, which is what Prometheus makes of nothing divided by nothing."""
    for at, text in values:
        if not isnan(value := float(text)):
            yield _instant(at), value


def _instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(float(seconds), UTC)


def _kept(text: str) -> timedelta | None:
    """Prometheus writes `15d`, and 14 days as `2w`; None where another limit stands beside the time, or none is."""
    match = re.fullmatch(r"(?:([0-9]{1,3})y)?(?:([0-9]{1,5})w)?((?:[0-9]{1,9}[dhms])*)", text)
    if not text or match is None:
        return None
    rest = read_duration(match[3]) if match[3] else timedelta()
    return None if rest is None else rest + timedelta(days=365 * int(match[1] or 0), weeks=int(match[2] or 0))
