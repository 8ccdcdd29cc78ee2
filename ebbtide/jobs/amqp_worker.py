"""A scalable worker for one queue of RabbitMQ: `AmqpWorker("etl", handle).run()`. `consumer` describes its life.

The queue is classic or quorum. It exists already: the worker never declares it, and waits while it is absent. One
message is delivered at a time, and acknowledged when `handle` has returned. If `handle` raises, the message is rejected
and not queued again: RabbitMQ moves it to the queue's dead-letter exchange, or deletes it if the queue has none.

Heartbeats continue while `handle` runs, unless it holds the interpreter's lock for longer than `HEARTBEAT`. When the
connection is lost, RabbitMQ delivers the message again at once. `handle` runs to its end, the message cannot be
acknowledged, and the worker then connects again. So a restart of the broker runs the message twice.
"""

import os
import socket
import ssl
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import unquote, urlsplit

try:
    import amqp
    from amqp.exceptions import AMQPError, ChannelError, NotFound
except ModuleNotFoundError as missing:
    if missing.name != "amqp":
        raise
    text = "ebbtide.jobs.amqp_worker needs py-amqp: install ebbtide-jobs[amqp]"
    raise ModuleNotFoundError(text, name="amqp") from None

from ebbtide.jobs.consumer import Consumer, Message, Outcome, Unavailable, Waker
from ebbtide.jobs.consumer_timeout import consumer_arguments, timeout_problems

BROKER_URL = "EBBTIDE_BROKER_URL"
"""Variable with the broker's address, including user, password and virtual host."""

HEARTBEAT = 60  # seconds, RabbitMQ's own proposal; two missed ones end the connection
ANSWER_WITHIN = 10.0  # seconds for one answer of the broker
_PORTS = {"amqp": 5672, "amqps": 5671}


class AmqpWorker(Consumer):
    """One worker of one queue. `url` is the value of `EBBTIDE_BROKER_URL` unless given; raises ValueError if it is no
    address.
    """

    def __init__(
        self,
        queue: str,
        handle: Callable[[bytes], object],
        *,
        url: str | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        address = parsed_address(environment.get(BROKER_URL, "") if url is None else url)
        super().__init__(
            AmqpQueue(address, queue, consumer_arguments(environment)),
            queue,
            handle,
            environment,
            timeout_problems(environment),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    host: str
    port: int
    tls: bool  # chain and host name are verified
    user: str
    password: str
    vhost: str


def parsed_address(url: str) -> Address:
    """Return the parts of an address. Raises ValueError, without the password, if it is none."""
    expected = f"{BROKER_URL}: expected an address such as amqps://user:password@mq.example.com:5671/vhost, got "
    if not url:
        raise ValueError(f"{expected}none")
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        raise ValueError(f"{expected}another text; are special characters of the password percent-encoded?") from None
    if parts.scheme not in _PORTS:
        raise ValueError(f"{expected}one that begins with {parts.scheme!r}")
    if not parts.hostname:
        raise ValueError(f"{expected}one without a host")
    if parts.query or parts.fragment:
        raise ValueError(f"{expected}one with options; are special characters of the password percent-encoded?")
    return Address(
        host=parts.hostname,
        port=port,
        tls=parts.scheme == "amqps",
        user=unquote(parts.username or "guest"),
        password=unquote(parts.password or "guest"),
        vhost=unquote(parts.path.removeprefix("/")) or "/",
    )


class AmqpQueue:
    """The broker of a `Consumer`. After any error but an absent queue it connects again."""

    failed = "it is rejected, so RabbitMQ moves it to the queue's dead-letter exchange, or deletes it if there is none"

    def __init__(self, address: Address, queue: str, arguments: Mapping[str, int]) -> None:
        self._address, self._queue, self._arguments = address, queue, arguments
        self._connection: Any = None
        self._channel: Any = None
        self._consumer_tag = ""  # "" while it does not consume
        self._deleted = False
        self._delivered: Message | None = None

    def take(self, waker: Waker) -> Message | None:
        with self._unavailable():
            if self._connection is None:
                self._connect()
            if not self._consumer_tag:
                self._consume()
            if self._delivered is None and not self._deleted:
                self._listen(waker)
        if self._deleted:
            self._drop()
            raise Unavailable("the queue was deleted")
        delivered, self._delivered = self._delivered, None
        return delivered

    def keep(self, _message: Message, waker: Waker) -> None:
        with self._unavailable():
            self._listen(waker)

    def settle(self, message: Message, outcome: Outcome, *, last: bool) -> None:
        with self._unavailable():
            if last:  # before the acknowledgement, after which the broker would deliver another message
                self._channel.basic_cancel(self._consumer_tag, nowait=True)
            if outcome is Outcome.DONE:
                self._channel.basic_ack(message.receipt)
            else:
                self._channel.basic_reject(message.receipt, requeue=outcome is Outcome.RETURNED)

    def close(self) -> None:
        """Close the connection; the broker's answer follows its receipt of the last acknowledgement."""
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()
        self._drop()

    def _connect(self) -> None:
        where = self._address
        host = f"[{where.host}]" if ":" in where.host else where.host
        connection = cast("Any", amqp.Connection)(
            f"{host}:{where.port}",
            userid=where.user,
            password=where.password,
            login_method="PLAIN",
            virtual_host=where.vhost,
            ssl={"server_hostname": where.host} if where.tls else False,  # with a name, chain and name are verified
            connect_timeout=ANSWER_WITHIN,
            heartbeat=HEARTBEAT,
            client_properties={"connection_name": socket.gethostname()},
        )
        self._connection = connection  # so that it is closed if the rest fails
        connection.connect()
        connection.transport.sock.settimeout(ANSWER_WITHIN)
        self._channel = connection.channel()
        self._channel.auto_decode = False  # payloads are bytes, whatever their encoding

    def _consume(self) -> None:
        """Consume from the existing queue. A refusal closes the channel, which the library opens again."""
        try:
            self._channel.queue_declare(self._queue, passive=True)
            self._channel.basic_qos(prefetch_size=0, prefetch_count=1, a_global=False)
            self._consumer_tag = self._channel.basic_consume(
                self._queue, callback=self._receive, arguments=dict(self._arguments), on_cancel=self._cancelled
            )
        except NotFound:
            raise Unavailable(
                f"queue {self._queue} is not in virtual host {self._address.vhost}: waiting until it is created"
            ) from None
        except ChannelError as error:
            raise Unavailable(self._explain(error)) from None

    def _receive(self, message: Any) -> None:
        body: bytes | str = message.body  # a text only if it is empty
        self._delivered = Message(body.encode() if isinstance(body, str) else body, message.delivery_tag)

    def _cancelled(self, _consumer_tag: str) -> None:
        """Note the end of the queue. A running message goes on, and its acknowledgement is still accepted."""
        self._deleted = True

    def _listen(self, waker: Waker) -> None:
        """Read what the broker sends, and send a heartbeat if one is due; return when `wake` is called."""
        connection = self._connection
        wire: socket.socket = connection.transport.sock
        decrypted = isinstance(wire, ssl.SSLSocket) and wire.pending() > 0
        if decrypted or waker.wait(connection.heartbeat / 4, wire):
            with suppress(TimeoutError):  # the rest of a frame is read at the next call
                connection.blocking_read(ANSWER_WITHIN)
        connection.heartbeat_tick()

    @contextmanager
    def _unavailable(self) -> Generator[None]:
        try:
            yield
        except Unavailable:
            raise
        except Exception as error:  # the library raises errors of any kind for bytes that are not AMQP
            self._drop()
            raise Unavailable(self._explain(error)) from error

    def _drop(self) -> None:
        """Close without waiting for an answer."""
        if self._connection is not None:
            self._connection.collect()
        self._connection = self._channel = self._delivered = None
        self._consumer_tag, self._deleted = "", False

    def _explain(self, error: Exception) -> str:
        """Return one line for the log, without the password."""
        broker = f"the broker {self._address.host}:{self._address.port}"
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"{broker} has a certificate that is not trusted, or for another host name ({error.verify_message})"
        if isinstance(error, ssl.SSLError):
            return f"the TLS handshake with {broker} failed: is this port a TLS port? ({error.reason})"
        if isinstance(error, TimeoutError):
            return f"{broker} did not answer within {ANSWER_WITHIN:g} s"
        if isinstance(error, AMQPError):
            return f"{broker} refused: {' '.join(str(error).split())[:300]}"
        if isinstance(error, OSError):
            return f"the connection to {broker} failed: {error}"
        return f"{broker} did not answer in AMQP: {error!r}"
