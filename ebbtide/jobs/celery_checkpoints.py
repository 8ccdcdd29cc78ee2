"""Base classes of tasks with checkpoints, in a Celery app with `celery_worker.install(app)`.

- The worker stops: the task saves at its next offer, and its message goes back to the head of its queue.
- The task's process is killed: the worker returns the message of a task that has had a checkpoint, or whose pool
  requires one, and counts no failure. After three hard ends without a new checkpoint the task fails.
- The entire worker is killed: Celery gives the message to another worker after the visibility timeout.

Celery counts no attempts: a message that comes back keeps its id, its arguments and its retries.
"""

# Celery is installed in the customer's image and in a separate test environment, so its types are not available here.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUntypedBaseClass=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

import logging
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from types import FrameType
from typing import Any, NoReturn

from billiard.einfo import ExceptionWithTraceback
from billiard.exceptions import WorkerLostError
from celery import Celery, Task, signals
from celery.exceptions import Ignore, Reject
from celery.worker.request import Request
from kombu.utils.imports import symbol_by_name
from redis import Redis
from redis.exceptions import RedisError

from ebbtide.jobs.checkpoints.attempts import (
    MOST_DEATHS,
    Hold,
    attempt_key,
    hopeless,
    may_begin_again,
    raise_if_superseded,
)
from ebbtide.jobs.checkpoints.environment import pool_checkpoints
from ebbtide.jobs.checkpoints.errors import CheckpointError, NeverOpened, Paused, Superseded
from ebbtide.jobs.checkpoints.in_process import Attempt, open_within
from ebbtide.jobs.checkpoints.probe import await_store
from ebbtide.jobs.checkpoints.shared_memory import StopFlag
from ebbtide.jobs.patience import Patience, make_patient

PAUSED, SUPERSEDED = "paused at a checkpoint", "another attempt is newer"

_log = logging.getLogger(__name__)
_stop = StopFlag()  # made when the app is imported, before the pool forks


def install(app: Celery) -> None:
    base = symbol_by_name(app.task_cls)
    app.task_cls = type("PausingTask", (PausingTask, base), {"abstract": True})
    app.__dict__.pop("Task", None)  # cached from the previous class
    signals.worker_init.connect(_await_store, weak=False)


def stop_tasks() -> None:
    """Make tasks save and end at their next offer. Safe in a signal handler."""
    _stop.set()


def _await_store(**_: Any) -> None:
    """Wait for the store before the pool forks and the first message is taken."""
    if pool_checkpoints() is None:
        return
    before = signal.signal(signal.SIGTERM, _leave)  # process 1 of a container would not get it without a handler
    await_store(lambda: False)
    signal.signal(signal.SIGTERM, before)


def _leave(_signum: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(0)


class RunningTask(Attempt):
    """One attempt of a task, for its checkpoint."""

    def __init__(self, app: Celery, task_id: str, delivery_tag: str) -> None:
        self._app = app
        self._tag = delivery_tag
        self._task_id = task_id

    @property
    def id(self) -> str:
        return self._task_id

    @cached_property
    def _channel(self) -> Any:
        """Channel that waits for Redis: a finished task must not fail because its attempt cannot be checked."""
        channel = self._app.connection_for_write().channel()
        if not hasattr(channel, "client"):
            raise CheckpointError("checkpoints of Celery's tasks need Redis as the broker")
        make_patient(channel.client, Patience())
        return channel

    @property
    def stopping(self) -> bool:
        return _stop.is_set

    def _held(self) -> tuple[Redis, Hold]:
        return self._channel.client, Hold(self._channel.unacked_key, self._tag)

    def raise_if_superseded(self) -> None:
        """Check the attempt. No lock: Celery itself stores the task's end right after."""
        if self.token is None:
            return
        raise_if_superseded(self.id, self.token, self._channel.client.hget(attempt_key(self.id), "token"))


class PausingTask(Task):
    """`app.Task` after `install`. A task with its own `base=` must derive from `app.Task` to have checkpoints."""

    abstract = True
    Request = "ebbtide.jobs.celery_checkpoints:PausingRequest"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tag = (self.request.properties or {}).get("delivery_tag") if not self.request.called_directly else None
        if tag is None:
            return super().__call__(*args, **kwargs)
        job = RunningTask(self.app, self.request.id, tag)
        try:
            with job.running(pool_checkpoints()):
                return self._publishable(job, *args, **kwargs)
        except Paused as why:
            _log.info("%s; it is at the head of its queue", why)
            raise Reject(PAUSED, requeue=True) from None
        except Superseded as why:
            _log.warning("task %s is left to its newer attempt: %s", job.id, why)
            raise Ignore(SUPERSEDED) from None
        except NeverOpened as why:
            raise CheckpointError(str(why)) from None

    def _publishable(self, job: RunningTask, *args: Any, **kwargs: Any) -> Any:
        """Return or raise the task's result or error, if no other attempt of it is newer."""
        try:
            result = self.run(*args, **kwargs)
        except Exception:
            with suppress(RedisError):  # the task's own error is more useful
                job.raise_if_superseded()
            raise
        job.raise_if_superseded()
        return result


class PausingRequest(Request):
    """Request of a pausing task, in the worker's process."""

    def on_failure(self, exc_info: Any, *args: Any, **kwargs: Any) -> Any:
        error = exc_info.exception
        if isinstance(error, ExceptionWithTraceback):
            error = error.exc
        if isinstance(error, Ignore) and SUPERSEDED in error.args:
            self._forget()
        if isinstance(error, WorkerLostError) and not self.acknowledged:
            error = exc_info.exception = self._after_a_hard_end(error)
        if isinstance(error, Reject) and error.reason == PAUSED:
            _RestoreFirst.of(self.message.channel, self.message.delivery_tag)
        return super().on_failure(exc_info, *args, **kwargs)

    def _forget(self) -> None:
        """Drop the message without acknowledging or returning it: the newer attempt holds it under the same number."""
        self.message.channel.qos._delivered.pop(self.message.delivery_tag, None)  # noqa: SLF001 - no public way
        self.acknowledged = True

    def _after_a_hard_end(self, error: Any) -> Any:
        """Restart a task that has had a checkpoint, or whose pool requires one."""
        client = getattr(self.message.channel, "client", None)
        if client is None:
            return error  # another broker than Redis: no task has checkpoints
        try:
            if open_within(pool_checkpoints()) is None and not client.exists(attempt_key(self.id)):
                return error
            if not may_begin_again(client, self.id, MOST_DEATHS):
                return CheckpointError(hopeless(self.id))
        except RedisError:
            return error
        _log.warning("task %s goes on: its process is gone", self.id)
        return Reject(PAUSED, requeue=True)


class _RestoreFirst:
    """Replacement for a channel's `restore_by_tag`: kombu returns a rejected message to the tail of its queue.

    Installed for the channel's lifetime, since the rejection comes later, from the event loop.
    """

    def __init__(self, restore: Callable[..., Any]) -> None:
        self._restore = restore
        self._first: set[Any] = set()

    def __call__(self, tag: Any, client: Any = None, leftmost: bool = False) -> Any:  # noqa: FBT001, FBT002 - kombu's signature
        first = tag in self._first
        self._first.discard(tag)
        return self._restore(tag, client=client, leftmost=leftmost and not first)

    @classmethod
    def of(cls, channel: Any, tag: Any) -> None:
        qos = channel.qos
        if hasattr(qos, "restore_by_tag"):  # a transport in memory has none
            if not isinstance(qos.restore_by_tag, cls):
                qos.restore_by_tag = cls(qos.restore_by_tag)
            qos.restore_by_tag._first.add(tag)  # noqa: SLF001 - our own
