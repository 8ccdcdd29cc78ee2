"""What a worker pool's keys mean together: sources, jobs per worker, safe stop, the morning."""

from pathlib import Path

import pytest

from ebbtide.settings import load_stack, warnings_of
from tests.builders_settings import loaded, problem_of, problems_of, shortest

ROOT = Path(__file__).parents[3]


def source(text: str) -> str:
    return shortest().replace("queues: [train]", text)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("jobsPerWorker: 2, drainWithin: 10m, jobTakes: 1m", "jobsPerWorker or drainWithin, not both"),
        ("drainWithin: 10m", "drainWithin and jobTakes together"),
        ("jobTakes: 10m", "workers.train.drainWithin: wanted drainWithin and jobTakes together"),
        ("morning: { workers: 5, for: 30m }", "wanted morning workers of at most max, which is 4, found 5"),
        ("morning: { workers: 1, for: 25h }", "wanted at most 24h"),
        ("morning: { workers: 1 }", "wanted this key"),
        ("growthPerMinute: 0", "wanted a number of at least 1"),
        ("command: [run, 5]", "wanted one word of a command"),
    ],
)
def test_a_contradiction_is_told_where_it_is(keys: str, said: str, tmp_path: Path) -> None:
    assert any(said in str(problem) for problem in problems_of(shortest(train=keys), tmp_path))


@pytest.mark.parametrize(
    ("within", "takes", "jobs"), [("10m", "1m", 10), ("10m", "7m", 1), ("1m", "10m", 1), ("1h", "59s", 61)]
)
def test_jobs_per_worker_follow_from_the_longest_wait(within: str, takes: str, jobs: int, tmp_path: Path) -> None:
    text = shortest(train=f"drainWithin: {within}, jobTakes: {takes}")

    assert loaded(text, tmp_path).workers["train"].jobs_per_worker == jobs


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("kind: celery, queues: [train]", "source.acks: wanted late, for celery"),
        ("kind: celery, acks: early, queues: [train]", "in no key of Redis while it runs"),
        ("acks: late, queues: [train]", "wanted acks with kind celery only"),
        ("kind: huey, queues: [train]", "Huey keeps no record of running tasks"),
        ("kind: arq, queues: [train]", "ARQ cancels running jobs"),
        ("kind: lists, queues: [train]", "did you mean list?"),
    ],
)
def test_a_source_whose_running_work_cannot_be_seen_is_refused(given: str, said: str, tmp_path: Path) -> None:
    assert said in problem_of(source(given), tmp_path)


@pytest.mark.parametrize(
    ("given", "more", "safe"),
    [
        ("queues: [train]", "", True),
        ("queues: [train]", "command: [my, worker]", False),
        ("queues: [train]", "command: [my, worker], safeStop: true", True),
        ("kind: celery, acks: late, queues: [train]", "", False),
        ("kind: list, queues: [train]", "", False),
        ("kind: list, queues: [train]", "safeStop: true", True),
    ],
)
def test_only_our_own_command_stops_safely_unasked(given: str, more: str, safe: bool, tmp_path: Path) -> None:
    text = shortest(train=more).replace("queues: [train]", given)

    assert loaded(text, tmp_path).workers["train"].safe_stop is safe


def test_celery_is_warned_about_what_redis_cannot_tell(tmp_path: Path) -> None:
    settings = loaded(source("kind: celery, acks: late, queues: [train]"), tmp_path)

    assert any("which Celery worker has a task" in warning for warning in warnings_of(settings))
    assert not any("Celery" in warning for warning in warnings_of(load_stack("demo", ROOT)))


def test_a_controller_has_one_standby_at_most(tmp_path: Path) -> None:
    more = "ebbtide:controller: { replicas: 3 }"

    assert "wanted a number of at most 2, found 3" in problem_of(shortest(more=more), tmp_path)


def test_a_bad_source_hides_no_other_fault_and_adds_none(tmp_path: Path) -> None:
    text = source("kind: huey, queues: [train]").replace("max: 4", "max: 0")

    assert sorted(problem.path for problem in problems_of(text, tmp_path)) == [
        "ebbtide:workers.train.max",
        "ebbtide:workers.train.source.kind",
    ]
