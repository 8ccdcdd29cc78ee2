"""Commands and variables of a pool's workers that contradict the pool."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.scaler.workers.history import JANITOR_PATIENCE
from ebbtide.settings import warnings_of
from ebbtide.settings.checks.commands import CLEANED_WITHIN, OPTIONS
from ebbtide.settings.worker_command import read_command
from tests.builders.settings import loaded, shortest

SAFE = "-w, ebbtide.jobs.rq_worker.SafeWorker, -s"
LINE = SAFE.replace(",", "")
BURST = {"command.ends-by-itself"}
CELERY = "kind: celery, acks: late, queues: [train]"
KINDS = ("source.", "safe-stop.", "command.", "rq.")


def cautions(keys: str, folder: Path, *, source: str = "queues: [train]", more: str = "") -> dict[str, str]:
    """The texts about the pool's command by code, each with its path."""
    settings = loaded(shortest(train=keys, more=more).replace("queues: [train]", source), folder)
    return {
        caution.code: str(caution)
        for caution in warnings_of(settings)
        if caution.code.startswith(KINDS) and caution.code != "safe-stop.none"
    }


@pytest.mark.parametrize(
    ("command", "warned"),
    [
        (f"[rq, worker, {SAFE}, train]", {}),
        (f"[rq, worker, {SAFE}, high, default]", {"source.other-queues": "high, default, and the pool counts train"}),
        (f"[rq, worker, {SAFE}]", {"source.other-queues": "serve default"}),
        (f"[rq, worker, {SAFE}, -c, app.settings]", {}),  # which may name queues
        (f"[rq, worker, {SAFE}, $(QUEUE)]", {}),
        (f"[rq, worker, {SAFE}, --of-another-release, high]", {}),  # an argument, or the option's value
        (f"[rq, worker, {SAFE}, --name, $(POD), train]", {}),
        (f"[rq, worker, {SAFE}, -v, --results-ttl=60, --worker-ttl, '60', --, train]", {}),
        ("[rq, worker, -s, train]", {"safe-stop.own-class": "RQ's own worker class loses a job"}),
        ("[rq, worker, -sw, rq.SimpleWorker, train]", {"safe-stop.own-class": "--worker-class rq.SimpleWorker"}),
        ("[rq, worker, -s, -w, rq.worker.HerokuWorker, train]", {"safe-stop.own-class": "rq.worker.HerokuWorker"}),
        ("[rq, worker, -s, -w, app.workers.Worker, train]", {}),  # perhaps a subclass of the safe one
        ("[python, manage.py, rqworker, --with-scheduler, train]", {}),  # Django's settings have a class, too
        (f"[rq, worker, {SAFE}, --burst, train]", {"command.ends-by-itself": "--burst ends the worker when its queue"}),
        (f"[rq, worker, {SAFE}, -bv, train]", {"command.ends-by-itself": ""}),
        (f"[rq, worker, {SAFE}, --max-idle-time, '60', train]", {"command.ends-by-itself": "--max-idle-time"}),
        (f"[rq, worker, {SAFE}, --max-jobs=100, train]", {"command.ends-by-itself": "after 100 jobs"}),
        (f"[rq, worker, {SAFE}, -n, mailer, train]", {"command.one-name": "--name mailer is the same in all pods"}),
        ("[rq, worker-pool, -w, app.Safe, -n, '4', train]", {"source.tasks-at-once": "runs 4 jobs at once"}),
        ("[rq, worker-pool, -w, app.Safe, train]", {}),
        ("[./manage.py, rqworker-pool, --num-workers, '2', train]", {"source.tasks-at-once": "write --num-workers 1"}),
        (
            "[rq, worker, -s, --worker-ttl, '616', train]",
            {"command.seldom-cleans": "at most 615", "safe-stop.own-class": ""},
        ),
        (
            "[rq, worker, -s, --worker-ttl, '615', --maintenance-interval, '600', train]",
            {"safe-stop.own-class": ""},
        ),
        (
            "[rq, worker, -s, -w, rq.worker.Worker, --maintenance-interval, '601', train]",
            {"command.seldom-cleans": "at most 600", "safe-stop.own-class": ""},
        ),
        (f"[rq, worker, {SAFE}, --worker-ttl, '616', --maintenance-interval, '601', train]", {}),
        ("[rq, worker, -s, -w, team.Worker, --worker-ttl, '616', train]", {}),
        (f"[rq, worker, {SAFE}, --results-ttl, '-1', train]", {"command.results-stay": "keeps every result forever"}),
        (f"[rq, worker, {SAFE}, --sentry-dsn, x, train]", {"command.no-such-option": "--sentry-dsn"}),
        (f"[rq, worker, {SAFE}, -u, 'redis://other:6379/1', train]", {"command.other-redis": "other:6379, database 1"}),
        (f"[rq, worker, {SAFE}, -u, 'redis://:pw@other', train]", {"command.other-redis": "other:6379, database 0"}),
        (f"[rq, worker, {SAFE}, -u, 'redis://ebbtide-redis.ebbtide:6379/0', train]", {}),
        (f"[rq, worker, {SAFE}, -u, $(RQ_REDIS_URL), train]", {}),
        (f"[poetry, run, rq, worker, {SAFE}, -b, train]", {"command.ends-by-itself": ""}),
        (f"[python, -m, rq.cli, worker, {SAFE}, -b, train]", {"command.ends-by-itself": ""}),
        (f"[/venv/bin/rqworker, {SAFE}, -b, train]", {"command.ends-by-itself": ""}),
        (f"[tini, --, env, A=b, rq, worker, {SAFE}, -b, train]", {"command.ends-by-itself": ""}),
        (f"[bash, -lc], args: ['exec rq worker {LINE} -b train']", {"command.ends-by-itself": ""}),
        (f"['exec rq worker {LINE} -b train']", {"command.ends-by-itself": ""}),
        ("[celery, -A, app, worker, -Q, train]", {"command.other-framework": "another framework than source.kind, rq"}),
        ("[/app/start.sh, --burst, high]", {}),
    ],
)  # fmt: skip
def test_a_command_of_rq_that_contradicts_its_pool_is_warned_about(
    command: str, warned: dict[str, str], tmp_path: Path
) -> None:
    found = cautions(f"command: {command}, safeStop: true", tmp_path)

    assert found.keys() == warned.keys()
    assert all(words in found[code] for code, words in warned.items())
    assert all(text.startswith("workers.train.command: ") for text in found.values())


@pytest.mark.parametrize(
    ("script", "warned"),
    [
        (f"exec rq worker {LINE} train", set[str]()),
        (f"exec rq worker {LINE} train 2>&1 >/dev/stdout", set[str]()),
        (f"exec rq worker {LINE} high 2>&1 >/dev/stdout", {"source.other-queues"}),
        (f"cd /app && exec rq worker {LINE} -b train", {"command.ends-by-itself"}),
        (f"rq worker {LINE} train", {"safe-stop.behind-shell"}),
        (f"exec rq worker {LINE} train | tee log", {"safe-stop.behind-shell"}),
        (f"trap 'kill -TERM 2' TERM; rq worker {LINE} train & wait", set[str]()),
        (f"exec rq worker {LINE} -n $(hostname) train", set[str]()),
        (f"exec rq worker {LINE} train > >(tee log) 2>&1", set[str]()),
        (f"exec rq worker {LINE} -b train > >(tee $(hostname).log)", set[str]()),
        (f"exec rq worker {LINE} $QUEUES", set[str]()),
        (f"exec rq worker {LINE} 'train", set[str]()),
        ("if [ -n $A ]; then exec rq worker -s high; else exec rq worker -s low; fi", set[str]()),
        (f"# rq worker high\\nexec rq worker {LINE} \\\\\\n  --burst \\\\\\n  train", BURST),
    ],
)  # fmt: skip
@pytest.mark.parametrize("shell", ["sh, -c", "/bin/sh, -e, -o, pipefail, -c", "tini, --, sh, -ec"])
def test_a_shell_line_is_read_as_the_shell_reads_it(shell: str, script: str, warned: set[str], tmp_path: Path) -> None:
    assert {*cautions(f'command: [{shell}, "{script}"], safeStop: true', tmp_path)} == warned


@pytest.mark.parametrize(
    ("shell", "script", "behind"),
    [
        ("bash", "rq worker -s -w app.Safe train", False),  # it becomes its last command
        ("bash", "migrate && rq worker -s -w app.Safe train", False),
        ("bash", "rq worker -s -w app.Safe train; echo over", True),
        ("bash", "rq worker -s -w app.Safe train | tee log", True),
        ("bash", "rq worker -s -w app.Safe train &", True),
        ("bash", "rq worker -s -w app.Safe train 2>&1", True),  # it comes back to undo the redirection
        ("bash", "exec rq worker -s -w app.Safe train 2>&1", False),
        ("bash", "exec rq worker -s -w app.Safe train > >(tee log)", False),
        ("bash", "(rq worker -s -w app.Safe train)", True),
        ("bash", "time rq worker -s -w app.Safe train", True),
    ],
)
def test_a_shell_that_becomes_its_last_command_stands_in_nobodys_way(
    shell: str, script: str, behind: bool, tmp_path: Path
) -> None:
    found = cautions(f'command: [{shell}, -c, "{script}"], safeStop: true', tmp_path)

    assert ("safe-stop.behind-shell" in found) is behind


@pytest.mark.parametrize(
    ("options", "warned"),
    [
        ("--prefetch-multiplier, '4'", {"source.prefetch": "write --prefetch-multiplier 1"}),
        ("--prefetch-multiplier=0", {"source.prefetch": "holds tasks that no other worker can take"}),
        ("--prefetch-multiplier=1", {}),
        ("--prefetch-multiplier=4, --disable-prefetch", {}),
        ("'--autoscale=1,6'", {"source.tasks-at-once": "runs 6 tasks at once"}),
        ("'--autoscale=10,9'", {"source.tasks-at-once": "runs 10 tasks at once"}),
        ("-c, auto", {}),
        ("-X, 'mail,train'", {"source.other-queues": "do not serve train,"}),
        ("--purge", {"command.purges-queue": "--purge deletes the waiting tasks"}),
        ("-B", {"command.beat-in-worker": "--beat sends each scheduled task once per worker"}),
        ("-D", {"command.ends-by-itself": "--detach ends the process"}),
        ("-P, gevent", {"safe-stop.untried-pool": "--pool gevent"}),
        ("--time-limit, '43201'", {"command.longer-than-job": "longestJob, 12h"}),
        ("--time-limit, '43200', --soft-time-limit, '90000'", {}),
        ("--max-tasks-per-child, '10', -O, fair, -E, --without-gossip, -l, INFO, -n, 'w@%h'", {}),
        ("--of-another-release, value, --purge", {"command.purges-queue": ""}),
    ],
)
def test_a_command_of_celery_that_contradicts_its_pool_is_warned_about(
    options: str, warned: dict[str, str], tmp_path: Path
) -> None:
    command = f"command: [celery, -A, app, worker, {options}], safeStop: true"

    found = cautions(command, tmp_path, source=CELERY)

    assert found.keys() == warned.keys()
    assert all(words in found[code] for code, words in warned.items())


@pytest.mark.parametrize(
    ("broker", "other"),
    [
        ("redis://redis.example.com:6379/0", False),
        ("rediss://redis.example.com/", False),
        ("redis://redis.example.com:6379/2", True),
        ("redis://cache.example.com:6379/0", True),
        ("not an address", False),
    ],
)
def test_a_broker_is_compared_with_the_redis_of_the_stack(broker: str, other: bool, tmp_path: Path) -> None:
    more = "ebbtide:redis: { kind: url, url: 'redis://redis.example.com' }"
    command = f"command: [celery, -b, '{broker}', worker, -Q, train]"

    found = cautions(command, tmp_path, source=CELERY, more=more)

    assert ("command.other-redis" in found) is other


@pytest.mark.parametrize(
    ("source", "keys", "code", "path"),
    [
        (CELERY, "env: { REMAP_SIGTERM: SIGQUIT }", "safe-stop.cold", "env.REMAP_SIGTERM"),
        (CELERY, "command: [env, REMAP_SIGTERM=SIGQUIT, celery, worker]", "safe-stop.cold", "command"),
        (CELERY, "env: { CELERY_BROKER_READ_URL: 'redis://a' }", "command.other-redis", "env.CELERY_BROKER_READ_URL"),
        ("queues: [train]", "env: { RQ_KEY_PREFIX: ml }", "command.other-keys", "env.RQ_KEY_PREFIX"),
        (
            "queues: [train]",
            "command: [rq, worker, -s, train], env: { RQ_WORKER_CLASS: rq.Worker }",
            "safe-stop.own-class",
            "env.RQ_WORKER_CLASS",
        ),
        (CELERY, "command: [CELERY_WORKER_PREFETCH_MULTIPLIER=4, celery, worker]", "source.prefetch", "command"),
        ("queues: [train]", "args: [--burst]", "command.ends-by-itself", "args"),  # with Ebbtide's own command
    ],
)  # fmt: skip
def test_variables_and_arguments_are_read_where_they_are_written(
    source: str, keys: str, code: str, path: str, tmp_path: Path
) -> None:
    found = cautions(f"{keys}, safeStop: true", tmp_path, source=source)

    assert {*found} == {code}
    assert found[code].startswith(f"workers.train.{path}: ")


@pytest.mark.parametrize(
    ("variable", "value", "code"),
    [
        ("CELERY_WORKER_CONCURRENCY", "4", "source.tasks-at-once"),
        ("CELERY_WORKER_PREFETCH_MULTIPLIER", "4", "source.prefetch"),
        ("CELERY_WORKER_QUEUES", "high,low", "source.other-queues"),
        ("CELERY_WORKER_PURGE", "true", "command.purges-queue"),
        ("BROKER_URL", "redis://a", "command.other-redis"),
        ("CELERY_BROKER", "redis://a", "command.other-redis"),
    ],
)
def test_the_variables_of_celerys_options_count_like_the_options(
    variable: str, value: str, code: str, tmp_path: Path
) -> None:
    in_env = cautions(f"command: [celery, worker], env: {{ {variable}: '{value}' }}", tmp_path, source=CELERY)
    in_front = cautions(f"command: [env, '{variable}={value}', celery, worker]", tmp_path, source=CELERY)

    assert {*in_env} == {*in_front} == {code}


@pytest.mark.parametrize(
    "keys",
    [
        "command: [rq, worker, -s, train], env: { RQ_WORKER_CLASS: { secret: s, key: k } }",
        "command: [rq, worker, -s, train], envFrom: [{ configMap: worker }]",
        "command: [rq, worker, -s, train], env: { RQ_WORKER_CLASS: app.Safe }",
        "command: [celery, worker, -c, '1'], env: { CELERY_WORKER_CONCURRENCY: '4' }",
        "command: [celery, worker], env: { CELERY_WORKER_CONCURRENCY: '4', CELERY_WORKER_POOL: solo }",
        "command: [celery, worker], env: { CELERY_WORKER_PURGE: 'false', CELERY_WORKER_BEAT: '' }",
        "command: [celery, worker], env: { CELERY_WORKER_CONCURRENCY: { secret: s, key: k } }",
        "command: [/app/start.sh], env: { BROKER_URL: 'redis://a' }",
        "args: [worker, --burst, high], env: { REMAP_SIGTERM: SIGQUIT }",
    ],
)
def test_what_cannot_be_read_is_not_warned_about(keys: str, tmp_path: Path) -> None:
    lists = "kind: list, queues: [train]" if keys.startswith("args") else "queues: [train]"
    source = CELERY if "celery" in keys or "BROKER" in keys else lists

    assert cautions(f"{keys}, safeStop: true", tmp_path, source=source) == {}


@pytest.mark.parametrize(("seconds", "warned"), [(30, False), (90, True)])
def test_a_job_with_checkpoints_goes_on_soon_after_a_loss(seconds: int, warned: bool, tmp_path: Path) -> None:
    command = f"command: [rq, worker, {SAFE}, --job-monitoring-interval, '{seconds}', train], safeStop: true"
    checkpoints = "checkpoints: { store: s3://acme-checkpoints, every: 5m, saveWithin: 90s }"

    assert cautions(command, tmp_path) == {}
    found = cautions(f"{command}, {checkpoints}", tmp_path)

    assert found.keys() == ({"command.seldom-cleans"} if warned else set())
    assert all("60 s later" in text for text in found.values())


def test_the_only_worker_may_send_the_schedule(tmp_path: Path) -> None:
    text = shortest(train="min: 1, command: [celery, -A, app, worker, -B]").replace("max: 4", "max: 1")

    found = warnings_of(loaded(text.replace("queues: [train]", CELERY), tmp_path))

    assert "command.beat-in-worker" not in {caution.code for caution in found}


def test_without_a_promise_of_a_safe_stop_none_is_broken(tmp_path: Path) -> None:
    assert cautions("command: [sh, -c, 'rq worker -s train']", tmp_path) == {}
    assert (
        cautions("command: [celery, worker, -P, gevent], env: { REMAP_SIGTERM: SIGQUIT }", tmp_path, source=CELERY)
        == {}
    )


def test_a_password_in_an_address_is_not_shown(tmp_path: Path) -> None:
    found = cautions("command: [rq, worker, -u, 'redis://me:hunter2@other/3', train]", tmp_path)

    assert "hunter2" not in found["command.other-redis"]


def test_an_idle_worker_must_look_while_the_controller_keeps_it_for_that() -> None:
    assert JANITOR_PATIENCE.total_seconds() == CLEANED_WITHIN + 60


WORD = st.sampled_from(
    ["sh", "bash", "-c", "rq", "worker", "celery", "-Q", "--", "-n", "$(A)", "--url=x", "a=b", "-bsw", "'"]
)
SCRIPT = st.sampled_from(
    ["rq worker a; celery worker", "exec rq worker -c 'a b'", "rq worker | (cat)", "rq worker \\\n a > b"]
)
WORDS = st.lists(WORD | SCRIPT | st.text(max_size=12), max_size=9)


@given(WORDS)
def test_no_command_is_too_strange_to_be_read(words: list[str]) -> None:
    command = read_command(words, OPTIONS)

    assert command is None or all(value is None or "$" not in value for value in command.options.values())
