"""Requests as Prometheus recorded them: counts by window, shares of variants, holes, and quiet latencies.

The link is canned: which expressions are asked, and what a real Prometheus answers to them, is tested with the rules.
"""

from datetime import UTC, datetime, timedelta

from ebbtide.advice.services.history import History, HistoryQuery, quiet_latency, recorded_requests
from ebbtide.monitoring.client import Prometheus, Unknown
from tests.builders.monitoring.recorded_requests import ANSWERS, MEDIAN, RecordedRequests, Series

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def query(series: Series, since: timedelta = timedelta(hours=2)) -> HistoryQuery:
    prometheus = Prometheus(RecordedRequests(series, NOW), "acme", lambda: NOW)
    return HistoryQuery(prometheus=prometheus, customer="acme", since=since, now=NOW)


def history(series: Series, *variants: str) -> History:
    recorded = recorded_requests(query(series), "embedder", variants)
    assert isinstance(recorded, History), recorded
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


def test_variants_are_distinguished_and_an_unseen_one_had_no_requests() -> None:
    recorded = history({(ANSWERS, "small"): {0: 1.0, 1: 1.0}, (ANSWERS, "large"): {0: 3.0}}, "small", "large")

    assert {name: queue.counts for name, queue in recorded.trace.queues.items()} == {
        "small": (600.0, 600.0),
        "large": (0.0, 1800.0),
    }


def test_nothing_recorded_is_one_line() -> None:
    nothing = recorded_requests(query({}), "embedder", ["small"])
    zeros = recorded_requests(query({(ANSWERS, "small"): {0: 0.0}}), "embedder", ["small"])

    assert isinstance(nothing, Unknown)
    labels = '{customer="acme",service="embedder",variant="small"}'
    assert nothing.why == f"Prometheus at http://canned has nothing for {ANSWERS}{labels}"
    assert isinstance(zeros, Unknown)
    assert zeros.why == "Prometheus at http://canned has recorded no request of embedder"


def test_the_service_time_is_read_from_quiet_times() -> None:
    medians = {**{ago: 0.2 + 0.1 * ago for ago in range(10)}, 10: 0.0, 11: 0.0}

    assert quiet_latency(query({(MEDIAN, "small"): medians}), "embedder", "small") == 0.2
    assert isinstance(quiet_latency(query({}), "embedder", "small"), Unknown)
