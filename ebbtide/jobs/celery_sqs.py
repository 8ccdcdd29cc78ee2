"""Celery's workers on SQS: tasks that run or wait in a worker stay hidden from the other workers.

The stock worker never renews a message's visibility timeout: the queue delivers a task that runs longer than the
timeout to another worker, and it runs twice. Here a thread renews it (`sqs_visibility`). It does not use the event
loop, which stands still while a solo worker runs a task.

A long poll that is still open when the worker stops may receive one more message. Without a worker to handle it, the
message would stay hidden until its timeout. So a stopping worker waits for the answer, and kombu returns the message to
the queue.
"""

# Celery is installed in the customer's image and in a separate test environment, so its types are not available here.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false

import logging
import os
import threading
import time
from collections.abc import Mapping
from types import MethodType
from typing import Any

from ebbtide.jobs.celery_transports import OtherTransport, held, keep_running_tasks
from ebbtide.jobs.sqs_visibility import LONGEST, LOOK_EVERY, Receipt, Visibility

ANSWER_WITHIN = 5.0  # seconds after a long poll is over
_REFUSED = 400

_log = logging.getLogger(__name__)


class SqsTransport(OtherTransport):
    """SQS by kombu's transport. A lost connection ends no receipt, so running tasks keep their messages."""

    def __init__(self, driver: str, environment: Mapping[str, str] = os.environ) -> None:
        super().__init__(driver, environment)
        self._channel: Any = None
        self._qos: Any = None  # of the channel; has its unacknowledged messages
        self._running: list[Any] = []  # messages of running tasks, from a lost connection
        self._names: dict[str, str] = {}  # by URL: names of the queues, as kombu's clients are named
        self._clients: dict[str, Any] = {}  # by URL; a closed channel has none
        self._visibility = Visibility(self._client)

    def consuming(self, channel: Any) -> None:
        """Renew the messages of this channel, and of the channel before it if their tasks still run.

        Their acknowledgements wait for this channel: Celery sends them from its event loop, which stood still.
        """
        self._names = {
            channel._resolve_queue_url(name): channel.canonical_queue_name(name)  # noqa: SLF001
            for name in channel._active_queues  # noqa: SLF001
        }
        is_first = self._channel is None
        self._channel, self._qos = channel, channel.qos
        keep_running_tasks(channel, self._running)
        self._end_renewal_before_return(channel)
        _survive_failed_polls(channel)
        if is_first:
            threading.Thread(target=self._keep_renewing, name="ebbtide-visibility", daemon=True).start()

    def stop_taking(self, channel: Any) -> None:
        """Wait for the answers of long polls: their messages go back to the queue, since the consumer is cancelled."""
        hub = channel.hub
        client = getattr(hub, "_current_http_client", None)
        if client is None:
            return
        loop = hub.create_loop()
        deadline = time.monotonic() + channel.wait_time_seconds + ANSWER_WITHIN
        # Without these attributes, which are kombu's own, there is nothing to wait for.
        while len(getattr(client, "_free_list", ())) < len(getattr(client, "_curls", ())) and (
            time.monotonic() < deadline
        ):
            next(loop)

    def held(self, channel: Any) -> int:
        return held(channel)

    def settings(self, _channel: Any) -> Mapping[str, Any]:
        """Return the seconds for which a message stays hidden while a worker holds it, whatever the queue's timeout."""
        return {"visibility_timeout": LONGEST}

    def _client(self, queue: str) -> Any:
        if self._channel.connection is not None:
            self._clients[queue] = self._channel.sqs(queue=self._names.get(queue))
        return self._clients[queue]

    def _receipts(self) -> set[Receipt]:
        """Return the receipts of running, delayed and prefetched tasks. kombu takes out the URL of a returned one."""
        qos = self._qos
        messages = [*self._running, *qos._delivered.values()]  # noqa: SLF001
        tags = qos._dirty  # noqa: SLF001
        return {
            Receipt(message.delivery_info["sqs_queue"], message.delivery_tag)
            for message in messages
            if message.delivery_tag not in tags and "sqs_queue" in message.delivery_info
        }

    def _keep_renewing(self) -> None:
        while True:
            try:
                self._visibility.renew(self._receipts, time.monotonic())
            except Exception:  # of the customer's kombu or boto3: without this thread every long task runs twice
                _log.exception("messages are not kept hidden, trying again")
            time.sleep(LOOK_EVERY)

    def _end_renewal_before_return(self, channel: Any) -> None:
        """Let no renewal hide a message that this worker has just returned to the queue."""
        restore = channel._restore  # noqa: SLF001

        def restore_not_renewed(message: Any) -> None:
            with self._visibility.paused():
                restore(message)

        channel._restore = restore_not_renewed  # noqa: SLF001


def _survive_failed_polls(channel: Any) -> None:
    """Let a poll that is throttled, has no answer or one of the status 5xx count as empty: kombu 5.7 ends the worker
    for it. The next poll follows after kombu's `polling_interval`, 1 s.
    """
    ready, client_of = channel._on_messages_ready, channel.asynsqs  # noqa: SLF001

    def ready_or_empty(queue: str, name: str, answer: Any) -> Any:
        return ready(queue, name, answer or {})  # a list, if it failed

    def patient_client(queue: str | None = None) -> Any:
        client = client_of(queue=queue)
        client._on_list_ready = MethodType(_list_or_empty, client)  # noqa: SLF001
        return client

    channel._on_messages_ready, channel.asynsqs = ready_or_empty, patient_client  # noqa: SLF001


def _list_or_empty(client: Any, *place: Any) -> Any:
    """Return what kombu's client does, and nothing for a throttled request, which SQS answers with the status 400."""
    response = place[-1]
    if response.status == _REFUSED and b"Throttl" in (response.read() or b""):
        return []
    return type(client)._on_list_ready(client, *place)  # noqa: SLF001
