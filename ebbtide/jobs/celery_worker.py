"""Make a Celery app's workers scalable: `ebbtide.jobs.celery_worker.install(app)`, one line where `app` is created.

It does five things. Messages carry the time they were sent, so that their wait is known. Workers report whether they
are idle (`busy_report`). Workers and producers report the settings that must match the controller and the stack file.
On SIGTERM a worker stops taking messages at once. And a task does not run again because Redis was unavailable or full
when it ended, or because the worker's connection broke while it ran.

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
from queue import Empty
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
from ebbtide.jobs.patience import Patience
from ebbtide.jobs.stop_signals import COLD, WARM, stop_report

SENT = "ebbtide_sent"
BEGIN_WITHIN = 2.0  # seconds; Celery itself returns the tasks that wait for a busy pool
VISIBILITY = 3600.0  # seconds: Celery's own default
LAYOUT = ("global_keyprefix", "sep", "unacked_key", "unacked_index_key")  # attributes of a channel: names of its keys
REMEMBERED = 86_400  # seconds that a queue's settings stay in Redis, for pools without workers
MOST_NAMES = 5  # of tasks in a report
REMIND = 3600.0  # seconds after which a producer writes them again

_log = logging.getLogger(__name__)


class StopTaking(bootsteps.StartStopStep):
    """Step before the consumer closes: take no more messages, and let tasks begin that the pool has not accepted."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, c: Any, **kwargs: Any) -> None:
        super().__init__(c, **kwargs)
        self._running: list[Any] = []

    def start(self, c: Any) -> None:
        _await_redis(c.task_consumer.channel)
        _keep_running_tasks(c.task_consumer.channel, self._running)
        close = c.blueprint.on_close
        if not isinstance(close, _Closing):  # a consumer starts again whenever its connection was lost
            c.blueprint.on_close = _Closing(c, close)


class _Closing:
    def __init__(self, c: Any, close: Callable[[], None] | None) -> None:
        self._consumer = c
        self._close = close

    def __call__(self) -> None:
        c = self._consumer
        if state.should_stop is not None and c.task_consumer is not None:
            ignore_errors(c, c.task_consumer.cancel)
            ignore_errors(c, lambda: _read_last_pop(c.task_consumer.channel))
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
    signals.before_task_publish.connect(hooks.published, weak=False)
    signals.worker_ready.connect(hooks.ready, weak=False)
    signals.task_received.connect(hooks.changed, weak=False)
    signals.worker_shutting_down.connect(hooks.stopping, weak=False)
    signals.worker_shutdown.connect(hooks.left, weak=False)


class _Hooks:
    def __init__(self, app: Celery) -> None:
        self._app = app
        self._consumer: Any = None
        self._settings: dict[str, Any] = {}
        self._report: BusyReport | None = None
        self._published: dict[str, float] = {}

    def ready(self, sender: Any, **_: Any) -> None:
        self._consumer = sender
        if self._report is not None:
            return  # ready again after the connection was lost
        for problem in unsafe_settings(self._app):
            _log.warning("%s", problem)
        self._settings = {**settings(self._app, sender.task_consumer.channel), **_places(self._app)}
        queues = tuple(self._app.amqp.queues.consume_from)
        facts = {"patience": self._settings.get("visibility_timeout", VISIBILITY), "queues": " ".join(queues)}
        reporter = Reporter(queues=queues, facts=facts)
        self._report = BusyReport(reporter, self._connect, self._is_busy, _wake_event_loop, self._present)
        self._report.start()

    def published(self, declare: Sequence[Any] | None = None, **_: Any) -> None:
        """Store the producer's settings, which decide a task's list: a pool without workers has no other report."""
        now = time.monotonic()
        names = [queue.name for queue in declare or () if now - self._published.get(queue.name, -math.inf) > REMIND]
        if names:
            self._published |= dict.fromkeys(names, now)
            with suppress(RedisError, OSError, OperationalError), self._app.connection_for_write() as connection:
                self._remember(connection.channel(), names)

    def _remember(self, channel: Any, queues: Sequence[str]) -> None:
        if not hasattr(channel, "pool"):  # a transport in memory
            return
        with suppress(RedisError), Redis(connection_pool=channel.pool).pipeline() as pipe:
            for queue in queues:
                pipe.set(f"ebbtide:celery:{queue}", json.dumps(settings(self._app, channel)), ex=REMEMBERED)
            pipe.execute()

    def _is_busy(self) -> bool:
        return bool(state.requests) or self._held() > 0

    def _present(self) -> dict[str, str | int]:
        """Return `held`, the messages that this worker holds, `active`, those that run or are about to, and `settings`.

        Remote control changes options of a running worker, and a task's library may replace a handler.
        """
        reported = {**self._settings, **_options(self._app, self._consumer), **stop_report(_own_handler)}
        return {
            "held": self._held(),
            "active": max(len(state.active_requests), int(bool(state.reserved_requests))),
            "settings": json.dumps(reported),
        }

    def _held(self) -> int:
        """Count also messages that wait for their `eta` or a rate limit: `state.requests` may lack them."""
        consumer = self._consumer.task_consumer
        qos = getattr(getattr(consumer, "channel", None), "qos", None)  # none while it reconnects
        delivered = 0 if qos is None else len(qos._delivered) - len(qos._dirty)  # noqa: SLF001 - kombu counts them so
        return max(delivered, len(state.requests))

    def changed(self, **_: Any) -> None:
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
        # The broker's connections, since TLS, Sentinel and passwords are Celery's settings. Not its client, which adds
        # a global_keyprefix to HSET and SADD, but not to EXPIRE and EXISTS.
        channel = self._app.connection_for_write().channel()
        self._remember(channel, tuple(self._app.amqp.queues.consume_from))
        return Redis(connection_pool=channel.pool)


def settings(app: Celery, channel: Any) -> dict[str, Any]:
    """Return the settings that the controller compares with the stack file."""
    reported: dict[str, Any] = {name: getattr(channel, name) for name in LAYOUT if hasattr(channel, name)}
    if hasattr(channel, "priority_steps"):
        reported["priority_steps"] = sorted(channel.priority_steps)
        reported["visibility_timeout"] = float(channel.visibility_timeout)
    reported["acks_late"] = bool(app.conf.task_acks_late)
    reported["ack_emulation"] = bool(getattr(channel, "ack_emulation", True))
    reported["prefetch"] = 1 if app.conf.worker_disable_prefetch else app.conf.worker_prefetch_multiplier
    return reported


def _options(app: Celery, consumer: Any) -> dict[str, Any]:
    """Return this worker's effective options: options of the command line are not in the application's settings."""
    worker = consumer.controller
    early = [name for name, task in list(app.tasks.items()) if not name.startswith("celery.") and not task.acks_late]
    return {
        "queues": list(app.amqp.queues.consume_from),
        "concurrency": getattr(worker, "max_concurrency", None) or consumer.pool.num_processes,
        "prefetch": 1 if app.conf.worker_disable_prefetch else worker.prefetch_multiplier,
        "pool": type(consumer.pool).__module__.rpartition(".")[2],
        "time_limit": worker.time_limit or 0,
        "purge": bool(getattr(worker, "purge", False)),
        "beat": getattr(worker, "beat", None) is not None,
        "cancels_on_loss": bool(app.conf.worker_cancel_long_running_tasks_on_connection_loss),
        "acks_early": sorted(early)[:MOST_NAMES] if app.conf.task_acks_late else [],
        "remapped": os.environ.get("REMAP_SIGTERM", ""),
    }


def _places(app: Celery) -> dict[str, bool]:
    """Return whether tasks are read from another broker than they are sent to, and results stay in it forever."""
    read, write = app.connection_for_read(), app.connection_for_write()
    results: dict[str, Any] = getattr(app.backend, "connparams", {})
    beside = (results.get("host"), int(results.get("port") or 0)) == (write.hostname, write.port or write.default_port)
    return {
        "reads_elsewhere": read.as_uri() != write.as_uri(),
        "results_stay": beside and not app.conf.result_expires,
    }


def _own_handler(handler: Any) -> str | None:
    """Recognise Celery's handlers, which are closures, by the names that it gives them."""
    return {"worker_Warm": WARM, "worker_Cold": COLD}.get(getattr(handler, "__name__", ""))


def unsafe_settings(app: Celery) -> list[str]:
    """Return one sentence for each setting that makes this app's workers unsafe to scale."""
    problems: list[str] = []
    if not app.conf.task_acks_late:
        problems.append("task_acks_late is off: a running task is in no key of Redis, and is lost with its worker")
    if app.conf.worker_prefetch_multiplier != 1 and not app.conf.worker_disable_prefetch:
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


def _await_redis(channel: Any) -> None:
    """Make writes wait for Redis.

    The stock worker drops an acknowledgement that Redis does not accept, and the task runs again elsewhere. The pop has
    another connection pool: when it fails, Celery reconnects by itself.
    """
    if hasattr(channel, "pool"):  # a transport in memory has none
        channel.pool.set_retry(Patience())


def _keep_running_tasks(channel: Any, running_messages: list[Any]) -> None:
    """Keep the messages of running tasks when the connection breaks; a stock worker returns them, and they run twice.

    They stay in `unacked` and are acknowledged on the new connection when they end (`running_messages` come from the
    previous connection); if the worker dies, another worker finds them there.
    """
    qos = channel.qos
    for message in running_messages:
        message.channel = channel
        qos._delivered[message.delivery_tag] = message  # noqa: SLF001 - in `unacked` since the previous connection
    running_messages.clear()
    restore = qos.restore_unacked_once

    def restore_the_others(*args: Any, **kwargs: Any) -> None:
        if not state.should_terminate:  # otherwise they are interrupted, and must run again
            running = {request.message.delivery_tag for request in list(state.active_requests)}
            running_messages.extend(qos._delivered.pop(tag) for tag in running & qos._delivered.keys())  # noqa: SLF001
        restore(*args, **kwargs)

    qos.restore_unacked_once = restore_the_others


def _wake_event_loop() -> None:
    loop = get_event_loop()
    if loop is not None:
        loop.call_soon(lambda: None)


def _read_last_pop(channel: Any) -> None:
    """Read the last pop, which has no public function; without a consumer its message goes back to the queue."""
    if getattr(channel, "_in_poll", None):
        with suppress(Empty):
            channel._brpop_read()  # noqa: SLF001
