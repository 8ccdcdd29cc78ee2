"""Query Prometheus: answers are known or unknown, and never an unmeasured zero.

Prometheus answers with nothing for a metric that is not scraped, for a mistyped label and for a target that has been
silent for five minutes. Within those five minutes it returns the last sample as a current one. A store that lost a part
answers with the remaining data and a warning. So the caller names the metrics behind an expression, and each is checked
first: its existence, the age of its newest sample, and the clock. Two leaders at once mean two clusters with
one customer's name.

**Query values, not conditions**: an expression with a comparison is empty when all is well, which counts as unknown.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import isnan
from typing import Any, TypeAlias, cast

from ebbtide.monitoring.links import NOT_PROMETHEUS, Link, NoReply, error_text
from ebbtide.monitoring.rules import CUSTOMER, Metrics
from ebbtide.text.durations import duration, read_duration
from ebbtide.vocabulary.clocks import MAX_CLOCK_SKEW


@dataclass(frozen=True, slots=True)
class UnknownAnswer:
    """An unknown answer; `why` is one line for the operator."""

    why: str


@dataclass(frozen=True, slots=True)
class Silent(UnknownAnswer):
    """Prometheus answered, but has no data for the query."""


@dataclass(frozen=True, slots=True)
class Forgotten(UnknownAnswer):
    """Prometheus does not keep samples for that long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """`points` are seconds since 1970 and values."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]


Answer: TypeAlias = tuple[Sample, ...] | UnknownAnswer
Course: TypeAlias = tuple[Series, ...] | UnknownAnswer


class Prometheus:
    """One stack's view of a Prometheus. `now` is the clock with which answers are compared."""

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

    def doubt(self) -> UnknownAnswer | None:
        """Return why no answer can be trusted: Prometheus is down, its clock is off, or two clusters share a label."""
        answer = self.ask("vector(1)", stands_on=())
        return answer if isinstance(answer, UnknownAnswer) else None

    def over(self, expression: str, since: datetime, until: datetime, step: timedelta) -> Course:
        """Return the unchanged result of one range query; unknown if `since` is before Prometheus' retention.

        Use `ebbtide.monitoring.history` instead: it reads ranges of any length and handles gaps.
        """
        if (why := self._doubt(()) or self._forgotten(self._now() - since)) is not None:
            return why
        query = {"query": expression, "start": since.timestamp(), "end": until.timestamp()}
        data = self._data("query_range", **query, step=step.total_seconds())
        if isinstance(data, UnknownAnswer):
            return data
        try:
            return tuple(
                Series(
                    labels=dict(line["metric"]),
                    points=tuple((float(at), float(value)) for at, value in line["values"]),
                )
                for line in data["result"]
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            return self._garbled()

    def silent(self, expression: str) -> Silent:
        return Silent(f"{self.where} has nothing for {expression}")

    def _doubt(self, metrics: Sequence[str]) -> UnknownAnswer | None:
        """Return why answers from these metrics cannot be trusted now."""
        for metric in metrics:
            newest = self._samples(f"max(timestamp({self._of(metric)}))")
            if isinstance(newest, UnknownAnswer):
                return newest
            try:
                age = self._now() - _instant(newest[0].value)
            except (ValueError, OverflowError, OSError):
                return self._garbled()
            if age > self._freshness:
                return UnknownAnswer(f"{self.where}: ebbtide_{metric} is {duration(age.total_seconds())} old")
            if age < -MAX_CLOCK_SKEW:
                return UnknownAnswer(
                    f"{self.where}: ebbtide_{metric} is {duration(-age.total_seconds())} in the future"
                )
        leaders = self._samples(self._of.leaders())
        if not isinstance(leaders, UnknownAnswer) and leaders[0].value > 1:
            leading = f"{leaders[0].value:.0f} controllers of {self._of.customer} lead at once"
            return UnknownAnswer(f"{self.where}: {leading}: do two clusters have this value of the label {CUSTOMER}?")
        return None

    def _forgotten(self, needed: timedelta) -> UnknownAnswer | None:
        """Return unknown if the retention is too short; compatible stores without this page are not checked."""
        runtime = self._data("status/runtimeinfo")
        retention = (
            _retention(str(runtime.get("storageRetention", ""))) if not isinstance(runtime, UnknownAnswer) else None
        )
        if retention is None or retention >= needed:
            return None
        lengths = [duration(span.total_seconds()) for span in (retention, needed)]
        return Forgotten(f"{self.where} keeps {lengths[0]}, and {lengths[1]} were requested")

    def _samples(self, expression: str) -> Answer:
        data = self._data("query", query=expression, time=self._now().timestamp())
        if isinstance(data, UnknownAnswer):
            return data
        try:
            return tuple(
                Sample(labels=line["metric"], value=value)
                for line in data["result"]
                if not isnan(value := float(line["value"][1]))
            ) or self.silent(expression)
        except (KeyError, TypeError, ValueError, IndexError):
            return self._garbled()

    def _data(self, path: str, **query: object) -> dict[str, Any] | UnknownAnswer:
        """Return the complete data of an answer; a partial answer is unknown."""
        try:
            reply = self._link.get(path, query)
        except NoReply as error:
            return UnknownAnswer(f"{self.where}: {error}")
        if (apart := self._apart(reply.at)) is not None:
            return apart
        try:
            answer = cast("dict[str, Any]", reply.document)
            partial = answer.get("warnings") or (["a part of the data is missing"] if answer.get("isPartial") else [])
            if answer["status"] != "success":
                return UnknownAnswer(f"{self.where}: {error_text(answer.get('error', 'an error without a message'))}")
            if partial:
                return UnknownAnswer(f"{self.where}: the answer is partial: {error_text(partial[0])}")
            return cast("dict[str, Any]", answer["data"])
        except (ValueError, KeyError, TypeError, AttributeError):
            return self._garbled()

    def _apart(self, theirs: datetime | None) -> UnknownAnswer | None:
        apart = abs(self._now() - theirs) if theirs is not None else timedelta()
        if apart <= MAX_CLOCK_SKEW:
            return None
        return UnknownAnswer(f"{self.where}: its clock and ours are {duration(apart.total_seconds())} apart")

    def _garbled(self) -> UnknownAnswer:
        return UnknownAnswer(f"{self.where}: {NOT_PROMETHEUS}")


def _instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(float(seconds), UTC)


def _retention(text: str) -> timedelta | None:
    """Read `15d`, or `2w` for 14 days; None for a limit by size or no limit."""
    match = re.fullmatch(r"(?:([0-9]{1,3})y)?(?:([0-9]{1,5})w)?((?:[0-9]{1,9}[dhms])*)", text)
    if not text or match is None:
        return None
    smaller = read_duration(match[3]) if match[3] else timedelta()
    return None if smaller is None else smaller + timedelta(days=365 * int(match[1] or 0), weeks=int(match[2] or 0))
