"""Queries to Prometheus: valid expressions over metrics that are scraped and kept, and courses asked for in pieces."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

import pytest

from components.monitoring.scraping import CADVISOR_KEPT, GPU_KEPT
from ebbtide.advice.sizes.queries import PIECE, Questions, course, namespaces
from ebbtide.monitoring.client import Course, Prometheus, Silent, Unknown
from ebbtide.monitoring.links import NoReply, Reply
from ebbtide.monitoring.rules import Metrics
from tests.builders.evidence.told import Told, hourly
from tests.builders.monitoring.promql import uses

ASK = Questions(Metrics("acme"), namespaces(["ebbtide-workers", "ebbtide", "ebbtide"]), timedelta(minutes=5))


def questions() -> Iterator[str]:
    yield from (ASK.cpu(), ASK.memory(), ASK.throttled(), ASK.kills(), ASK.placed())
    yield from (ASK.gpu_busy(), ASK.gpu_memory(), ASK.gpus_used())
    for what in ("cpu_cores", "memory_bytes"):
        yield ASK.requested(what)
    for what in ("cpu_cores", "memory_bytes", "gpus"):
        yield ASK.sizes(what, timedelta(days=14))


@pytest.mark.parametrize("question", [*questions()])
def test_queries_name_only_kept_metrics_of_kubelets_and_gpus_or_the_customers_own(question: str) -> None:
    found = uses(question)

    assert found
    for use in found:
        if use.metric.startswith("ebbtide_"):
            assert use.asked["customer"] == "acme"
        else:
            assert re.fullmatch(f"{CADVISOR_KEPT}|{GPU_KEPT}", use.metric)
            assert use.asked["namespace"] == "ebbtide|ebbtide-workers"


def test_an_increase_is_searched_in_two_steps_since_one_between_two_windows_is_in_neither() -> None:
    assert "[10m]" in ASK.kills()
    assert "[5m]" in ASK.cpu()


UNTIL = datetime(2026, 11, 24, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


class RecordingPrometheus(Told):
    """Records the windows of queries; fails for the window that contains `away`, in hours before now."""

    def __init__(self, *args: object, away: float | None = None) -> None:
        super().__init__(*args)  # pyright: ignore[reportArgumentType] - those of the class below
        self.windows: list[tuple[float, float]] = []
        self._away = away

    def get(self, path: str, query: Mapping[str, object]) -> Reply:
        if path == "query_range":
            begin, end = ((UNTIL.timestamp() - float(str(query[key]))) / 3600 for key in ("start", "end"))
            self.windows.append((begin, end))
            if self._away is not None and end <= self._away <= begin:
                raise NoReply("timed out")
        return super().get(path, query)


def answer_for(told: Told, days: int = 5) -> Course:
    prometheus = Prometheus(told, "acme", lambda: UNTIL)
    return course(prometheus, "cpu", UNTIL - timedelta(days=days) + HOUR, UNTIL, HOUR, "")


def test_the_pieces_are_one_course_without_a_point_twice() -> None:
    told = RecordingPrometheus(UNTIL, {"cpu": {"pod=a": hourly(5, lambda hour: hour), "pod=b": hourly(1, lambda _: 1)}})

    found = answer_for(told)

    assert not isinstance(found, Unknown)
    by_pod = {one.labels["pod"]: [value for _, value in one.points] for one in found}
    assert by_pod == {"a": [float(hour) for hour in range(119, -1, -1)], "b": [1.0] * 24}
    assert told.windows == [(119.0, 72.0), (71.0, 24.0), (23.0, 0.0)]
    assert all(begin - end < PIECE / HOUR for begin, end in told.windows)


def test_nothing_in_all_pieces_is_nothing() -> None:
    assert isinstance(answer_for(RecordingPrometheus(UNTIL, {})), Silent)


def test_a_piece_without_an_answer_makes_all_unknown() -> None:
    answer = answer_for(RecordingPrometheus(UNTIL, {"cpu": {"pod=a": hourly(5, lambda hour: hour)}}, away=50.0))

    assert answer == Unknown("Prometheus at test: timed out")
