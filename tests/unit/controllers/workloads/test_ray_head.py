"""Conclusions from answers that a real head gave, and from answers that no head should give."""

import copy
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from controllers.workloads.ray.head import Head, Surprise, actors, drivers, jobs
from controllers.workloads.ray.idle import LONGEST_GAP, Busy, Idle, IdleTime, Unreadable
from tests.builders.workloads.process import TOKEN, RecordedHead
from tests.builders.workloads.specs import ANSWERS

pytestmark = pytest.mark.process

NOON = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.fixture
def head() -> Iterator[RecordedHead]:
    head = RecordedHead()
    yield head
    head.shutdown()
    head.server_close()


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    return file


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ("a driver", "driver: Number of active drivers: 1"),
        ("a Ray Client", "driver: Number of active drivers: 1"),
        ("a job is pending", " is pending"),
        ("a job without a driver runs", " is running"),
        ("a detached actor", "1 actors are alive"),
    ],
)
def test_whatever_is_attached_or_runs_makes_it_busy(head: RecordedHead, token: Path, state: str, why: str) -> None:
    head.state = state
    activity = Head(head.url, str(token)).activity()

    assert isinstance(activity, Busy)
    assert activity.why.endswith(why)


def test_it_is_idle_when_nothing_is_left_and_says_since_when(head: RecordedHead, token: Path) -> None:
    look = Head(f"{head.url}/", str(token)).activity

    assert look() == Idle()
    head.state = "the job has ended"
    ended = max(job["end_time"] for job in ANSWERS[head.state]["jobs"])
    assert look() == Idle(datetime.fromtimestamp(ended / 1000, UTC))
    assert ended / 1000 > ANSWERS[head.state]["activities"]["driver"]["last_activity_at"], (
        "the job's end is in one answer"
    )


def test_a_refusal_a_missing_token_and_silence_are_unreadable(head: RecordedHead, token: Path, tmp_path: Path) -> None:
    for look, why in (
        (Head(head.url, None).activity, "HTTP 403 for /api/component_activities"),
        (Head(head.url, str(tmp_path / "none")).activity, "No such file"),
        (Head("http://127.0.0.1:9", str(token)).activity, "refused"),
    ):
        activity = look()
        assert isinstance(activity, Unreadable)
        assert why in activity.why
        assert TOKEN not in activity.why


@pytest.mark.parametrize("text", ["", " \n", "to ken", "to\nken", "tök"])
def test_a_file_that_holds_no_token_is_unreadable_and_not_quoted(head: RecordedHead, token: Path, text: str) -> None:
    token.write_text(text, encoding="utf-8")

    assert Head(head.url, str(token)).activity() == Unreadable(f"{head.url}: {token} holds no token")
    assert head.asked == 0


def changed(state: str, part: str, *path: Any, to: Any) -> Any:
    answer = inner = copy.deepcopy(ANSWERS[state][part])
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    return answer


@pytest.mark.parametrize(
    ("parse", "answer"),
    [
        (drivers, []),
        (drivers, {}),
        (drivers, {"driver": None}),
        (drivers, changed("nothing ever ran", "activities", "driver", "is_active", to="ERROR")),
        (drivers, changed("nothing ever ran", "activities", "driver", "is_active", to=False)),
        (drivers, changed("nothing ever ran", "activities", "driver", "last_activity_at", to="now")),
        (drivers, changed("nothing ever ran", "activities", "hook", to={"is_active": "PERHAPS"})),
        (jobs, {}),
        (jobs, [None]),
        (jobs, changed("the job has ended", "jobs", 0, "status", to="SUSPENDED")),
        (jobs, changed("the job has ended", "jobs", 0, "end_time", to=10**400)),
        (actors, None),
        (actors, changed("nothing ever ran", "actors", "result", to=False)),
        (actors, changed("nothing ever ran", "actors", "data", to=None)),
        (actors, changed("nothing ever ran", "actors", "data", "result", "total", to=10_001)),
        (actors, changed("nothing ever ran", "actors", "data", "result", "num_filtered", to=None)),
        (actors, changed("nothing ever ran", "actors", "data", "result", "num_filtered", to=False)),
        (actors, changed("nothing ever ran", "actors", "data", "result", "partial_failure_warning", to="one node")),
        (actors, changed("nothing ever ran", "actors", "data", "result", "result", to=[{"state": "ALIVE"}])),
    ],
)
def test_an_answer_that_is_not_understood_is_no_idleness(parse: Callable[[object], object], answer: object) -> None:
    with pytest.raises(Surprise):
        parse(answer)


def test_idle_time_counts_from_the_first_of_an_unbroken_row_of_readings() -> None:
    idle = IdleTime()

    assert idle.observe(NOON, Idle()) == timedelta()
    assert idle.observe(NOON + 10 * SECOND, Idle()) == 10 * SECOND
    assert idle.observe(NOON + 20 * SECOND, Idle(NOON + 15 * SECOND)) == 5 * SECOND, "something ran in between"


@pytest.mark.parametrize("lost", [Busy("a driver"), Unreadable("HTTP 401")])
def test_idle_time_begins_again_when_a_reading_was_lost(lost: Busy | Unreadable) -> None:
    idle = IdleTime()
    idle.observe(NOON, Idle())

    assert idle.observe(NOON + SECOND, lost) is None
    assert idle.observe(NOON + 2 * SECOND, Idle()) == timedelta()


def test_idle_time_does_not_bridge_a_gap_or_a_clock_that_went_back() -> None:
    for later in (LONGEST_GAP + SECOND, -SECOND):
        idle = IdleTime()
        idle.observe(NOON, Idle())
        assert idle.observe(NOON + later, Idle()) == timedelta()
