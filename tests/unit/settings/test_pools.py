"""Relations between a worker pool's keys: sources, jobs per worker, safe stop, morning."""

from pathlib import Path

import pytest

from ebbtide.settings import warnings_of
from ebbtide.settings.capacity.process_documents import controller_config
from ebbtide.vocabulary.controller_config import CeleryKeys, ControllerConfig, RedisEndpoint
from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.documents import load as read_document
from tests.builders.settings import loaded, problem_of, problems_of, shortest, told


def source(text: str) -> str:
    return shortest().replace("queues: [train]", text)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("jobsPerWorker: 2, drainWithin: 10m, jobTakes: 1m", ("keys.not-both", "jobsPerWorker or drainWithin")),
        ("drainWithin: 10m", ("jobs-per-worker.half-given", "workers.train.jobTakes:")),
        ("jobTakes: 10m", ("jobs-per-worker.half-given", "workers.train.drainWithin:")),
        ("morning: { workers: 5, for: 30m }", ("morning.above-max", "4", "found 5")),
        ("morning: { workers: 1, for: 25h }", ("duration.more-than-a-day", "24h")),
        ("morning: { workers: 1 }", ("key.missing",)),
        ("growthPerMinute: 0", ("number.too-small", "1")),
        ("command: [run, 5]", ("command.word",)),
    ],
)
def test_a_contradiction_is_told_where_it_is(keys: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert any(told(problem).tells(*words) for problem in problems_of(shortest(train=keys), tmp_path))


@pytest.mark.parametrize(
    ("within", "takes", "jobs"), [("10m", "1m", 10), ("10m", "7m", 1), ("1m", "10m", 1), ("1h", "59s", 61)]
)
def test_jobs_per_worker_follow_from_the_longest_wait(within: str, takes: str, jobs: int, tmp_path: Path) -> None:
    text = shortest(train=f"drainWithin: {within}, jobTakes: {takes}")

    assert loaded(text, tmp_path).workers["train"].jobs_per_worker == jobs


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("kind: celery, queues: [train]", ("acks.not-late", "source.acks:")),
        ("kind: celery, acks: early, queues: [train]", ("choice.planned", "found 'early'")),
        ("acks: late, queues: [train]", ("acks.other-kind",)),
        ("kind: huey, queues: [train]", ("choice.planned", "found 'huey'")),
        ("kind: arq, queues: [train]", ("choice.planned", "found 'arq'")),
        ("kind: lists, queues: [train]", ("choice.unknown", "did you mean list?")),
    ],
)
def test_a_source_whose_running_work_cannot_be_seen_is_refused(
    keys: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    assert problem_of(source(keys), tmp_path).tells(*words)


@pytest.mark.parametrize(
    ("command", "more", "safe"),
    [
        ("queues: [train]", "", True),
        ("queues: [train]", "command: [my, worker]", False),
        ("queues: [train]", "command: [my, worker], safeStop: true", True),
        ("kind: celery, acks: late, queues: [train]", "", False),
        ("kind: list, queues: [train]", "", False),
        ("kind: list, queues: [train]", "safeStop: true", True),
    ],
)
def test_only_our_own_command_stops_safely_unasked(command: str, more: str, safe: bool, tmp_path: Path) -> None:
    text = shortest(train=more).replace("queues: [train]", command)

    assert loaded(text, tmp_path).workers["train"].safe_stop is safe


CELERY = "kind: celery, acks: late, queues: [train]"


@pytest.mark.parametrize(
    ("command", "jobs", "warned"),
    [
        (
            "[celery, -A, app, worker, -Q, priority]",
            1,
            {"source.other-queues": "serve priority, and the pool counts train"},
        ),
        ('[celery, -A, app, worker, "--queues=train,priority"]', 1, {"source.other-queues": "serve train, priority"}),
        ("[celery, -A, app, worker, -Qtrain, --concurrency, '8']", 1, {"source.tasks-at-once": "runs 8 tasks at once"}),
        ("[celery, -A, app, worker, -c8]", 4, {"source.tasks-at-once": "counts 4 per worker"}),
        ("[celery, -A, app, worker, '--autoscale=6,1']", 1, {"source.tasks-at-once": "runs 6 tasks at once"}),
        (
            '[sh, -c, "exec celery -A app worker -Q mail -c 2"]',
            1,
            {"source.other-queues": "", "source.tasks-at-once": ""},
        ),
        ('[sh, -c, "celery -A app worker -Q $QUEUES -c $(nproc)"]', 1, {}),
        ("[celery, -A, app, worker, -Q, $(QUEUES)]", 1, {}),
        ("[celery, -A, app, worker, -Q, train, -c, '8']", 8, {}),
        *(
            (f"[celery, -A, app, worker, -Q, train, -c, '8', {solo}]", 1, {})  # which runs one task, whatever -c says
            for solo in ("-P, solo", "-Psolo", "--pool, solo", "--pool=solo")
        ),
        ("[celery, -A, app, worker, -c, '8', -P, threads]", 1, {"source.tasks-at-once": "runs 8 tasks at once"}),
        ("[celery, -A, app, worker]", 1, {}),
        ("[celery, -A, app, beat, -Q, mail]", 1, {}),
        ("[./start, -Q, mail, -c, '8']", 1, {}),
        ('[sh, -c, "celery -A \'app worker -Q mail"]', 1, {}),
    ],
)
def test_a_celery_command_that_serves_other_queues_or_more_at_once_is_warned_about(
    command: str, jobs: int, warned: dict[str, str], tmp_path: Path
) -> None:
    text = source(CELERY).replace("longestJob", f"jobsPerWorker: {jobs}, command: {command}, longestJob")

    cautions = {
        caution.code: caution.text
        for caution in warnings_of(loaded(text, tmp_path))
        if caution.code.startswith("source.")
    }

    assert cautions.keys() == warned.keys()
    assert all(warned[code] in cautions[code] for code in warned)


def test_arguments_of_the_images_own_program_are_read_too(tmp_path: Path) -> None:
    text = source(CELERY).replace("longestJob", "args: [celery, -A, app, worker, -Q, mail], longestJob")

    assert "source.other-queues" in {caution.code for caution in warnings_of(loaded(text, tmp_path))}


def test_a_command_of_another_framework_is_no_command_of_celery(tmp_path: Path) -> None:
    text = shortest(train="command: [celery, worker, -Q, mail]")

    assert not [caution for caution in warnings_of(loaded(text, tmp_path)) if caution.code.startswith("source.")]


def test_names_of_celerys_keys_reach_the_controller(tmp_path: Path) -> None:
    names = 'keyPrefix: "ml:", priorities: [0, 5], separator: "\\x06", unackedKey: taken, unackedIndexKey: index'

    settings = loaded(source(f"{CELERY}, {names}"), tmp_path)

    keys = CeleryKeys(prefix="ml:", priorities=(0, 5), separator="\x06", unacked="taken", unacked_index="index")
    document = controller_config(settings, RedisEndpoint(host="redis"), (2026,))
    assert read_document(ControllerConfig, dump(document)).pools[0].celery == document.pools[0].celery == keys


def test_celerys_own_names_of_its_keys_need_no_word_in_the_document(tmp_path: Path) -> None:
    named = 'keyPrefix: "", priorities: [0, 3, 6, 9], separator: "\\x06\\x16", unackedKey: unacked'

    assert loaded(source(f"{CELERY}, {named}"), tmp_path).workers["train"].source.celery_keys is None
    assert loaded(source(CELERY), tmp_path).workers["train"].source.celery_keys is None


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ('queues: [train], keyPrefix: "ml:"', ("source.other-kind", "source.keyPrefix:", "keyPrefix with kind celery")),
        ("kind: list, queues: [train], priorities: [0]", ("source.other-kind", "source.priorities:")),
        (f"{CELERY}, priorities: []", ("list.empty", "at least one entry")),
        (f"{CELERY}, priorities: [0, 256]", ("number.too-large", "255")),
        (f"{CELERY}, priorities: [3, 0, 3]", ("list.twice", "each priority once", "3 twice")),
        (f'{CELERY}, separator: ""', ("key-part.form", "1 to 200 characters")),
        (f"{CELERY}, unackedKey: 5", ("key-part.form",)),
    ],
)
def test_names_of_keys_that_no_celery_has_are_refused(keys: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert problem_of(source(keys), tmp_path).tells(*words)


def test_a_controller_has_one_standby_at_most(tmp_path: Path) -> None:
    more = "ebbtide:controller: { replicas: 3 }"

    assert problem_of(shortest(more=more), tmp_path).tells("number.too-large", "found 3", "2")


def test_a_bad_source_hides_no_other_fault_and_adds_none(tmp_path: Path) -> None:
    text = source("kind: huey, queues: [train]").replace("max: 4", "max: 0")

    assert sorted(problem.path for problem in problems_of(text, tmp_path)) == [
        "ebbtide:workers.train.max",
        "ebbtide:workers.train.source.kind",
    ]


def test_a_former_name_of_a_key_is_refused_with_the_name_it_has_now(tmp_path: Path) -> None:
    problem = problem_of(shortest(train="calm: 5m"), tmp_path)

    assert problem.tells("key.elsewhere", "workers.train.calm:")
    assert "stabilizationWindow" in str(problem)


@pytest.mark.parametrize(
    ("command", "warned"),
    [
        ("[rq, worker, train]", True),
        ("[/opt/venv/bin/rq, worker, -w, app.Worker, train]", True),
        ("[python, -m, rq, worker, train]", True),
        ("[python, manage.py, rqworker, train]", True),
        ('[sh, -c, "exec rq worker train"]', True),
        ("[rq, worker, --with-scheduler, train]", False),
        ("[python, manage.py, rqworker, train, --with-scheduler]", False),
        ('[sh, -c, "exec rq worker -s train"]', False),
        ("[python, worker.py]", False),
        ("[rq, worker-pool, train]", False),
    ],
)
def test_a_worker_command_of_rq_without_a_scheduler_is_warned_of(command: str, warned: bool, tmp_path: Path) -> None:
    settings = loaded(shortest(train=f"command: {command}, safeStop: true"), tmp_path)

    paths = [caution.place for caution in warnings_of(settings) if caution.code == "rq.no-scheduler"]

    assert paths == ["workers.train.command"] * warned


def test_the_command_of_ebbtide_has_a_scheduler(tmp_path: Path) -> None:
    assert "rq.no-scheduler" not in {caution.code for caution in warnings_of(loaded(shortest(), tmp_path))}


def test_the_warning_about_rq_is_for_rq_alone(tmp_path: Path) -> None:
    text = source("kind: list, queues: [train]").replace("max: 4", "command: [rq, worker, train], max: 4")

    assert "rq.no-scheduler" not in {caution.code for caution in warnings_of(loaded(text, tmp_path))}
