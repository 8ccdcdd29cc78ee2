"""Keep the messages that a worker holds hidden from the other workers of an SQS queue.

SQS hides a received message for the queue's visibility timeout, then delivers it again. Here the timeout of each held
message is renewed after a third of it, by `ChangeMessageVisibilityBatch`, until the worker no longer holds the message,
or until 12 hours after its receipt: SQS hides no message for longer. If the worker dies, the queue delivers the message
again after the rest of the timeout.
"""

# boto3 is installed in the customer's image and in a separate test environment, so its types are not available here.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false

import logging
import math
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

LONGEST = 12 * 3600.0  # seconds after its receipt that SQS hides a message at most
MARGIN = 10.0  # seconds between the receipt and our first look, and of rounding, at most
ASSUMED = 30.0  # seconds: AWS' default, for a queue whose timeout cannot be read: its messages are renewed at once
SHORT = 30.0  # seconds: below it, a few failed calls make a task run twice
REREAD = 60.0  # seconds after which a queue's timeout is read again
LOOK_EVERY = 0.5  # seconds between two calls of `renew`
RETRY = 1.0  # seconds after an error
IN_FLIGHT = 5.0  # seconds to wait for a renewal in flight
BATCH = 10  # messages of one call at most

# Of one message in an answer; other errors are tried again. A renewal does not bring such a message back.
_GONE = ("ReceiptHandleIsInvalid", "MessageNotInflight", "InvalidParameterValue")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Receipt:
    """One delivery of a message."""

    queue: str  # its URL
    handle: str


@dataclass(slots=True)
class _Kept:
    since: float
    due: float


class Visibility:
    """Renews the timeouts of held messages. `client_of` returns boto3's client for the URL of a queue."""

    def __init__(self, client_of: Callable[[str], Any]) -> None:
        self._client_of = client_of
        self._kept: dict[Receipt, _Kept] = {}
        self._timeouts: dict[str, tuple[float | None, float]] = {}  # by queue: seconds, and when they were asked for
        self._failing: set[str] = set()  # queues whose last call failed, so that each outage is logged once
        self._renewing = threading.Lock()

    @contextmanager
    def paused(self) -> Generator[None]:
        """Let no renewal hide a message that this thread returns to the queue meanwhile."""
        owned = self._renewing.acquire(timeout=IN_FLIGHT)
        try:
            yield
        finally:
            if owned:
                self._renewing.release()

    def timeout(self, queue: str, now: float) -> float:
        """Return the queue's visibility timeout in seconds, or AWS' default if it could never be read."""
        seconds, asked_at = self._timeouts.get(queue, (None, -math.inf))
        if now - asked_at < REREAD:
            return seconds or ASSUMED
        try:
            client = self._client_of(queue)
            answer = client.get_queue_attributes(QueueUrl=queue, AttributeNames=["VisibilityTimeout"])
            found = float(answer["Attributes"]["VisibilityTimeout"])
        except Exception as error:  # the library raises errors of any kind for an answer that is not of SQS
            if asked_at == -math.inf:
                _log.warning("the visibility timeout of %s is unknown, %.0f s are assumed: %s", queue, ASSUMED, error)
        else:
            if found < SHORT and found != seconds:
                _log.warning(
                    "the visibility timeout of %s is %.0f s: after a few failed calls its tasks run twice; "
                    "set it to at least %.0f s, for example 300",
                    queue,
                    found,
                    SHORT,
                )
            seconds = found
        self._timeouts[queue] = (seconds, now)
        return seconds or ASSUMED

    def renew(self, held: Callable[[], Iterable[Receipt]], now: float) -> set[Receipt]:
        """Renew the timeouts that are due, of the messages that `held` returns. Call it each `LOOK_EVERY`.

        Return the messages that the queue may have given to another worker. Raises nothing of the client's.
        """
        with self._renewing:
            gone = self._renew(set(held()), now)
            # A message that was acknowledged meanwhile is not gone.
            gone = gone.intersection(held()) if gone else gone
        for receipt in gone:
            _log.warning(
                "a message of %s is no longer hidden: the queue gives it to another worker, and its task runs twice",
                receipt.queue,
            )
        return gone

    def _renew(self, held: set[Receipt], now: float) -> set[Receipt]:
        self._kept = {receipt: kept for receipt, kept in self._kept.items() if receipt in held}
        for receipt in held - self._kept.keys():
            timeout = self.timeout(receipt.queue, now)
            is_hidden = self._timeouts[receipt.queue][0]  # for a time that is known, and not 0
            self._kept[receipt] = _Kept(now, now + timeout / 3 if is_hidden else now)
        due: dict[str, list[Receipt]] = {}
        for receipt, kept in self._kept.items():
            if kept.due <= now:
                due.setdefault(receipt.queue, []).append(receipt)
        gone: set[Receipt] = set()
        for queue, receipts in due.items():
            for first in range(0, len(receipts), BATCH):
                gone |= self._renew_batch(queue, receipts[first : first + BATCH], now)
        return gone

    def _renew_batch(self, queue: str, receipts: Sequence[Receipt], now: float) -> set[Receipt]:
        timeout = self.timeout(queue, now)
        hidden = {receipt: self._seconds(receipt, timeout, now) for receipt in receipts}
        faults = self._call(queue, hidden)
        gone: set[Receipt] = set()
        for receipt, seconds in hidden.items():
            code = faults.get(receipt)
            kept = self._kept[receipt]
            if code is None:
                kept.due = now + timeout / 3 if seconds >= timeout else self._last(queue, seconds)
            elif code.endswith(_GONE):
                kept.due = math.inf
                gone.add(receipt)
            else:
                kept.due = now + RETRY
        self._log_fault(queue, next((code for code in faults.values() if not code.endswith(_GONE)), ""))
        return gone

    def _call(self, queue: str, hidden: Mapping[Receipt, float]) -> Mapping[Receipt, str]:
        """Return the faults: one code or error text for each message that was not renewed."""
        entries = {
            str(place): {"Id": str(place), "ReceiptHandle": receipt.handle, "VisibilityTimeout": int(seconds)}
            for place, (receipt, seconds) in enumerate(hidden.items())
        }
        receipts = dict(zip(entries, hidden, strict=True))
        try:
            client = self._client_of(queue)
            answer = client.change_message_visibility_batch(QueueUrl=queue, Entries=[*entries.values()])
            return {receipts[failed["Id"]]: str(failed["Code"]) for failed in answer.get("Failed", [])}
        except Exception as error:  # as above
            return dict.fromkeys(hidden, str(error) or repr(error))

    def _seconds(self, receipt: Receipt, timeout: float, now: float) -> float:
        return max(1.0, min(timeout, LONGEST - MARGIN - (now - self._kept[receipt].since)))

    def _last(self, queue: str, seconds: float) -> float:
        _log.warning(
            "a message of %s stays hidden for %.0f s and no longer, since SQS hides none for more than 12 h: a task "
            "that runs longer runs twice",
            queue,
            seconds,
        )
        return math.inf

    def _log_fault(self, queue: str, why: str) -> None:
        if not why:
            self._failing.discard(queue)
        elif queue not in self._failing:
            self._failing.add(queue)
            _log.warning("the visibility of messages of %s was not extended, trying again: %s", queue, why)
