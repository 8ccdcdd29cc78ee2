"""Requests as Prometheus recorded them: counts by window, shares of variants, holes, and quiet latencies.

The link is canned: which expressions are asked, and what a real Prometheus answers to them, is tested with the rules.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from ebbtide.lab.advice.services.history import HistoryQuery, RequestHistory, quiet_latency, recorded_requests
from ebbtide.monitoring.client import Prometheus, UnknownAnswer
from ebbtide.monitoring.links import NoReply, Reply
from tests.builders.monitoring.recorded_requests import ANSWERS, MEDIAN, RecordedRequests, Series

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def query(series: Series, since: timedelta = timedelta(hours=2)) -> HistoryQuery:
    prometheus = Prometheus(RecordedRequests(series, NOW), "acme", lambda: NOW)
    return HistoryQuery(prometheus=prometheus, customer="acme", since=since, now=NOW)


def history(series: Series, *variants: str) -> RequestHistory:
    recorded = recorded_requests(query(series), "embedder", variants)
    assert isinstance(recorded, RequestHistory), recorded
    return recorded


def test_a_rate_becomes_the_requests_of_its_window() -> None:
    recorded = history({(ANSWERS, "small"): dict.fromkeys(range(12), 0.5)}, "small")

    assert recorded.trace.totals == (300.0,) * 12
    assert recorded.trace.window_s == 600
    assert recorded.start == NOW - timedelta(hours=2)


def test_it_begins_where_recording_began_and_a_hole_stays_one() -> None:
    recorded = history({(ANSWERS, "small"): {0: 1.0, 2: 2.0}}, "small")

    assert recorded.trace.totals == (1200.0, None, 600.0)
    assert recorded.start == NOW - timedelta(minutes=30)


def test_the_last_day_has_24_hours_when_the_clock_changes() -> None:
    noon = datetime(2026, 10, 25, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    requests = RecordedRequests({(ANSWERS, "small"): {0: 1.0, 143: 2.0}}, noon)
    prometheus = Prometheus(requests, "acme", lambda: noon)
    asking = HistoryQuery(prometheus=prometheus, customer="acme", since=timedelta(hours=24), now=noon)

    recorded = recorded_requests(asking, "embedder", ["small"])

    assert isinstance(recorded, RequestHistory), recorded
    assert recorded.trace.totals == (1200.0, *(None,) * 142, 600.0)
    assert recorded.start == datetime(2026, 10, 24, 11, tzinfo=UTC)
    assert recorded.start.tzinfo is noon.tzinfo


def test_variants_are_distinguished_and_an_unseen_one_had_no_requests() -> None:
    recorded = history({(ANSWERS, "small"): {0: 1.0, 1: 1.0}, (ANSWERS, "large"): {0: 3.0}}, "small", "large")

    assert {name: queue.counts for name, queue in recorded.trace.queues.items()} == {
        "small": (600.0, 600.0),
        "large": (0.0, 1800.0),
    }


def test_a_variant_that_cannot_be_read_is_no_variant_without_requests() -> None:
    """Silence is: its pods may never have run."""

    class LargeIsAway(RecordedRequests):
        def get(self, path: str, query: Mapping[str, object]) -> Reply:
            if path == "query_range" and "large" in str(query["query"]):
                raise NoReply("timed out")
            return super().get(path, query)

    prometheus = Prometheus(LargeIsAway({(ANSWERS, "small"): {0: 1.0}}, NOW), "acme", lambda: NOW)
    asking = HistoryQuery(prometheus=prometheus, customer="acme", since=timedelta(hours=2), now=NOW)

    recorded = recorded_requests(asking, "embedder", ["small", "large"])

    assert recorded == UnknownAnswer("Prometheus at http://canned: timed out")


def test_nothing_recorded_is_one_line() -> None:
    nothing = recorded_requests(query({}), "embedder", ["small"])
    zeros = recorded_requests(query({(ANSWERS, "small"): {0: 0.0}}), "embedder", ["small"])

    assert isinstance(nothing, UnknownAnswer)
    labels = '{customer="acme",service="embedder",variant="small"}'
    assert nothing.why == f"Prometheus at http://canned has nothing for {ANSWERS}{labels}"
    assert isinstance(zeros, UnknownAnswer)
    assert zeros.why == "Prometheus at http://canned has recorded no request of embedder"


def test_the_service_time_is_read_from_quiet_times() -> None:
    medians = {**{ago: 0.2 + 0.1 * ago for ago in range(10)}, 10: 0.0, 11: 0.0}

    assert quiet_latency(query({(MEDIAN, "small"): medians}), "embedder", "small") == 0.2
    assert isinstance(quiet_latency(query({}), "embedder", "small"), UnknownAnswer)
