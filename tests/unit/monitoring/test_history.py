"""Histories: gaps, results that are no number, two replicas, pieces of a range, and answers that cannot be trusted."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import pytest

from ebbtide.monitoring.client import Forgotten, Prometheus, Silent, UnknownAnswer
from ebbtide.monitoring.history import History, TimeRange, history
from ebbtide.monitoring.links import HttpLink, NoReply, Reply
from tests.builders.control_plane import eventually
from tests.builders.monitoring.day import PROMTOOL, needs_promtool
from tests.builders.monitoring.servers import Exposed, needs_prometheus, prometheus

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
MILLISECOND = timedelta(milliseconds=1)
Lines: TypeAlias = Sequence[tuple[Mapping[str, str], Mapping[datetime, str]]]


class Answering:
    """A Prometheus with these series; `asked` are the ranges of its queries. The query of number `away` fails."""

    where = "Prometheus at test"

    def __init__(
        self, lines: Lines, *, retention: str = "", away: int = -1, margin: timedelta = MILLISECOND, **more: object
    ) -> None:
        self._lines, self._retention, self._away = lines, retention, away
        self._margin, self._more = margin.total_seconds(), more
        self.asked: list[tuple[datetime, datetime]] = []

    def get(self, path: str, query: Mapping[str, object]) -> Reply:
        if path == "status/runtimeinfo":
            return self._reply({"storageRetention": self._retention})
        if path == "query":
            return self._reply({"result": []})
        begin, end = (float(str(query[key])) for key in ("start", "end"))
        self.asked.append((datetime.fromtimestamp(begin, UTC), datetime.fromtimestamp(end, UTC)))
        if len(self.asked) - 1 == self._away:
            raise NoReply("timed out")
        result: list[dict[str, Any]] = []
        for labels, points in self._lines:
            every = [(at.timestamp(), value) for at, value in points.items()]
            inside = [point for point in every if begin - self._margin <= point[0] <= end + self._margin]
            result += [{"metric": labels, "values": inside}] if inside else []
        return self._reply({"result": result}, **self._more)

    @staticmethod
    def _reply(data: dict[str, Any], **more: object) -> Reply:
        return Reply({"status": "success", "data": data, **more}, NOW)


def ago(hours: float) -> datetime:
    return NOW - hours * HOUR


def hours_between(first: int, last: int, *, piece: timedelta = timedelta.max) -> TimeRange:
    return TimeRange(since=ago(first), until=ago(last), step=HOUR, piece=piece)


def read(answering: Answering, over: TimeRange, *by: str) -> History:
    return history(Prometheus(answering, "acme", lambda: NOW), "cores", over, by=by, called="use of cores")


def known(answer: History) -> Mapping[tuple[str, ...], Mapping[datetime, float]]:
    assert not isinstance(answer, UnknownAnswer), answer
    return answer


def test_a_gap_has_no_point_and_is_none_among_the_values() -> None:
    over = hours_between(3, 0)
    points = known(read(Answering([({}, {ago(3): "1", ago(1): "0"})]), over))[()]

    assert points == {ago(3): 1.0, ago(1): 0.0}
    assert over.values(points) == (1.0, None, 0.0, None)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_a_result_that_is_no_finite_number_is_a_gap(value: str) -> None:
    found = known(read(Answering([({"pod": "a"}, {ago(1): value, ago(0): "2"})]), hours_between(1, 0), "pod"))

    assert found == {("a",): {NOW: 2.0}}


def test_a_range_of_gaps_is_silence() -> None:
    silent = Silent("Prometheus at test has nothing for use of cores")

    assert read(Answering([]), hours_between(2, 0)) == silent
    assert read(Answering([({}, {ago(1): "NaN"})]), hours_between(2, 0)) == silent


def test_series_are_named_by_the_labels_that_are_read() -> None:
    lines: Lines = [({"pod": "a", "node": "n", "customer": "acme"}, {NOW: "1"}), ({"node": "m"}, {NOW: "2"})]

    assert known(read(Answering(lines), hours_between(0, 0), "node", "pod")).keys() == {("n", "a"), ("m", "")}


def test_of_two_replicas_the_higher_value_counts_and_one_fills_the_gaps_of_the_other() -> None:
    lines = [
        ({"pod": "a", "replica": "1"}, {ago(2): "5", ago(1): "1", ago(0): "7"}),
        ({"pod": "a", "replica": "2"}, {ago(3): "4", ago(1): "3", ago(0): "2"}),
    ]
    points = known(read(Answering(lines), hours_between(3, 0), "pod"))[("a",)]

    assert [*points.items()] == [(ago(3), 4.0), (ago(2), 5.0), (ago(1), 3.0), (ago(0), 7.0)], "from the oldest"


@pytest.mark.parametrize(("microseconds", "returned"), [(600, NOW + MILLISECOND), (400, NOW)])
def test_instants_are_those_of_the_range_although_prometheus_rounds_them_to_milliseconds(
    microseconds: int, returned: datetime
) -> None:
    until = NOW + timedelta(microseconds=microseconds)
    over = TimeRange(since=until - HOUR, until=until, step=HOUR)

    points = known(read(Answering([({}, {returned: "1"})]), over))[()]

    assert points == {until: 1.0}
    assert over.values(points) == (None, 1.0)


def test_a_point_outside_the_range_is_left_out() -> None:
    lines: Lines = [({}, {ago(hours): "1" for hours in (4, 3, 2, 1, 0)})]

    assert known(read(Answering(lines, margin=HOUR), hours_between(3, 1)))[()].keys() == {ago(3), ago(2), ago(1)}


def test_the_steps_of_a_range_in_local_time_pass_a_change_of_the_clock() -> None:
    midnight = datetime(2026, 10, 25, tzinfo=ZoneInfo("Europe/Berlin"))
    over = TimeRange(since=midnight, until=midnight.replace(hour=6), step=HOUR)

    assert [at.astimezone(midnight.tzinfo).hour for at in over.instants] == [0, 1, 2, 2, 3, 4, 5, 6]


def test_the_pieces_of_a_range_are_one_history_without_common_instants() -> None:
    lines = [
        ({"pod": "a"}, {ago(hours): str(hours) for hours in range(120)}),
        ({"pod": "b"}, {ago(hours): "1" for hours in range(24)}),
    ]
    answering = Answering(lines)
    found = known(read(answering, hours_between(119, 0, piece=48 * HOUR), "pod"))

    assert {pod: [*points.values()] for (pod,), points in found.items()} == {
        "a": [float(hours) for hours in range(119, -1, -1)],
        "b": [1.0] * 24,
    }
    assert answering.asked == [(ago(119), ago(72)), (ago(71), ago(24)), (ago(23), ago(0))]


def test_a_query_reads_no_more_points_than_prometheus_returns() -> None:
    since = NOW - 11_000 * SECOND
    answering = Answering([({}, {since: "1", NOW - SECOND: "2", NOW: "3"})])

    points = known(read(answering, TimeRange(since=since, until=NOW, step=SECOND)))[()]

    assert answering.asked == [(since, NOW - SECOND), (NOW, NOW)]
    assert points == {since: 1.0, NOW - SECOND: 2.0, NOW: 3.0}


@pytest.mark.parametrize("away", [0, 1, 2])
def test_a_piece_without_an_answer_makes_all_unknown(away: int) -> None:
    answering = Answering([({}, {ago(hours): "1" for hours in range(120)})], away=away)

    assert read(answering, hours_between(119, 0, piece=48 * HOUR)) == UnknownAnswer("Prometheus at test: timed out")


@pytest.mark.parametrize("more", [{"warnings": ["store eu-1 is away"]}, {"isPartial": True}])
def test_a_partial_answer_makes_all_unknown(more: dict[str, Any]) -> None:
    answer = read(Answering([({}, {NOW: "1"})], **more), hours_between(1, 0))

    assert isinstance(answer, UnknownAnswer)
    assert "the answer is partial" in answer.why


def test_a_range_that_begins_before_the_retention_is_forgotten() -> None:
    answering = Answering([({}, {NOW: "1"})], retention="2d")

    assert read(answering, hours_between(72, 0)) == Forgotten(
        "Prometheus at test keeps 2 d 0 h, and 3 d 0 h were requested"
    )
    assert answering.asked == []


@pytest.mark.parametrize("value", ["many", None, [], 10**400], ids=["text", "null", "list", "huge"])
def test_an_answer_that_is_not_from_prometheus_is_unknown(value: Any) -> None:
    answer = read(Answering([({}, {NOW: value})]), hours_between(1, 0))

    assert isinstance(answer, UnknownAnswer)
    assert "the answer is not from Prometheus" in answer.why


# --- a real Prometheus ------------------------------------------------------------------------------------------------

BEGIN = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=12)
RECORDED = {
    'steady{pod="a"}': [(BEGIN + place * 30 * SECOND, 1.0) for place in range(1440)],
    'holey{pod="a"}': [(BEGIN + place * 30 * SECOND, 1.0) for place in range(60) if not 10 <= place < 40],
    'shared{pod="a",replica="1"}': [(BEGIN + place * 30 * SECOND, 1.0) for place in range(40)],
    'shared{pod="a",replica="2"}': [(BEGIN + place * 30 * SECOND, 2.0) for place in range(20, 60)],
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """With the series above in blocks."""
    folder = tmp_path_factory.mktemp("history")
    assert PROMTOOL is not None
    with (folder / "history.txt").open("w", encoding="utf-8") as out:
        for series, points in RECORDED.items():
            if 'replica="2"' not in series:
                out.write(f"# TYPE {series.partition('{')[0]} gauge\n")
            out.writelines(f"{series} {value!r} {at.timestamp():.0f}\n" for at, value in points)
        out.write("# EOF\n")
    command = [PROMTOOL, "tsdb", "create-blocks-from", "openmetrics", "history.txt", "data"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    with prometheus(folder, {}) as address:
        yield address


def read_real(url: str, expression: str, over: TimeRange, *by: str) -> History:
    return history(Prometheus(HttpLink(url), "acme", lambda: datetime.now(UTC)), expression, over, by=by)


def from_begin(steps: int, step: timedelta) -> TimeRange:
    return TimeRange(since=BEGIN, until=BEGIN + (steps - 1) * step, step=step)


def recorded(url: str, expression: str, steps: int, step: timedelta) -> Sequence[float | None]:
    over = from_begin(steps, step)
    return over.values(known(read_real(url, expression, over, "pod"))["a",])


@pytest.mark.process
@needs_promtool
@needs_prometheus
def test_more_than_11_000_points_of_a_real_prometheus_are_read_with_both_ends(url: str) -> None:
    assert recorded(url, "steady", 11_501, 2 * SECOND) == (1.0,) * 11_501


@pytest.mark.process
@needs_promtool
@needs_prometheus
def test_a_gap_of_a_real_prometheus_is_one(url: str) -> None:
    """Prometheus returns the last sample for five minutes."""
    values = recorded(url, "holey", 30, MINUTE)

    assert values == tuple(1.0 if place < 10 or place >= 20 else None for place in range(30))


@pytest.mark.process
@needs_promtool
@needs_prometheus
def test_two_replicas_in_a_real_prometheus_are_one_series(url: str) -> None:
    assert recorded(url, "shared", 30, MINUTE) == tuple(1.0 if place < 10 else 2.0 for place in range(30))


@pytest.mark.process
@needs_promtool
@needs_prometheus
@pytest.mark.parametrize("divided", ["steady - 1", "steady"], ids=["NaN", "Inf"])
def test_a_division_by_zero_of_a_real_prometheus_is_no_value(url: str, divided: str) -> None:
    answer = read_real(url, f"({divided}) / (steady - 1)", from_begin(3, HOUR))

    assert isinstance(answer, Silent)


@pytest.mark.process
@needs_prometheus
def test_a_series_that_is_no_longer_scraped_ends_at_once(tmp_path: Path) -> None:
    """Prometheus marks it as stale, so the five minutes do not count."""
    target = Exposed("busy 1\n")
    over = TimeRange(since=datetime.now(UTC), until=datetime.now(UTC) + timedelta(minutes=4), step=SECOND)
    try:
        with prometheus(tmp_path, {"one": target.address}) as address:
            eventually(lambda: not isinstance(read_real(address, "busy", over), UnknownAnswer), what="a sample")
            target.text = "other 1\n"
            eventually(lambda: not isinstance(read_real(address, "other", over), UnknownAnswer), what="the other one")
            busy, other = (known(read_real(address, name, over))[()] for name in ("busy", "other"))
    finally:
        target.close()

    assert max(busy) < min(other)
