"""Demand read from RabbitMQ: waiting messages and consumers by AMQP, unacknowledged messages by the management API.

A passive `queue.declare` is exact within 0.1 s, but does not count unacknowledged messages. The totals of the
management API do; a quorum queue's are up to 5 s late (measured on RabbitMQ 3.10). Statistics of single queues are
later still.

One thread per broker asks once a second for the named queues of all pools, so that a frozen broker delays no other
pool. RabbitMQ notifies nobody of published or acknowledged messages.
"""

import base64
import json
import random
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, cast
from urllib.parse import quote, urlsplit

import amqp
from amqp.exceptions import AMQPError, ChannelError, NotFound
from redis import Redis

from controllers.adapters.broker_reports import ReportReader
from controllers.adapters.broker_rules import Answer, BrokerRules, Count, Missing
from controllers.adapters.redis_connection import MissingPassword
from controllers.adapters.redis_demand import LONGEST_PAUSE, UnknownSource
from controllers.ports import PoolName, Reading, Unknown
from ebbtide.vocabulary.controller_config import BrokerEndpoint, ControllerConfig

KINDS = ("celery", "consumer")
TIMEOUT = 1.0  # seconds for each answer
POLL = 1.0  # seconds between two rounds
MANY = 500  # queues in the virtual host: above, the broker takes 50 ms and more for the totals
POLL_MANY = 3.0
FRESH = 3.0  # seconds beyond the pause after which a round proves nothing
HEARTBEAT = 10  # seconds; a round is a sign of life, so no other heartbeats are sent
_MOST_BYTES = 16_000_000


@dataclass(frozen=True, slots=True)
class Round:
    """The answers of one round. `link` changes with the cluster and with each new connection."""

    at: float
    link: str
    answers: Mapping[str, Answer]


@dataclass(frozen=True, slots=True)
class Totals:
    """One queue in the answer of the management API."""

    ready: int
    unacked: int
    state: str


class RabbitBroker:
    """The connections to one broker. `ask` never raises for what a broker or a network does."""

    def __init__(self, endpoint: BrokerEndpoint, password: str) -> None:
        self._endpoint, self._password = endpoint, password
        self._amqp: Any = None
        self._channel: Any = None
        self._http: HTTPConnection | None = None
        self._connections = 0
        self.queues_in_vhost = 0

    def ask(self, queues: Sequence[str]) -> tuple[str, Mapping[str, Answer]]:
        """Return the link and an answer for each of the queues."""
        try:
            declared = self._declare(queues)
        except (AMQPError, OSError) as error:
            self._drop_amqp()
            return "", dict.fromkeys(queues, Unknown(self._explain(error)))
        link = f"{self._amqp.server_properties.get('cluster_name')} {self._connections}"
        try:
            totals = self._totals()
        except (HTTPException, OSError) as error:
            self._drop_http()
            totals = Unknown(self._explain(error))
        return link, {name: _answer(name, answer, totals) for name, answer in declared.items()}

    def close(self) -> None:
        self._drop_amqp()
        self._drop_http()

    def _declare(self, queues: Sequence[str]) -> dict[str, tuple[int, int] | Missing | Unknown]:
        """Return waiting messages and consumers of each queue. Raises `AMQPError` or `OSError`."""
        if self._amqp is None:
            self._connect()
        return {name: self._declare_one(name) for name in queues}

    def _declare_one(self, name: str) -> tuple[int, int] | Missing | Unknown:
        """Each refusal closes the channel, which the library opens again."""
        try:
            found = self._channel.queue_declare(name, passive=True)
        except NotFound:
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
        if self._http is None:
            parts = urlsplit(self._endpoint.management)
            kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
            self._http = kind(parts.hostname or "", parts.port, timeout=TIMEOUT)
        login = base64.b64encode(f"{self._endpoint.username}:{self._password}".encode()).decode()
        path = f"/api/queues/{quote(self._endpoint.vhost, safe='')}?disable_stats=true&enable_queue_totals=true"
        self._http.request("GET", path, headers={"Authorization": f"Basic {login}"})
        response = self._http.getresponse()
        totals = parsed_totals(response.status, response.read(_MOST_BYTES))
        self.queues_in_vhost = 0 if isinstance(totals, Unknown) else len(totals)
        if isinstance(totals, Unknown):
            self._drop_http()
        return totals

    def _drop_amqp(self) -> None:
        """Close without waiting for an answer."""
        if self._amqp is not None:
            self._amqp.collect()
        self._amqp = self._channel = None

    def _drop_http(self) -> None:
        if self._http is not None:
            self._http.close()
        self._http = None

    def _explain(self, error: Exception) -> str:
        """Return a remedy for the operator, in one line."""
        broker = f"broker {self._endpoint.name}"
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"{broker} has a certificate that is not trusted, or for another host name ({error.verify_message})"
        if isinstance(error, ssl.SSLError):
            return f"the TLS handshake with {broker} failed: is this port a TLS port? ({error.reason})"
        if isinstance(error, TimeoutError):
            return f"{broker} did not answer within {TIMEOUT:g} s"
        if isinstance(error, AMQPError):
            return f"{broker} refused: {' '.join(str(error).split())[:300]}"
        return f"{broker} cannot be reached: {error}"


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
        return Unknown("the management API answered with something that is no JSON")
    if not isinstance(entries, list):
        return Unknown("the management API answered with something that is no list of queues")
    totals: dict[str, Totals] = {}
    for entry in cast("list[Any]", entries):
        if isinstance(entry, dict):
            found = cast("Mapping[str, Any]", entry)
            ready, unacked = _count(found.get("messages_ready")), _count(found.get("messages_unacknowledged"))
            if ready is not None and unacked is not None:
                totals[str(found.get("name"))] = Totals(ready, unacked, str(found.get("state", "running")))
    return totals


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


class RabbitDemand:
    """Reads the pools of one broker. `notify` is called when its answers have changed."""

    def __init__(
        self,
        broker: RabbitBroker,
        reports: ReportReader,
        notify: Callable[[], object] = lambda: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._broker, self._reports, self._notify, self._monotonic = broker, reports, notify, monotonic
        self.queues_of: Mapping[PoolName, Sequence[str]] = {name: pool.queues for name, pool in reports.pools.items()}
        self._queues = sorted({queue for queues in self.queues_of.values() for queue in queues})
        self._rules = {name: BrokerRules(name) for name in self.queues_of}
        self._round: Round | None = None
        self._pause = POLL
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rabbit-poll", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout=3 * TIMEOUT)
        self._broker.close()

    @property
    def calls(self) -> int:
        return self._reports.calls

    def read(self, pools: Sequence[PoolName]) -> Mapping[PoolName, Reading]:
        """Return the readings by the newest round, and by the reports of this instant."""
        at, newest, reports = self._monotonic(), self._round, self._reports.read()
        readings: dict[PoolName, Reading] = {}
        for pool in pools:
            answers = self._answers(newest, self.queues_of[pool], at)
            link = "" if newest is None else newest.link
            known = reports if isinstance(reports, Unknown) else reports[pool]
            readings[pool] = self._rules[pool].look(at, link, answers, known)
        return readings

    def _answers(self, newest: Round | None, queues: Sequence[str], at: float) -> Mapping[str, Answer]:
        if newest is None:
            return dict.fromkeys(queues, Unknown("the broker was not asked yet"))
        if at - newest.at > self._pause + FRESH:
            return dict.fromkeys(queues, Unknown(f"the broker has not answered for {at - newest.at:.0f} s"))
        return {queue: newest.answers[queue] for queue in queues}

    def poll(self) -> None:
        """Ask the broker once."""
        link, answers = self._broker.ask(self._queues)
        before, self._round = self._round, Round(self._monotonic(), link, answers)
        self._pause = POLL_MANY if self._broker.queues_in_vhost > MANY else POLL
        if before is None or (before.link, before.answers) != (link, answers):
            self._notify()

    def _run(self) -> None:
        while not self._closing.is_set():
            began = self._monotonic()
            self.poll()
            self._closing.wait(max(0.0, began + self._pause - self._monotonic()))


def rabbit_demands(
    config: ControllerConfig,
    environment: Mapping[str, str],
    connect: Callable[[], Redis],
    notify: Callable[[], object] = lambda: None,
) -> Sequence[RabbitDemand]:
    """Return a source for each broker that has pools. Raises `MissingPassword` and `UnknownSource`."""
    demands: list[RabbitDemand] = []
    for endpoint in config.brokers:
        pools = {pool.name: pool for pool in config.pools if pool.broker == endpoint.name}
        for pool in pools.values():
            if pool.source not in KINDS:
                raise UnknownSource(f"demand source {pool.source}: a broker holds queues of {' and '.join(KINDS)}")
        broker = RabbitBroker(endpoint, password_of(endpoint, environment))
        reports = ReportReader(connect(), pools, time.monotonic, lambda: random.uniform(0, LONGEST_PAUSE))
        if pools:
            demands.append(RabbitDemand(broker, reports, notify))
    return demands


def password_of(endpoint: BrokerEndpoint, environment: Mapping[str, str]) -> str:
    """Return the password. Raises `MissingPassword`."""
    password = environment.get(endpoint.password_env)
    if password is None:
        raise MissingPassword(
            f"the password of broker {endpoint.name} is missing: set the variable {endpoint.password_env}"
        )
    return password
