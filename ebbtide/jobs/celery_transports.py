"""The parts of `celery_worker` that depend on the broker: on Redis, or on any other transport of kombu.

On Redis the broker also holds the reports, a stop must return the message of the last pop, and acknowledgements wait
for Redis. Other brokers own their messages: the hooks change nothing about them. Their workers report to the Redis of
`EBBTIDE_REDIS_URL`; without that variable they run and do not report.
"""

# Celery is installed in the customer's image and in a separate test environment, so its types are not available here.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

import os
from collections.abc import Mapping
from contextlib import suppress
from queue import Empty
from typing import Any, Protocol

from celery import VERSION, Celery, __version__
from celery.worker import state
from redis import Redis

from ebbtide.jobs.busy_report import REDIS_URL, reports_client
from ebbtide.jobs.consumer_timeout import consumer_arguments
from ebbtide.jobs.patience import Patience

_LAYOUT = ("global_keyprefix", "sep", "unacked_key", "unacked_index_key")  # attributes of a channel: names of its keys
_SCALED = ("amqp", "sqs")  # besides Redis
_OLDEST = (5, 7)  # release of Celery that forgets all discarded tasks after a lost connection


class Transport(Protocol):
    """What differs between brokers for the hooks. `channel` is the consumer's. `held` returns 0 if kombu does not count
    unacknowledged messages, and Celery's own count is used.
    """

    def before_consuming(self, app: Celery, /) -> None: ...
    def consuming(self, channel: Any, /) -> None: ...
    def stop_taking(self, channel: Any, /) -> None: ...
    def held(self, channel: Any, /) -> int: ...
    def settings(self, channel: Any, /) -> Mapping[str, Any]: ...
    def prefetch(self, app: Celery, multiplier: int, /) -> int: ...
    def reports(self, app: Celery, /) -> Redis: ...
    def problems(self, pool: str, /) -> list[str]: ...


def transport_of(app: Celery) -> Transport:
    """Return the transport of the app's workers. It connects to nothing."""
    driver = app.connection_for_read().transport.driver_type
    if driver == "sqs":
        from ebbtide.jobs.celery_sqs import SqsTransport  # boto3 is there only for workers on SQS

        return SqsTransport(driver)
    return RedisTransport() if driver == "redis" else OtherTransport(driver)


class RedisTransport:
    """Redis, with or without Sentinels."""

    def __init__(self) -> None:
        self._running: list[Any] = []  # messages of running tasks, from a lost connection

    def before_consuming(self, _app: Celery) -> None:
        pass

    def consuming(self, channel: Any) -> None:
        """Make writes wait for Redis, and keep running tasks when the connection breaks.

        The stock worker drops an acknowledgement that Redis does not accept, and the task runs again elsewhere. The
        pop has another connection pool: when it fails, Celery reconnects by itself.
        """
        channel.pool.set_retry(Patience())
        keep_running_tasks(channel, self._running)

    def stop_taking(self, channel: Any) -> None:
        """Read the last pop, which has no public function; without a consumer its message goes back to the queue."""
        if getattr(channel, "_in_poll", None):
            with suppress(Empty):
                channel._brpop_read()  # noqa: SLF001

    def held(self, channel: Any) -> int:
        return held(channel)

    def settings(self, channel: Any) -> Mapping[str, Any]:
        return {
            **{name: getattr(channel, name) for name in _LAYOUT if hasattr(channel, name)},
            "priority_steps": sorted(channel.priority_steps),
            "visibility_timeout": float(channel.visibility_timeout),
            "ack_emulation": bool(getattr(channel, "ack_emulation", True)),
        }

    def prefetch(self, app: Celery, multiplier: int) -> int:
        return 1 if app.conf.worker_disable_prefetch else multiplier

    def reports(self, app: Celery) -> Redis:
        """Return a client with the broker's connections, since TLS, Sentinel and passwords are Celery's settings.

        It is not the broker's client, which adds a `global_keyprefix` to HSET and SADD, but not to EXPIRE and EXISTS.
        """
        return Redis(connection_pool=app.connection_for_write().channel().pool)

    def problems(self, _pool: str) -> list[str]:
        return []


class OtherTransport:
    """RabbitMQ, and all transports without a class here. `driver` is kombu's `driver_type`."""

    def __init__(self, driver: str, environment: Mapping[str, str] = os.environ) -> None:
        self._driver, self._environment = driver, environment

    def before_consuming(self, app: Celery) -> None:
        """Give RabbitMQ the longest wait for an acknowledgement, as an argument of the consumers."""
        ours = consumer_arguments(self._environment)
        if ours and self._driver == "amqp":
            for queue in app.amqp.queues.consume_from.values():
                arguments: Mapping[str, Any] = queue.consumer_arguments or {}
                queue.consumer_arguments = {**ours, **arguments}

    def consuming(self, _channel: Any) -> None:
        pass

    def stop_taking(self, _channel: Any) -> None:
        pass

    def held(self, _channel: Any) -> int:
        return 0

    def settings(self, _channel: Any) -> Mapping[str, Any]:
        return {}

    def prefetch(self, _app: Celery, multiplier: int) -> int:
        return multiplier  # only Redis' transport knows `worker_disable_prefetch`

    def reports(self, _app: Celery) -> Redis:
        return reports_client(self._environment)

    def problems(self, pool: str) -> list[str]:
        """Return one sentence for each fault of a worker with this `--pool`."""
        problems: list[str] = []
        if self._driver not in _SCALED:
            problems.append(
                f"the broker is {self._driver}: Ebbtide counts tasks in Redis, RabbitMQ and SQS, so this worker runs "
                "and no pool is scaled by its tasks"
            )
        elif VERSION[:2] < _OLDEST:
            problems.append(
                f"Celery {__version__} is older than 5.7: after a lost connection to the broker a worker may report "
                "for ever that it is busy, so its pod stays; install Celery 5.7"
            )
        if not self._environment.get(REDIS_URL):
            when = "" if self._driver == "sqs" else " while one of its workers runs a task"
            problems.append(
                f"{REDIS_URL} is not set: this worker does not report whether it is idle, so its pool never shrinks"
                + when
            )
        if pool == "solo" and self._driver == "amqp":
            problems.append(
                "--pool solo sends no heartbeats while a task runs: RabbitMQ gives a task of more than about 3 minutes "
                "to another worker, and it runs twice; use --pool prefork"
            )
        return problems


def held(channel: Any) -> int:
    """Return also messages that wait for their `eta` or a rate limit: `state.requests` may lack them."""
    qos = getattr(channel, "qos", None)  # none while it reconnects
    return 0 if qos is None else len(qos._delivered) - len(qos._dirty)  # noqa: SLF001 - kombu counts them so


def keep_running_tasks(channel: Any, running_messages: list[Any]) -> None:
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
