"""Worker commands and variables that contradict their pool.

`OPTIONS` lists every option of the programs that start workers, of RQ 2.12 and 3.0, django-rq 4.2 and Celery 5.7, and
the variables that decide a promise of a pool. A row without a code keeps every promise, or nothing here shows whether
it does: workers report what only they know (`ebbtide.jobs.busy_report`).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from ebbtide.settings.file.problems import Caution
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.redis import IN_CLUSTER_REDIS, RedisKind
from ebbtide.settings.sections.workers import REDIS_ENV, STOP_MARGIN, SourceKind, WorkerSettings
from ebbtide.settings.worker_command import (
    ANY_RQ,
    SAFE_WORKER,
    CommandOption,
    WorkerCommand,
    WorkerProgram,
    read_command,
    worker_command,
)
from ebbtide.text.durations import format_duration

CLEANED_WITHIN = 600
"""In seconds. A minute later the controller stops keeping a worker for the jobs of lost workers."""

_BEAT = 30  # seconds between the heartbeats of a job in RQ
_POPS = 15  # seconds by which an idle worker's pop is shorter than its time to live
_RQ, _RQ_POOL, _CELERY = WorkerProgram.RQ, WorkerProgram.RQ_POOL, WorkerProgram.CELERY
_DJANGO = WorkerProgram.DJANGO_RQ | WorkerProgram.DJANGO_RQ_POOL
_ONE_RQ = WorkerProgram.RQ | WorkerProgram.DJANGO_RQ
_RQS_OWN_CLASS = re.compile(
    r"rq(\.worker)?(\.base|\.worker_classes)?\.((Simple|Spawn|Heroku|RoundRobin|Random)?Worker|BaseWorker)"
)
_UNTRIED_POOLS = ("eventlet", "gevent")
_NOT_SET = frozenset({"0", "false", "f", "no", "n", "off"})
_ONE_AT_ONCE = "solo"  # Celery's pool that runs one task, regardless of --concurrency
_REMEDY = f"write --worker-class {SAFE_WORKER}, or safeStop: false"
_KINDS = {SourceKind.RQ: ANY_RQ, SourceKind.CELERY: _CELERY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A value of an option or a variable, and its pool; `shown` is how the file spells it."""

    value: str
    shown: str
    pool: WorkerSettings
    settings: StackSettings
    values: Mapping[str, str | None]  # of the command's other options

    @property
    def number(self) -> int | None:
        return int(self.value) if re.fullmatch(r"-?\d{1,9}", self.value) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionRule(CommandOption):
    """`variable` has the option's meaning if the command line lacks it; `verdict` returns the caution's text or ""."""

    variable: str = ""
    code: str = ""
    verdict: Callable[[Seen], str] = lambda _: ""

    @property
    def variables(self) -> tuple[str, ...]:
        """Variables with the option's meaning; the first one that is set counts. Click derives one for Celery."""
        if self.programs is not _CELERY or not self.names:
            return (self.variable,) if self.variable else ()
        if self.variable:  # an option of `celery` itself
            return self.variable, f"CELERY_{_upper(self.names[0])}"
        return (f"CELERY_WORKER_{_upper(self.names[0])}",)


def command_cautions(settings: StackSettings) -> Iterator[Caution]:
    """Yield a caution for each contradiction between a pool and what starts its workers."""
    for name, pool in settings.workers.items():
        path = f"workers.{name}.{'command' if pool.command or not pool.args else 'args'}"
        command = read_command((*worker_command(pool), *pool.args), OPTIONS)
        if command is not None and command.program not in _KINDS.get(pool.source.kind, WorkerProgram(0)):
            text = (
                f"it starts workers of another framework than source.kind, {pool.source.kind}: nothing takes the jobs"
            )
            yield Caution("command.other-framework", path, text)
            continue
        yield from _contradictions(f"workers.{name}", path, command, pool, settings)
        if command is not None:
            yield from (Caution(code, path, text) for code, text in _about_all_words(command, pool))


def _contradictions(
    entry: str, path: str, command: WorkerCommand | None, pool: WorkerSettings, settings: StackSettings
) -> Iterator[Caution]:
    programs = _KINDS.get(pool.source.kind, WorkerProgram(0)) if command is None else command.program
    rows = {
        row: found
        for row in OPTIONS
        if row.programs & programs
        and (command is not None or not row.names)
        and (found := stated(row, command, pool)) is not None
    }
    values = {row.names[0]: value for row, (_, value) in rows.items() if row.names}
    for row, (shown, value) in rows.items():
        if value is None or not row.code:
            continue
        in_env = shown not in row.names and (command is None or shown not in command.variables)
        seen = Seen(value=value, shown=shown, pool=pool, settings=settings, values=values)
        if text := row.verdict(seen):
            yield Caution(row.code, f"{entry}.env.{shown}" if in_env else path, text)


def stated(row: OptionRule, command: WorkerCommand | None, pool: WorkerSettings) -> tuple[str, str | None] | None:
    """Return the option or variable that counts for a row and its value, which is None if it cannot be read."""
    if command is not None and row.names and row.names[0] in command.options:
        return row.names[0], command.options[row.names[0]]
    assigned: Mapping[str, str | None] = {} if command is None else command.variables
    for name in row.variables:
        if name in assigned or name in pool.env:
            value = assigned[name] if name in assigned else pool.env[name].value
            if value == "" or (row.is_flag and value is not None and value.lower() in _NOT_SET):
                continue  # click ignores both
            return name, "" if row.is_flag and value is not None else value
    return None


def _about_all_words(command: WorkerCommand, pool: WorkerSettings) -> Iterator[tuple[str, str]]:
    """Yield the contradictions of a missing option, of the arguments and of the shell."""
    if command.program in _ONE_RQ and "--with-scheduler" not in command.options:
        yield (
            "rq.no-scheduler",
            (
                "this rq worker moves no scheduled job to its queue, nor one that is retried after an interval, and no "
                "other process does: add --with-scheduler"
            ),
        )
    if text := _other_queues(_queues(command, pool), pool):
        yield "source.other-queues", text
    if not pool.safe_stop:
        return
    if command.program in _RQ | _RQ_POOL and _has_no(command, pool, "--worker-class", "RQ_WORKER_CLASS"):
        text = (
            f"safeStop is true, and RQ's own worker class loses a job that it has just taken when it stops: {_REMEDY}"
        )
        yield "safe-stop.own-class", text
    if command.behind_shell:
        text = (
            "safeStop is true, and a shell such as Debian's sh keeps the SIGTERM to itself, so the worker is killed "
            "with its job: write exec in front of the worker's program, or leave the shell out"
        )
        yield "safe-stop.behind-shell", text


def _queues(command: WorkerCommand, pool: WorkerSettings) -> tuple[str, ...]:
    """Return the queues that its workers serve, or () if they cannot be read."""
    if command.program is _CELERY:
        _, queues = stated(_CELERY_QUEUES, command, pool) or ("", None)
        return _listed(queues or "")
    if command.arguments == () and not _has_no(command, pool, "--config", "RQ_CONFIG"):
        return ()
    return ("default",) if command.arguments == () else command.arguments or ()


def _has_no(command: WorkerCommand, pool: WorkerSettings, option: str, variable: str) -> bool:
    return not (option in command.options or variable in command.variables or variable in pool.env or pool.env_from)


def _upper(option: str) -> str:
    return option.strip("-").replace("-", "_").upper()


def _listed(value: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip())


# --- verdicts ---------------------------------------------------------------------------------------------------------


def _other_queues(served: tuple[str, ...], pool: WorkerSettings) -> str:
    if not served or {*served} == {*pool.source.queues}:
        return ""
    return (
        f"its workers serve {', '.join(served)}, and the pool counts {', '.join(pool.source.queues)}: jobs of a "
        "queue that only one of them names wait without a worker, or run uncounted"
    )


def _always(text: str) -> Callable[[Seen], str]:
    return lambda seen: f"{seen.shown} {text}"


def _ends(when: str) -> Callable[[Seen], str]:
    return lambda seen: (
        f"{seen.shown} ends the worker {when}, and Kubernetes starts its container again after pauses of up to 5 "
        "minutes, in which jobs wait and the pod counts as crashing; leave it out: the controller removes idle workers"
    )


def _ends_after_jobs(seen: Seen) -> str:
    return _ends(f"after {seen.value} jobs")(seen)


def _one_name(seen: Seen) -> str:
    return (
        f"{seen.shown} {seen.value} is the same in all pods: RQ refuses a second worker of that name, and for minutes "
        "the next one after a hard kill; leave it out"
    )


def _seldom_cleans(seen: Seen) -> str:
    """Return a text for RQ's own class: the safe worker looks every few seconds, whatever its options are."""
    worker_class = seen.values.get("--worker-class", "")
    if worker_class is None or (worker_class and not _RQS_OWN_CLASS.fullmatch(worker_class)):
        return ""
    most = CLEANED_WITHIN + (_POPS if seen.shown == "--worker-ttl" else 0)
    if seen.number is None or seen.number <= most:
        return ""
    return (
        f"with {seen.shown} {seen.number} an idle worker looks too rarely for jobs of lost workers: the controller "
        f"keeps a worker for them for 11 minutes; write at most {most}"
    )


def _seldom_beats(seen: Seen) -> str:
    if seen.pool.checkpoints is None or seen.number is None or seen.number <= _BEAT:
        return ""
    return (
        f"with {seen.shown} {seen.number} a job of a lost worker resumes {seen.number - _BEAT} s later than with RQ's "
        f"default of {_BEAT}"
    )


def _results_stay(seen: Seen) -> str:
    if seen.number is None or seen.number >= 0:
        return ""
    return (
        f"{seen.shown} {seen.number} keeps every result forever, and a full Redis takes no job; write seconds, for "
        "example 500"
    )


def _other_redis(seen: Seen) -> str:
    address = _address(seen.value)
    ours, in_broker = seen.settings.redis, seen.settings.broker_of(seen.pool)
    if in_broker is not None and in_broker.workers is not None and re.match(r"(py)?amqps?://", seen.value):
        where = seen.pool.source.broker
        return f"{seen.shown} replaces the address with the workers' login of broker {where}; leave it out"
    if address is None:
        return ""
    host, port, database = address
    if (broker := seen.pool.source.broker) is not None:
        return f"{seen.shown} points to Redis at {host}:{port}, but the pool counts the tasks in broker {broker}"
    if ours.kind is RedisKind.URL and ours.url is not None:
        same = address == _address(ours.url)
    elif ours.kind is RedisKind.IN_CLUSTER:
        same = host.partition(".")[0] == IN_CLUSTER_REDIS and (port, database) == (6379, "0")
    else:
        same = host.endswith((".amazonaws.com", ".amazonaws.com.cn"))  # its name is known once it exists
    if same:
        return ""
    return (
        f"{seen.shown} points to {host}:{port}, database {database}, but the pool counts the jobs in the stack's "
        f"Redis; leave it out: {REDIS_ENV[seen.pool.source.kind]} has the address"
    )


def _address(url: str) -> tuple[str, int, str] | None:
    """Return host, port and database, or None for text that is no complete address of a Redis."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in ("redis", "rediss") or not parts.hostname:
        return None
    database = parts.path.strip("/") or parse_qs(parts.query).get("db", ["0"])[0]
    return parts.hostname, port or 6379, database


def _own_class(seen: Seen) -> str:
    if not seen.pool.safe_stop or not _RQS_OWN_CLASS.fullmatch(seen.value):
        return ""
    return (
        f"safeStop is true, and {seen.shown} {seen.value} is RQ's own class, which loses a job that it has just taken "
        f"when it stops: {_REMEDY}"
    )


def _other_prefix(seen: Seen) -> str:
    if seen.value == "rq":
        return ""
    return f"{seen.shown} {seen.value} moves all jobs to keys that the pool does not count; leave it out"


def _at_once(count: str, seen: Seen, option: str, jobs: str) -> str:
    ours = seen.pool.jobs_per_worker
    if not count.isdecimal() or int(count) <= ours or seen.values.get("--pool") == _ONE_AT_ONCE:
        return ""
    return (
        f"each worker runs {count} {jobs} at once, and the pool counts {ours} per worker: write "
        f"{option} {ours}, or jobsPerWorker: {count} if a pod has CPU and memory for as many"
    )


def _autoscaled(seen: Seen) -> str:
    return _at_once(
        max(_listed(seen.value), key=lambda number: number.zfill(9), default=""), seen, "--concurrency", "tasks"
    )


def _concurrent(seen: Seen) -> str:
    return "" if "--autoscale" in seen.values else _at_once(seen.value, seen, "--concurrency", "tasks")


def _prefetches(seen: Seen) -> str:
    if seen.number in (None, 1) or "--disable-prefetch" in seen.values:  # 0 is no limit
        return ""
    return (
        f"with {seen.shown} {seen.value} each worker holds tasks that no other worker can take, so they wait for it "
        f"while new workers find an empty queue; write {seen.shown} 1, or --disable-prefetch"
    )


def _excludes(seen: Seen) -> str:
    excluded = [name for name in _listed(seen.value) if name in seen.pool.source.queues]
    return f"its workers do not serve {', '.join(excluded)}, whose jobs the pool counts" if excluded else ""


def _untried_pool(seen: Seen) -> str:
    if not seen.pool.safe_stop or seen.value not in _UNTRIED_POOLS:
        return ""
    return (
        f"safeStop is true, but stopping a worker with {seen.shown} {seen.value} was not tested; with prefork, solo "
        "and threads no task is lost"
    )


def _outlives_grace(seen: Seen) -> str:
    seconds, longest = seen.value, seen.pool.longest_job
    if not re.fullmatch(r"\d{1,9}(\.\d*)?", seconds) or float(seconds) <= longest.total_seconds():
        return ""
    return (
        f"with {seen.shown} {seconds} a task may run longer than longestJob, {format_duration(longest)}; a worker that "
        f"stops is killed {format_duration(STOP_MARGIN)} after that; raise longestJob, or lower {seen.shown}"
    )


def _sends_the_schedule(seen: Seen) -> str:
    if seen.pool.min == seen.pool.max == 1:
        return ""
    return (
        f"{seen.shown} sends each scheduled task once per worker, and none while the pool has no worker; run celery "
        "beat as a workload with one replica"
    )


def _cold_stop(seen: Seen) -> str:
    if not seen.pool.safe_stop or seen.value != "SIGQUIT":
        return ""
    return f"safeStop is true, and with {seen.shown}={seen.value} Celery cancels running tasks on SIGTERM; leave it out"


# --- the table --------------------------------------------------------------------------------------------------------


def _row(
    programs: WorkerProgram,
    names: str,
    code: str = "",
    verdict: Callable[[Seen], str] = lambda _: "",
    *,
    flag: bool = False,
    variable: str = "",
) -> OptionRule:
    return OptionRule(
        programs=programs, names=tuple(names.split()), is_flag=flag, variable=variable, code=code, verdict=verdict
    )


def _harmless(programs: WorkerProgram, *options: str, flags: tuple[str, ...] = ()) -> tuple[OptionRule, ...]:
    return (*(_row(programs, names) for names in options), *(_row(programs, names, flag=True) for names in flags))


_CELERY_QUEUES = _row(_CELERY, "--queues -Q")
"""Compared with the pool's queues together with RQ's arguments."""
_NO_SUCH_OPTION = _always("is no option of RQ 2.12 or newer, so no worker starts; leave it out")

OPTIONS: tuple[OptionRule, ...] = (
    # RQ and django-rq
    _row(ANY_RQ, "--burst -b", "command.ends-by-itself", _ends("when its queue is empty"), flag=True),
    _row(_ONE_RQ, "--max-idle-time", "command.ends-by-itself", _ends("without jobs")),
    _row(_ONE_RQ, "--max-jobs", "command.ends-by-itself", _ends_after_jobs),
    _row(_RQ, "--name -n", "command.one-name", _one_name),
    _row(WorkerProgram.DJANGO_RQ, "--name", "command.one-name", _one_name),
    _row(_RQ_POOL, "--num-workers -n", "source.tasks-at-once", lambda seen: _at_once(seen.value, seen, "-n", "jobs")),
    _row(
        WorkerProgram.DJANGO_RQ_POOL,
        "--num-workers",
        "source.tasks-at-once",
        lambda seen: _at_once(seen.value, seen, "--num-workers", "jobs"),
    ),
    _row(ANY_RQ, "--worker-class -w", "safe-stop.own-class", _own_class, variable="RQ_WORKER_CLASS"),
    _row(_ONE_RQ, "--with-scheduler -s", flag=True),
    _row(_RQ | _RQ_POOL, "--url -u", "command.other-redis", _other_redis),
    _row(_RQ | _RQ_POOL, "--config -c", variable="RQ_CONFIG"),
    _row(_ONE_RQ, "--worker-ttl", "command.seldom-cleans", _seldom_cleans),
    _row(_RQ, "--maintenance-interval", "command.seldom-cleans", _seldom_cleans),
    _row(_RQ, "--job-monitoring-interval", "command.seldom-cleans", _seldom_beats),
    _row(_RQ, "--results-ttl", "command.results-stay", _results_stay),
    _row(_RQ | _RQ_POOL, "--sentry-dsn", "command.no-such-option", _NO_SUCH_OPTION),
    _row(_RQ | _RQ_POOL, "--sentry-ca-certs", "command.no-such-option", _NO_SUCH_OPTION),
    _row(_RQ | _RQ_POOL, "--sentry-debug", "command.no-such-option", _NO_SUCH_OPTION),
    *_harmless(
        _RQ,
        "--logging_level",
        "--pid",
        "--dequeue-strategy -ds",
        flags=("--disable-job-desc-logging", "--disable-default-exception-handler -d"),
    ),
    *_harmless(_RQ_POOL, "--logging-level -l"),
    *_harmless(
        _RQ | _RQ_POOL,
        "--log-format",
        "--date-format",
        "--exception-handler",
        "--serializer -S",
        "--path -P",
        "--connection-class",
        "--queue-class",
        "--job-class -j",
        flags=("--verbose -v", "--quiet -q"),
    ),
    *_harmless(
        _DJANGO,
        "--pid",
        "--queue-class",
        "--job-class",
        "--serializer",
        "--verbosity -v",
        "--settings",
        "--pythonpath",
        flags=("--traceback", "--no-color", "--force-color", "--skip-checks"),
    ),
    _row(ANY_RQ, "", "command.other-keys", _other_prefix, variable="RQ_KEY_PREFIX"),
    # Celery; options of `celery` itself, in front of `worker`, too
    _row(_CELERY, "--broker -b", "command.other-redis", _other_redis, variable="BROKER_URL"),
    _row(_CELERY, "", "command.other-redis", _other_redis, variable="CELERY_BROKER_READ_URL"),
    _row(_CELERY, "", "command.other-redis", _other_redis, variable="CELERY_BROKER_WRITE_URL"),
    _CELERY_QUEUES,
    _row(_CELERY, "--exclude-queues -X", "source.other-queues", _excludes),
    _row(_CELERY, "--concurrency -c", "source.tasks-at-once", _concurrent),
    _row(_CELERY, "--autoscale", "source.tasks-at-once", _autoscaled),
    _row(_CELERY, "--prefetch-multiplier", "source.prefetch", _prefetches),
    _row(_CELERY, "--disable-prefetch", flag=True),
    _row(_CELERY, "--pool -P", "safe-stop.untried-pool", _untried_pool),
    _row(_CELERY, "--time-limit", "command.longer-than-job", _outlives_grace),
    _row(
        _CELERY,
        "--purge --discard",
        "command.purges-queue",
        _always("deletes the waiting tasks whenever a worker starts, so each time that the pool grows; leave it out"),
        flag=True,
    ),
    _row(
        _CELERY,
        "--beat -B",
        "command.beat-in-worker",
        _sends_the_schedule,
        flag=True,
    ),
    _row(
        _CELERY,
        "--detach -D",
        "command.ends-by-itself",
        _always("ends the process that Kubernetes watches, and its container with it; leave it out"),
        flag=True,
    ),
    _row(_CELERY, "", "safe-stop.cold", _cold_stop, variable="REMAP_SIGTERM"),
    *_harmless(
        _CELERY,
        "--app -A",
        "--result-backend",
        "--loader",
        "--config",
        "--workdir",
        "--hostname -n",
        "--statedb -S",
        "--loglevel -l",
        "--optimization -O",
        "--soft-time-limit",
        "--max-tasks-per-child",
        "--pool-start-method",
        "--max-memory-per-child",
        "--include -I",
        "--heartbeat-interval",
        "--schedule-filename --schedule -s",
        "--scheduler",
        "--logfile -f",
        "--pidfile",
        "--uid",
        "--gid",
        "--umask",
        "--executable",
        flags=(
            "--no-color -C",
            "--quiet -q",
            "--skip-checks",
            "--task-events --events -E",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
        ),
    ),
)
