"""The part of a broker's plain consumer that does not depend on the broker: `amqp_worker` and `sqs_worker` use it.

`handle` runs in the main thread, one message at a time. A second thread owns the connection to the broker: it takes the
messages, keeps a running one alive and settles it. So a message may run for hours in any code, and signals reach the
main thread. An error of the broker, of whatever kind, is an outage: it neither ends the worker nor lets it report that
it is idle while `handle` runs.

SIGTERM: the running message is handled to its end and acknowledged, and the worker takes no other. A message that was
delivered and has not begun is returned. Further signals change nothing. A process that `handle` forks has the default
handlers, so that it can be ended. If `handle` raises, what happens to the message depends on the broker, and the worker
continues.

The worker reports to the Redis of `EBBTIDE_REDIS_URL` whether it is idle (`busy_report`). Without that variable it runs
and does not report.
"""

import json
import logging
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from queue import SimpleQueue
from socket import socket
from types import FrameType
from typing import Any, Protocol

from ebbtide.jobs.busy_report import BusyReport, NoReports, Reporter, reports_client
from ebbtide.jobs.consumer_timeout import stated_seconds
from ebbtide.jobs.stop_signals import WARM, ends_fork, stop_report

RETRY = 1.0  # seconds after an error of the broker
LOG_EVERY = 60.0  # seconds between two log lines about the same error

_log = logging.getLogger(__name__)


class Unavailable(Exception):
    """The broker cannot be used, and no longer holds a message for this worker. The text is one line for the log."""


class Outcome(Enum):
    DONE = "done"
    FAILED = "failed"  # `handle` raised
    RETURNED = "returned"  # it has not begun: another worker shall have it at once


@dataclass(frozen=True, slots=True)
class Message:
    """A delivered message. `handle` receives `payload`; `receipt` is the broker's own name of the delivery."""

    payload: bytes
    receipt: Any


class Waker:
    """Wakes the broker's thread. `wake` is safe in a signal handler; a call before the wait ends the wait at once."""

    def __init__(self) -> None:
        self._out, self._in = os.pipe()
        os.set_blocking(self._out, False)
        os.set_blocking(self._in, False)

    def wake(self) -> None:
        with suppress(BlockingIOError):  # the pipe is full
            os.write(self._in, b"\0")

    def wait(self, seconds: float, connection: socket | None = None) -> bool:
        """Wait for `wake` or for data on the connection; return True if there is data."""
        poll = select.poll()  # unlike select, without a limit of open files
        poll.register(self._out, select.POLLIN)
        if connection is not None:
            poll.register(connection, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(max(0.0, seconds) * 1000)}
        if self._out in ready:
            os.read(self._out, 4096)
            ready.remove(self._out)
        return bool(ready)


class Broker(Protocol):
    """A connection to one queue. Only the worker's second thread uses it. Each method but `close` may raise
    `Unavailable`. Another error means that the broker failed, and that it is not known whether it holds the message.
    """

    failed: str
    """The log's words for the outcome of a message whose `handle` raised, such as "it is rejected"."""

    def take(self, waker: Waker, /) -> Message | None:
        """Return the next message, or None after a few seconds or a call of `wake`. Connects if necessary."""
        ...

    def keep(self, message: Message, waker: Waker, /) -> None:
        """Keep the message from being delivered again, until `wake` is called or for a shorter time."""
        ...

    def settle(self, message: Message, outcome: Outcome, /, *, last: bool) -> None:
        """Give the message its outcome. `last`: the broker must deliver no other."""
        ...

    def close(self) -> None:
        """Close the connection. Raises nothing."""
        ...


class Consumer:
    """One worker. `environment` has the address for the reports; `problems` are sentences to warn of at the start."""

    def __init__(
        self,
        broker: Broker,
        queue: str,
        handle: Callable[[bytes], object],
        environment: Mapping[str, str] = os.environ,
        problems: Sequence[str] = (),
    ) -> None:
        self._broker, self._queue, self._handle, self._environment = broker, queue, handle, environment
        self._problems = problems
        self._waker = Waker()
        self._inbox: SimpleQueue[Message | None] = SimpleQueue()  # None ends the main thread
        self._outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self._pid = os.getpid()
        self._stopping = False
        self._active = self._held = self._received = 0
        self._report: BusyReport | None = None
        self._logged = ("", 0.0)  # the last error, and when it may be logged again

    def run(self) -> None:
        """Handle messages until SIGTERM or SIGINT. Call it from the main thread."""
        self._pid = os.getpid()  # the object may be older than a fork
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        for problem in self._problems:
            _log.warning("%s", problem)
        self._start_report()
        thread = threading.Thread(target=self._serve, name="ebbtide-broker", daemon=True)
        thread.start()
        try:
            while (message := self._inbox.get()) is not None:
                self._outcomes.put(self._outcome(message))
                self._waker.wake()
            thread.join()
        finally:  # also if `handle` ends the process by sys.exit
            if self._report is not None:
                self._report.finish()

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        if ends_fork(number, self._pid):
            return
        self._stopping = True
        self._waker.wake()
        if self._report is not None:
            self._report.stopping()

    def _outcome(self, message: Message) -> Outcome:
        try:
            self._handle(message.payload)
        except Exception:  # any error of a customer's code: the worker continues
            _log.exception("a message of %s failed: %s", self._queue, self._broker.failed)
            return Outcome.FAILED
        return Outcome.DONE

    # --- the thread of the broker ---------------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            while not self._stopping:
                self._serve_next()
            self._broker.close()
        finally:
            self._inbox.put(None)

    def _serve_next(self) -> None:
        try:
            message = self._broker.take(self._waker)
        except Exception as why:
            self._log_outage("no messages of %s, trying again: %s", why)
            self._waker.wait(RETRY)
            return
        if message is None:
            return
        self._active = self._held = 1
        self._received += 1
        self._changed()
        self._settle(message)
        self._active = self._held = 0
        self._changed()

    def _settle(self, message: Message) -> None:
        if self._stopping:
            outcome = Outcome.RETURNED
        else:
            self._inbox.put(message)
            outcome = self._await_outcome(message)
        if not self._held:
            return
        try:
            self._broker.settle(message, outcome, last=self._stopping)
        except Exception as why:
            if outcome is not Outcome.RETURNED:
                _log.warning(
                    "a message of %s ended and may run twice, it could not be settled: %s", self._queue, _text(why)
                )

    def _await_outcome(self, message: Message) -> Outcome:
        """Keep the message until `handle` has returned. A lost one runs on: to interrupt it would gain nothing."""
        while self._outcomes.empty():
            if not self._held:
                self._waker.wait(LOG_EVERY)
                continue
            try:
                self._broker.keep(message, self._waker)
            except Unavailable as why:
                self._held = 0
                self._changed()
                _log.warning(
                    "a message of %s runs on and will run twice, the broker delivers it again: %s", self._queue, why
                )
            except Exception as why:
                self._log_outage("a message of %s runs on and may run twice, trying again to keep it: %s", why)
                self._waker.wait(RETRY)
        return self._outcomes.get()

    def _log_outage(self, template: str, why: Exception) -> None:
        text, (logged, again_at) = _text(why), self._logged
        if text != logged or time.monotonic() >= again_at:
            self._logged = (text, time.monotonic() + LOG_EVERY)
            _log.warning(template, self._queue, text)

    # --- the report -----------------------------------------------------------------------------------------------

    def _start_report(self) -> None:
        try:
            reports_client(self._environment).close()  # it connects to nothing
        except NoReports as why:
            _log.warning(
                "%s: this worker does not report whether it is idle, so none of its pool's pods is known to be idle",
                why,
            )
            return
        self._report = BusyReport(
            Reporter(queues=(self._queue,)),
            lambda: reports_client(self._environment),
            lambda: self._active > 0,
            present=self._present,
        )
        self._report.start()

    def _present(self) -> dict[str, str | int]:
        settings = {
            "queues": [self._queue],
            "consumer_timeout": stated_seconds(self._environment),
            **stop_report(self._own_handler),
        }
        return {
            "active": self._active,
            "held": self._held,
            "received": self._received,
            "settings": json.dumps(settings),
        }

    def _own_handler(self, handler: Any) -> str | None:
        return WARM if handler == self._stop else None

    def _changed(self) -> None:
        if self._report is not None:
            self._report.changed()


def _text(error: Exception) -> str:
    return str(error) if isinstance(error, Unavailable) else repr(error)
