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

from celery import Celery
from celery.worker import state
from redis import Redis

from ebbtide.jobs.patience import Patience

REDIS_URL = "EBBTIDE_REDIS_URL"
"""Variable with the address of the Redis that gets the reports, for workers on another broker."""

CONSUMER_TIMEOUT = "EBBTIDE_CONSUMER_TIMEOUT"
"""Variable with the seconds that RabbitMQ waits for an acknowledgement, of the stack file's `consumerTimeout`."""

_TIMEOUT_ARGUMENT = "x-consumer-timeout"  # RabbitMQ 3.12 and newer; in milliseconds. Older ones ignore it
_LAYOUT = ("global_keyprefix", "sep", "unacked_key", "unacked_index_key")  # attributes of a channel: names of its keys
_WAIT = 5.0  # seconds for one answer of Redis


class NoReports(OSError):
    """The environment names no Redis for the reports."""


class Transport(Protocol):
    """What the hooks need of a broker. `channel` is the consumer's; `held` has 0 if only Celery knows its messages."""

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
    return RedisTransport() if app.connection_for_read().transport.driver_type == "redis" else OtherTransport()


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
        _keep_running_tasks(channel, self._running)

    def stop_taking(self, channel: Any) -> None:
        """Read the last pop, which has no public function; without a consumer its message goes back to the queue."""
        if getattr(channel, "_in_poll", None):
            with suppress(Empty):
                channel._brpop_read()  # noqa: SLF001

    def held(self, channel: Any) -> int:
        """Return also messages that wait for their `eta` or a rate limit: `state.requests` may lack them."""
        qos = getattr(channel, "qos", None)  # none while it reconnects
        return 0 if qos is None else len(qos._delivered) - len(qos._dirty)  # noqa: SLF001 - kombu counts them so

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
    """RabbitMQ, SQS and every other transport."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment

    def before_consuming(self, app: Celery) -> None:
        """Give RabbitMQ the longest wait for an acknowledgement, as an argument of the consumers.

        Among the arguments of a queue it would stop workers and producers: RabbitMQ refuses to declare an existing
        queue with other arguments.
        """
        seconds = self._environment.get(CONSUMER_TIMEOUT, "")
        if seconds.isdecimal() and app.connection_for_read().transport.driver_type == "amqp":
            for queue in app.amqp.queues.consume_from.values():
                arguments: Mapping[str, Any] = queue.consumer_arguments or {}
                queue.consumer_arguments = {_TIMEOUT_ARGUMENT: int(seconds) * 1000, **arguments}

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
        """Return a client of the Redis for reports. Raises `NoReports`, or an error of the client's."""
        url = self._environment.get(REDIS_URL, "")
        if not url:
            raise NoReports(f"{REDIS_URL} is not set")
        try:
            return Redis.from_url(url, socket_timeout=_WAIT, socket_connect_timeout=_WAIT)
        except ValueError:
            raise NoReports(f"{REDIS_URL} is no address of a Redis") from None  # without the password

    def problems(self, pool: str) -> list[str]:
        """Return one sentence for each fault of a worker with this `--pool`."""
        problems: list[str] = []
        if not self._environment.get(REDIS_URL):
            problems.append(
                f"{REDIS_URL} is not set: this worker does not report whether it is idle, so its pool never shrinks "
                "while one of its workers runs a task"
            )
        if pool == "solo":
            problems.append(
                "--pool solo sends no heartbeats while a task runs: RabbitMQ gives a task of more than about 3 minutes "
                "to another worker, and it runs twice; use --pool prefork"
            )
        return problems


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
