"""A scalable worker for one queue of SQS: `SqsWorker("scan", handle).run()`. `consumer` describes its life.

The queue is standard or FIFO. It exists already: the worker never creates it, and waits while it is absent. One message
is received at a time, stays hidden while `handle` runs, for at most 12 hours (`sqs_visibility`), and is deleted when
`handle` has returned. If `handle` raises, the message stays in the queue: SQS delivers it again after `AGAIN_AFTER`, or
the visibility timeout if it is shorter, until the queue's redrive policy moves it to a dead-letter queue. In a FIFO
queue the other messages of its group wait for that.

A stopping worker first waits for the answer of its long poll, `POLL_FOR` at most; a message of that answer goes back to
the queue. If SQS does not answer when a handled message is to be deleted, the worker tries for as long as the message
is hidden; after that it runs again.

Region, credentials and endpoint are those of boto3, for example from `AWS_DEFAULT_REGION` and EKS Pod Identity.
"""

# boto3 is installed in the customer's image and in a separate test environment, so its types are not available here.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false

import os
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

try:
    import boto3
except ModuleNotFoundError as missing:
    if missing.name != "boto3":
        raise
    text = "ebbtide.jobs.sqs_worker needs boto3: install ebbtide-jobs[sqs]"
    raise ModuleNotFoundError(text, name="boto3") from None
from botocore.config import Config
from botocore.exceptions import ClientError, NoRegionError

from ebbtide.jobs.consumer import RETRY, Consumer, Message, Outcome, Unavailable, Waker
from ebbtide.jobs.sqs_visibility import LOOK_EVERY, Receipt, Visibility

POLL_FOR = 5  # seconds
ANSWER_WITHIN = 5  # seconds to connect, and for an answer beyond the poll
AGAIN_AFTER = 30  # seconds, at most: a hidden message counts as a running job, so its pool would keep workers for it


class SqsWorker(Consumer):
    """One worker of the queue with this name. Raises ValueError if boto3 finds no region."""

    def __init__(
        self,
        queue: str,
        handle: Callable[[bytes], object],
        *,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        super().__init__(SqsQueue(queue), queue, handle, environment)


class SqsQueue:
    """The broker of a `Consumer`. A message's receipt is a `Receipt`."""

    failed = (
        f"it stays in the queue and is delivered again within {AGAIN_AFTER} s; a redrive policy of the queue limits "
        "how often"
    )

    def __init__(self, queue: str) -> None:
        settings = Config(
            connect_timeout=ANSWER_WITHIN, read_timeout=POLL_FOR + ANSWER_WITHIN, retries={"total_max_attempts": 2}
        )
        try:
            self._client: Any = boto3.client("sqs", config=settings)
        except NoRegionError:
            raise ValueError("AWS_DEFAULT_REGION: expected a region such as eu-central-1, got none") from None
        self._queue, self._url = queue, ""
        self._visibility = Visibility(lambda _: self._client)

    def take(self, _waker: Waker) -> Message | None:
        """Wait for the whole poll: a message of an abandoned one would stay hidden."""
        with self._unavailable():
            if not self._url:
                self._url = self._client.get_queue_url(QueueName=self._queue)["QueueUrl"]
            answer = self._client.receive_message(QueueUrl=self._url, MaxNumberOfMessages=1, WaitTimeSeconds=POLL_FOR)
        for found in answer.get("Messages", []):
            return Message(found["Body"].encode(), Receipt(self._url, found["ReceiptHandle"]))
        return None

    def keep(self, message: Message, waker: Waker) -> None:
        if self._visibility.renew(lambda: [message.receipt], time.monotonic()):
            raise Unavailable("it is no longer hidden")
        waker.wait(LOOK_EVERY)

    def settle(self, message: Message, outcome: Outcome, *, last: bool) -> None:
        del last  # SQS delivers nothing unasked
        place = {"QueueUrl": message.receipt.queue, "ReceiptHandle": message.receipt.handle}
        if outcome is Outcome.DONE:
            self._delete(place)
            return
        hidden_for = 0
        if outcome is Outcome.FAILED:
            hidden_for = min(AGAIN_AFTER, int(self._visibility.timeout(message.receipt.queue, time.monotonic())))
        with self._unavailable():
            self._client.change_message_visibility(**place, VisibilityTimeout=hidden_for)

    def close(self) -> None:
        self._client.close()

    def _delete(self, place: Mapping[str, str]) -> None:
        hidden_until = time.monotonic() + self._visibility.timeout(place["QueueUrl"], time.monotonic())
        while True:
            try:
                with self._unavailable():
                    self._client.delete_message(**place)
                return
            except Unavailable as why:
                if _is_refusal(why.__cause__) or time.monotonic() >= hidden_until:
                    raise
            time.sleep(RETRY)

    @contextmanager
    def _unavailable(self) -> Generator[None]:
        try:
            yield
        except self._client.exceptions.QueueDoesNotExist as error:
            self._url = ""
            where = self._client.meta.region_name
            raise Unavailable(f"queue {self._queue} is not in {where}: waiting until it is created") from error
        except Exception as error:  # the library raises errors of any kind for an answer that is not of SQS
            raise Unavailable(f"SQS: {' '.join(str(error).split())[:300]}") from error


def _is_refusal(error: object) -> bool:
    """Tell an answer that another try will not change from throttling, a fault of SQS or no answer."""
    if not isinstance(error, ClientError):
        return False
    answer: Any = error.response
    return answer["ResponseMetadata"]["HTTPStatusCode"] < 500 and "Throttl" not in answer["Error"]["Code"]
