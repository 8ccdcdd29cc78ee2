"""Queues of SQS: one call returns the counts of one queue.

SQS calls its counts approximate: `broker_rules.SQS` has the times for which zeros prove nothing. botocore finds the
pod's credentials (EKS Pod Identity, web identity, environment) and the address in `AWS_ENDPOINT_URL_SQS`. Its client
takes 14 MiB of memory: the controller's 53 become 67 (measured with 20 pools).
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, cast

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, NoCredentialsError, ReadTimeoutError

from controllers.adapters.broker_rules import SQS, Answer, Count, Missing
from controllers.one_line import one_line
from controllers.ports import Unknown
from ebbtide.vocabulary.controller_config import SqsEndpoint
from ebbtide.vocabulary.labels import CONTROLLER

TIMEOUT = 1.0  # seconds for each answer
POLL = 1.0  # seconds between two rounds

_CONFIG = Config(connect_timeout=TIMEOUT, read_timeout=TIMEOUT, retries={"total_max_attempts": 1})
_ATTRIBUTES = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
    "DelaySeconds",
)
_ABSENT = ("QueueDoesNotExist", "NonExistentQueue")
_DENIED = ("AccessDenied", "AccessDeniedException")
_MOST = 300  # characters of a text of AWS


class SqsBroker:
    """Reads SQS in one region. Messages whose delay is longer than `node_startup` do not wait for a worker yet."""

    timings = SQS
    pause = POLL

    def __init__(self, endpoint: SqsEndpoint, node_startup: timedelta) -> None:
        self._name, self._region, self._node_startup = endpoint.name, endpoint.region, node_startup
        self._session: Any = botocore.session.get_session()
        self._client: Any = None
        self._urls: dict[str, str] = {}

    def ask(self, queues: Sequence[str]) -> tuple[str, Mapping[str, Answer]]:
        """Return a constant link, since SQS has no connections that hold messages, and an answer for each queue."""
        link, answers = f"sqs {self._region}", dict[str, Answer]()
        try:
            self._log_in()
        except Exception as error:  # the providers of credentials raise any kind for answers that they cannot read
            why = (
                f"no AWS credentials: associate a role with the ServiceAccount {CONTROLLER}, and restart its pods if "
                "they are older than the association."
            )
            return link, dict.fromkeys(queues, Unknown(f"broker {self._name}: {why} {one_line(error)[:_MOST]}"))
        try:
            for queue in queues:
                answers[queue] = self._ask(queue)
        except Exception as error:  # botocore raises any kind for bytes that no SQS sends
            return link, {queue: answers.get(queue, Unknown(self._explain(error))) for queue in queues}
        return link, answers

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def _log_in(self) -> None:
        """Have a client with credentials that are valid now. Raises what botocore's providers of credentials raise."""
        credentials = self._session.get_credentials()
        if credentials is None:
            raise NoCredentialsError
        credentials.get_frozen_credentials()
        if self._client is None:
            self._client = self._session.create_client("sqs", region_name=self._region, config=_CONFIG)

    def _ask(self, queue: str) -> Answer:
        """Return the counts of a queue. Raises `BotoCoreError` or `OSError` if SQS does not answer."""
        try:
            if queue not in self._urls:
                url = self._client.get_queue_url(QueueName=queue).get("QueueUrl")
                if url is None:
                    return Unknown(f"queue {queue}: SQS gives no address")
                self._urls[queue] = url
            answer = self._client.get_queue_attributes(QueueUrl=self._urls[queue], AttributeNames=_ATTRIBUTES)
        except ClientError as error:
            return self._refused(queue, error)
        return counted(queue, answer.get("Attributes"), self._node_startup)

    def _refused(self, queue: str, error: ClientError) -> Missing | Unknown:
        details = cast("Mapping[str, str]", cast("Any", error.response)["Error"])
        code = details.get("Code", "").rpartition(".")[2]
        if code in _ABSENT:
            remedy = (
                f"SQS shows none in {self._region}; compare its name, region and account, and create it if it is new"
            )
            return Missing(remedy)
        right = f"; the controller's role needs sqs:{error.operation_name}" if code in _DENIED else ""
        return Unknown(f"queue {queue}: SQS refused, {code}: {one_line(details.get('Message', ''))[:_MOST]}{right}")

    def _explain(self, error: Exception) -> str:
        """Return a remedy for the operator, in one line."""
        if isinstance(error, ReadTimeoutError | ConnectTimeoutError):
            return f"broker {self._name} did not answer within {TIMEOUT:g} s"
        if isinstance(error, BotoCoreError | OSError):
            return f"broker {self._name} cannot be reached: {one_line(error)[:_MOST]}"
        return f"broker {self._name} answered with something that no SQS sends ({type(error).__name__})"


def counted(queue: str, attributes: object, node_startup: timedelta) -> Count | Unknown:
    """Return the counts in the attributes of a queue. A count that is missing or no number makes all unknown."""
    texts = cast("Mapping[str, object]", attributes) if isinstance(attributes, dict) else dict[str, object]()
    numbers = {name: _number(texts.get(name)) for name in _ATTRIBUTES}
    visible, held, delayed, delay = (numbers[name] for name in _ATTRIBUTES)
    if visible is None or held is None or delayed is None or delay is None:
        missing = ", ".join(name for name, number in numbers.items() if number is None)
        return Unknown(f"queue {queue}: SQS gives no number for {missing}")
    waiting = visible + (delayed if delay <= node_startup.total_seconds() else 0)
    return Count(ready=waiting, consumers=None, listed=waiting, unacked=held)


def _number(value: object) -> int | None:
    if not isinstance(value, str) or not value.isascii() or not value.isdecimal() or len(value) > 15:
        return None
    return int(value)
