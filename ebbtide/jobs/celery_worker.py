"""Make a Celery app's workers scalable: `ebbtide.jobs.celery_worker.install(app)`, one line where `app` is created.

It does six things. Messages carry the time they were sent, so that their wait is known. Workers report whether they
are idle (`busy_report`). Workers and producers report the settings that must match the controller and the stack file.
Producers on a message broker notify the controller (`published`). On SIGTERM a worker stops taking messages at once.
And, with Redis as the broker, a task does not run again because Redis was unavailable or full when it ended, or because
the worker's connection broke while it ran. `celery_transports` has the parts that depend on the broker.

The stock worker handles SIGTERM only at the next iteration of its event loop, up to a second later, and may take one
more message. While other tasks run it neither runs that message nor returns it: a job waits for hours in a pod that is
about to exit. And it forgets a task just sent to a prefork pool: the task runs, is not acknowledged, delays the exit by
30 s and runs again elsewhere. Here the signal wakes the event loop, a message of the last pop is returned at once, and
the worker waits until a task that was sent to the pool has begun.
"""

# Celery is installed in the customer's image and in a separate test environment, so its types are not available here.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUntypedBaseClass=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false

import json
import logging
import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

try:
    from celery import Celery, bootsteps, signals
    from celery.worker import state
    from kombu.asynchronous import get_event_loop
    from kombu.common import ignore_errors
    from kombu.exceptions import OperationalError
except ModuleNotFoundError as missing:
    if missing.name != "celery":
        raise
    text = "ebbtide.jobs.celery_worker needs Celery: install ebbtide-jobs[celery]"
    raise ModuleNotFoundError(text, name="celery") from None

from ebbtide.jobs import celery_checkpoints
from ebbtide.jobs.busy_report import BusyReport, Reporter
from ebbtide.jobs.celery_prefork import keep_sent_jobs, unaccepted
from ebbtide.jobs.celery_transports import REDIS_URL, RedisTransport, Transport, transport_of
from ebbtide.jobs.consumer_timeout import stated_seconds, timeout_problems
from ebbtide.jobs.published import Published
from ebbtide.jobs.stop_signals import COLD, WARM, stop_report

SENT = "ebbtide_sent"
BEGIN_WITHIN = 2.0  # seconds; Celery itself returns the tasks that wait for a busy pool
VISIBILITY = 3600.0  # seconds: Celery's own default
REMEMBERED = 86_400  # seconds that a queue's settings stay in Redis, for pools without workers
MOST_NAMES = 5  # of tasks in a report
REMIND = 3600.0  # seconds after which a producer writes them again

_log = logging.getLogger(__name__)


class StopTaking(bootsteps.StartStopStep):
    """Step before the consumer closes: take no more messages, and let tasks begin that the pool has not accepted."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, c: Any, **kwargs: Any) -> None:
        super().__init__(c, **kwargs)
        self._transport = transport_of(c.app)
        self._transport.before_consuming(c.app)

    def start(self, c: Any) -> None:
        self._transport.consuming(c.task_consumer.channel)
        keep_sent_jobs(c.pool)
        close = c.blueprint.on_close
        if not isinstance(close, _Closing):  # a consumer starts again whenever its connection was lost
            c.blueprint.on_close = _Closing(c, close, self._transport)


class _Closing:
    def __init__(self, c: Any, close: Callable[[], None] | None, transport: Transport) -> None:
        self._consumer = c
        self._close = close
        self._transport = transport

    def __call__(self) -> None:
        c = self._consumer
        if state.should_stop is not None and c.task_consumer is not None:
            ignore_errors(c, c.task_consumer.cancel)
            ignore_errors(c, lambda: self._transport.stop_taking(c.task_consumer.channel))
            if c.hub is not None:
                ignore_errors(c, lambda: _let_tasks_begin(c.hub))
        if self._close is not None:
            self._close()


def install(app: Celery) -> None:
    """Hook into the app's producers and workers. Call it once."""
    app.steps["consumer"].add(StopTaking)
    celery_checkpoints.install(app)
    hooks = _Hooks(app)
    signals.before_task_publish.connect(_stamp, weak=False)
    signals.before_task_publish.connect(hooks.publishing, weak=False)
    signals.after_task_publish.connect(hooks.published, weak=False)
    signals.worker_ready.connect(hooks.ready, weak=False)
    signals.task_received.connect(hooks.received, weak=False)
    signals.worker_shutting_down.connect(hooks.stopping, weak=False)
    signals.worker_shutdown.connect(hooks.left, weak=False)


class _Hooks:
    def __init__(self, app: Celery) -> None:
        self._app = app
        self._consumer: Any = None
        self._settings: dict[str, Any] = {}
        self._report: BusyReport | None = None
        self._published: dict[str, float] = {}
        self._notification = Published(lambda: self._transport.reports(app))
        self._received = 0

    @cached_property
    def _transport(self) -> Transport:
        """The address of the broker is known when the app is used, not when it is created."""
        return transport_of(self._app)

    def ready(self, sender: Any, **_: Any) -> None:
        self._consumer = sender
        if self._report is not None:
            return  # ready again after the connection was lost
        options = _options(self._app, sender, self._transport)
        for problem in (
            *unsafe_settings(self._app, self._transport),
            *self._transport.problems(options["pool"]),
            *timeout_problems(os.environ, options["time_limit"]),
            *_group_signal(options["pool"]),
        ):
            _log.warning("%s", problem)
        reported = settings(self._app, self._transport, sender.task_consumer.channel)
        self._settings = {**reported, **_places(self._app)}
        queues = tuple(self._app.amqp.queues.consume_from)
        facts = {"patience": self._settings.get("visibility_timeout", VISIBILITY), "queues": " ".join(queues)}
        reporter = Reporter(queues=queues, facts=facts)
        self._report = BusyReport(reporter, self._connect, self._is_busy, _wake_event_loop, self._present)
        self._report.start()

    @cached_property
    def _notifies(self) -> bool:
        """On Redis the controller tracks the queues themselves."""
        return bool(os.environ.get(REDIS_URL)) and not isinstance(self._transport, RedisTransport)

    def published(self, **_: Any) -> None:
        """Notify the controller: it asks a message broker only once a second."""
        if self._notifies:
            self._notification.publish()

    def publishing(self, declare: Sequence[Any] | None = None, **_: Any) -> None:
        """Store the producer's settings, which decide a task's list: a pool without workers has no other report."""
        if not isinstance(self._transport, RedisTransport):
            return
        now = time.monotonic()
        names = [queue.name for queue in declare or () if now - self._published.get(queue.name, -math.inf) > REMIND]
        if names:
            self._published |= dict.fromkeys(names, now)
            with suppress(RedisError, OSError, OperationalError), self._app.connection_for_write() as connection:
                self._remember(connection.channel(), names)

    def _remember(self, channel: Any, queues: Sequence[str]) -> None:
        with suppress(RedisError), Redis(connection_pool=channel.pool).pipeline() as pipe:
            for queue in queues:
                stored = json.dumps(settings(self._app, self._transport, channel))
                pipe.set(f"ebbtide:celery:{queue}", stored, ex=REMEMBERED)
            pipe.execute()

    def _is_busy(self) -> bool:
        """A task runs on after its connection was lost, although the worker no longer holds its message."""
        sent = unaccepted(self._consumer.pool)
        return bool(state.requests or state.active_requests or sent) or self._held() > 0

    def _present(self) -> dict[str, str | int]:
        """Return `held`, the messages that this worker holds, `active`, those that run or are about to, `received`,
        those since its start, and `settings`.

        Remote control changes options of a running worker, and a task's library may replace a handler.
        """
        reported = {
            **self._settings,
            **_options(self._app, self._consumer, self._transport),
            **stop_report(_own_handler),
        }
        return {
            "held": self._held(),
            "active": max(
                len(state.active_requests) + unaccepted(self._consumer.pool), int(bool(state.reserved_requests))
            ),
            "received": self._received,
            "settings": json.dumps(reported),
        }

    def _held(self) -> int:
        channel = getattr(self._consumer.task_consumer, "channel", None)  # none while it reconnects
        return max(self._transport.held(channel), len(state.requests))

    def received(self, **_: Any) -> None:
        self._received += 1
        if self._report is not None:
            self._report.changed()

    def stopping(self, **_: Any) -> None:
        """Notify the thread, which may take the event loop's locks; this runs in the signal handler."""
        celery_checkpoints.stop_tasks()
        if self._report is not None:
            self._report.stopping()

    def left(self, **_: Any) -> None:
        if self._report is not None:
            self._report.finish()

    def _connect(self) -> Redis:
        if isinstance(self._transport, RedisTransport):
            channel = self._app.connection_for_write().channel()
            self._remember(channel, tuple(self._app.amqp.queues.consume_from))
        return self._transport.reports(self._app)


def settings(app: Celery, transport: Transport, channel: Any) -> dict[str, Any]:
    """Return the settings that the controller compares with the stack file."""
    return {
        **transport.settings(channel),
        "acks_late": bool(app.conf.task_acks_late),
        "prefetch": transport.prefetch(app, app.conf.worker_prefetch_multiplier),
    }


def _options(app: Celery, consumer: Any, transport: Transport) -> dict[str, Any]:
    """Return this worker's effective options: options of the command line are not in the application's settings."""
    worker = consumer.controller
    early = [name for name, task in list(app.tasks.items()) if not name.startswith("celery.") and not task.acks_late]
    return {
        "queues": list(app.amqp.queues.consume_from),
        "concurrency": getattr(worker, "max_concurrency", None) or _processes(consumer.pool),
        "prefetch": transport.prefetch(app, worker.prefetch_multiplier),
        "pool": type(consumer.pool).__module__.rpartition(".")[2],
        "time_limit": worker.time_limit or 0,
        "purge": bool(getattr(worker, "purge", False)),
        "beat": getattr(worker, "beat", None) is not None,
        "cancels_on_loss": bool(app.conf.worker_cancel_long_running_tasks_on_connection_loss),
        "acks_early": sorted(early)[:MOST_NAMES] if app.conf.task_acks_late else [],
        "remapped": os.environ.get("REMAP_SIGTERM", ""),
        "consumer_timeout": stated_seconds(os.environ),
    }


def _processes(pool: Any) -> int:
    try:
        return pool.num_processes
    except AttributeError:
        return 0  # the worker ends, and the pool has ended before


def _places(app: Celery) -> dict[str, bool]:
    """Return whether tasks are read from another broker than they are sent to, and results stay in it forever."""
    read, write = app.connection_for_read(), app.connection_for_write()
    results: dict[str, Any] = getattr(app.backend, "connparams", {})
    beside = (results.get("host"), int(results.get("port") or 0)) == (
        write.hostname,
        write.port or write.transport.default_port,
    )
    return {
        "reads_elsewhere": read.as_uri() != write.as_uri(),
        "results_stay": beside and not app.conf.result_expires,
    }


def _group_signal(pool: str) -> list[str]:
    """Return a sentence if the container's first process signals the processes of running tasks, too."""
    init = stop_report(_own_handler).get("group")
    if init is None or pool != "prefork":
        return []
    return [f"{init} passes SIGTERM on to the process of a running task and ends it: it must signal only the worker"]


def _own_handler(handler: Any) -> str | None:
    """Recognise Celery's handlers, which are closures, by the names that it gives them."""
    return {"worker_Warm": WARM, "worker_Cold": COLD}.get(getattr(handler, "__name__", ""))


def unsafe_settings(app: Celery, transport: Transport) -> list[str]:
    """Return one sentence for each setting that makes this app's workers unsafe to scale."""
    problems: list[str] = []
    if not app.conf.task_acks_late:
        problems.append("task_acks_late is off: a running task cannot be seen, and is lost with its worker")
    if transport.prefetch(app, app.conf.worker_prefetch_multiplier) != 1:
        problems.append("worker_prefetch_multiplier is not 1: waiting tasks hide in busy workers")
    return problems


def _stamp(headers: dict[str, Any] | None = None, **_: Any) -> None:
    if headers is not None:
        headers[SENT] = time.time()


def _let_tasks_begin(hub: Any) -> None:
    """Wait for tasks that were sent to the pool and not yet accepted: the worker would forget them."""
    loop = hub.create_loop()
    deadline = time.monotonic() + BEGIN_WITHIN
    while any(task not in state.active_requests for task in state.reserved_requests) and time.monotonic() < deadline:
        next(loop)


def _wake_event_loop() -> None:
    loop = get_event_loop()
    if loop is not None:
        loop.call_soon(lambda: None)
