"""Courses in pieces: no point twice and none lost, gaps stay gaps, and what is unknown stays so."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from ebbtide.advice.sizes.queries import PIECE, course
from ebbtide.monitoring.client import Course, Prometheus, Silent, Unknown
from ebbtide.monitoring.links import NoReply, Reply
from tests.builders.evidence.told import Told, hourly

UNTIL = datetime(2026, 11, 24, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Counting(Told):
    """Keeps the windows that it was asked for, and is away in those that end at one of these hours before now."""

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


def asked(told: Told, days: int = 5) -> Course:
    prometheus = Prometheus(told, "acme", lambda: UNTIL)
    return course(prometheus, "cpu", UNTIL - timedelta(days=days) + HOUR, UNTIL, HOUR, "")


def test_the_pieces_are_one_course_without_a_point_twice() -> None:
    told = Counting(UNTIL, {"cpu": {"pod=a": hourly(5, lambda hour: hour), "pod=b": hourly(1, lambda _: 1)}})

    found = asked(told)

    assert not isinstance(found, Unknown)
    by_pod = {one.labels["pod"]: [value for _, value in one.points] for one in found}
    assert by_pod == {"a": [float(hour) for hour in range(119, -1, -1)], "b": [1.0] * 24}
    assert told.windows == [(119.0, 72.0), (71.0, 24.0), (23.0, 0.0)]
    assert all(begin - end < PIECE / HOUR for begin, end in told.windows)


def test_nothing_in_all_pieces_is_nothing() -> None:
    assert isinstance(asked(Counting(UNTIL, {})), Silent)


def test_a_piece_that_could_not_be_asked_for_makes_all_unknown() -> None:
    answer = asked(Counting(UNTIL, {"cpu": {"pod=a": hourly(5, lambda hour: hour)}}, away=50.0))

    assert answer == Unknown("Prometheus at test: timed out")
