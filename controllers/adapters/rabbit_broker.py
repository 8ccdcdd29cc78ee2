"""Queues of a RabbitMQ: waiting messages and consumers by AMQP, unacknowledged messages by the management API.

A passive `queue.declare` is exact within 0.1 s, but does not count unacknowledged messages. The totals of the
management API do; a quorum queue's are up to 5 s late (measured on RabbitMQ 3.10). Statistics of single queues are
later still.
"""

import base64
import json
import secrets
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import BadStatusLine, HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, cast
from urllib.parse import quote, urlsplit

import amqp
from amqp.exceptions import AccessRefused, AMQPError, ChannelError, NotFound

from controllers.adapters.broker_rules import RABBITMQ, Answer, Count, Missing
from controllers.one_line import one_line
from controllers.ports import Unknown
from ebbtide.vocabulary.controller_config import BrokerEndpoint

TIMEOUT = 1.0  # seconds for each answer
POLL = 1.0  # seconds between two rounds
MANY = 500  # queues in the virtual host: above, the broker takes 50 ms and more for the totals
POLL_MANY = 3.0
ABSENT = 60  # rounds until an absent queue is asked for again: the broker logs each refusal as an error
HEARTBEAT = 10  # seconds; a round is a sign of life, so no other heartbeats are sent
_MOST_BYTES = 16_000_000


@dataclass(frozen=True, slots=True)
class Totals:
    """One queue in the answer of the management API."""

    ready: int
    unacked: int
    state: str


class RabbitBroker:
    """The connections to one RabbitMQ. The link changes with the cluster's name and with each new connection."""

    timings = RABBITMQ

    def __init__(self, endpoint: BrokerEndpoint, password: str) -> None:
        self._endpoint, self._password = endpoint, password
        self._amqp: Any = None
        self._channel: Any = None
        self._http: HTTPConnection | None = None
        self._connections = 0
        self._queues_in_vhost = 0
        self._round = 0
        self._absent: dict[str, int] = {}  # absent queues, each with the round in which it is asked again

    @property
    def pause(self) -> float:
        return POLL_MANY if self._queues_in_vhost > MANY else POLL

    def ask(self, queues: Sequence[str]) -> tuple[str, Mapping[str, Answer]]:
        """Return the link and an answer for each of the queues."""
        try:
            declared = self._declare(queues)
        except Exception as error:  # the library raises any kind for bytes that are not AMQP
            self._drop_amqp()
            return "", dict.fromkeys(queues, Unknown(self._explain(error)))
        link = f"{self._amqp.server_properties.get('cluster_name')} {self._connections}"
        try:
            totals = self._totals()
        except (HTTPException, OSError) as error:
            self._drop_http()
            totals = Unknown(self._explain(error, "the management API of "))
        if not isinstance(totals, Unknown):
            self._absent = {name: until for name, until in self._absent.items() if name not in totals}
        return link, {name: _answer(name, answer, totals) for name, answer in declared.items()}

    def close(self) -> None:
        self._drop_amqp()
        self._drop_http()

    def _declare(self, queues: Sequence[str]) -> dict[str, tuple[int, int] | Missing | Unknown]:
        """Return waiting messages and consumers of each queue."""
        if self._amqp is None:
            self._connect()
        self._round += 1
        absent = {name for name, until in self._absent.items() if self._round < until}
        return {name: Missing() if name in absent else self._declare_one(name) for name in queues}

    def _declare_one(self, name: str) -> tuple[int, int] | Missing | Unknown:
        """Each refusal closes the channel, which the library opens again."""
        try:
            found = self._channel.queue_declare(name, passive=True)
        except NotFound:
            self._absent[name] = self._round + ABSENT
            return Missing()
        except ChannelError as error:
            return Unknown(f"queue {name}: {error}")
        return found.message_count, found.consumer_count

    def _connect(self) -> None:
        where = self._endpoint
        connection = cast("Any", amqp.Connection)(
            f"{where.host}:{where.port}",
            userid=where.username,
            password=self._password,
            login_method="PLAIN",
            virtual_host=where.vhost,
            ssl={"server_hostname": where.host} if where.tls else False,  # with a name, chain and name are verified
            connect_timeout=TIMEOUT,
            heartbeat=HEARTBEAT,
            client_properties={"connection_name": "ebbtide-controller"},
        )
        self._amqp = connection  # so that it is closed if the rest fails
        connection.connect()
        connection.transport.sock.settimeout(TIMEOUT)
        self._channel = connection.channel()
        self._connections += 1

    def _totals(self) -> Mapping[str, Totals] | Unknown:
        """Return the totals of all queues of the virtual host. Raises `HTTPException` or `OSError`."""
        vhost = quote(self._endpoint.vhost, safe="")
        totals = parsed_totals(*self._get(f"/api/queues/{vhost}?disable_stats=true&enable_queue_totals=true"))
        self._queues_in_vhost = 0 if isinstance(totals, Unknown) else len(totals)
        if isinstance(totals, Unknown):
            self._drop_http()
        return totals

    def _get(self, path: str) -> tuple[int, bytes]:
        """Return status and body of the management API. Raises `HTTPException` or `OSError`."""
        if self._http is None:
            parts = urlsplit(self._endpoint.management)
            kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
            self._http = kind(parts.hostname or "", parts.port, timeout=TIMEOUT)
        login = base64.b64encode(f"{self._endpoint.username}:{self._password}".encode()).decode()
        self._http.request("GET", path, headers={"Authorization": f"Basic {login}"})
        response = self._http.getresponse()
        return response.status, response.read(_MOST_BYTES)

    def excess_rights(self) -> Sequence[str] | Unknown:
        """Return what the user may do beyond looking, as far as the broker shows it.

        Only administrators may read permissions. Other users learn their tags, and whether their permissions cover a
        queue that does not exist: the refusal then says so.
        """
        try:
            status, body = self._get("/api/whoami")
            if self._amqp is None:
                self._connect()
            takes = self._may_take_messages()
        except Exception as error:  # as in `ask`
            return Unknown(self._explain(error))
        tags = parsed_tags(status, body)
        if isinstance(tags, Unknown):
            return tags
        return [f"has the tag {tag}" for tag in sorted(tags - {"management"})] + ["may take messages"] * takes

    def _may_take_messages(self) -> bool:
        """Raises `AMQPError` or `OSError`."""
        try:
            self._channel.basic_get(f"ebbtide-no-such-queue-{secrets.token_hex(8)}")
        except NotFound:
            return True
        except AccessRefused:
            return False
        raise AssertionError("a queue of a random name exists")

    def _drop_amqp(self) -> None:
        """Close without waiting for an answer."""
        if self._amqp is not None:
            self._amqp.collect()
        self._amqp = self._channel = None

    def _drop_http(self) -> None:
        if self._http is not None:
            self._http.close()
        self._http = None

    def _explain(self, error: Exception, part: str = "") -> str:
        """Return a remedy for the operator, in one line. `part`: what of the broker was asked, if not AMQP."""
        broker = f"{part}broker {self._endpoint.name}"
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"{broker} has a certificate that is not trusted, or for another host name ({error.verify_message})"
        if isinstance(error, ssl.SSLError):
            return f"the TLS handshake with {broker} failed: is this port a TLS port? ({error.reason})"
        if isinstance(error, TimeoutError):
            return f"{broker} did not answer within {TIMEOUT:g} s"
        if isinstance(error, BadStatusLine) and not isinstance(error, OSError):  # its text is the answer's bytes
            return f"{broker} does not answer in HTTP: is this port a TLS port, for https?"
        if isinstance(error, AMQPError):
            text = str(error.reply_text or error)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
            return f"{broker} refused user {self._endpoint.username}: {one_line(text)[:300]}"
        if isinstance(error, (OSError, HTTPException)):
            return f"{broker} cannot be reached: {error}"
        return f"{broker} did not answer in AMQP: is {self._endpoint.port} the port of AMQP?"


def parsed_totals(status: int, body: bytes) -> Mapping[str, Totals] | Unknown:
    """Return the totals by queue. A queue whose answer lacks a count is left out."""
    if status in (401, 403):
        return Unknown(
            f"the management API answered {status}: wanted a user with the tag management and empty permissions on the "
            "virtual host"
        )
    if status != 200:
        return Unknown(f"the management API answered {status}")
    try:
        entries = json.loads(body)
    except (ValueError, RecursionError):
        return Unknown("the management API did not answer in JSON")
    if not isinstance(entries, list):
        return Unknown("the management API did not answer with a list of queues")
    totals: dict[str, Totals] = {}
    for entry in cast("list[Any]", entries):
        if isinstance(entry, dict):
            found = cast("Mapping[str, Any]", entry)
            ready, unacked = _count(found.get("messages_ready")), _count(found.get("messages_unacknowledged"))
            if ready is not None and unacked is not None:
                totals[str(found.get("name"))] = Totals(ready, unacked, str(found.get("state", "running")))
    return totals


def parsed_tags(status: int, body: bytes) -> frozenset[str] | Unknown:
    """Return the tags of the user."""
    try:
        tags: object = json.loads(body)["tags"] if status == 200 else None
    except (ValueError, TypeError, KeyError, RecursionError):
        tags = None
    if isinstance(tags, str):  # before RabbitMQ 3.9
        tags = tags.split(",")
    if not isinstance(tags, list):
        return Unknown(f"the management API does not name the user's tags (HTTP {status})")
    return frozenset(str(tag) for tag in cast("list[object]", tags))


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _answer(name: str, declared: tuple[int, int] | Missing | Unknown, totals: Mapping[str, Totals] | Unknown) -> Answer:
    if not isinstance(declared, tuple):
        return declared
    if isinstance(totals, Unknown):
        return totals
    listed = totals.get(name)
    if listed is None:
        return Unknown(f"queue {name}: the management API gives no counts")
    if listed.state != "running":
        return Unknown(f"queue {name} is {listed.state}")
    ready, consumers = declared
    return Count(ready=ready, consumers=consumers, listed=listed.ready, unacked=listed.unacked)
