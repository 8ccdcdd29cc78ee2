"""The section of message brokers that hold the queues of pools: existing RabbitMQs, and SQS in the stack's region.

With `workers` Ebbtide gives pods RabbitMQ's address; without it the team does, in their `env`. Passwords stay in
Secrets. Rights on SQS come by Pod Identity.

A key of RabbitMQ beside another kind is refused, since it would have no effect. So such keys have no default.
"""

import re
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar
from urllib.parse import SplitResult, quote, unquote, urlsplit

from pydantic import AfterValidator, Field

from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.checked import Check, Settings
from ebbtide.settings.sections.grammar import choice, needed_with, only_with, text
from ebbtide.settings.sections.pods.env import ObjectName
from ebbtide.settings.sections.types import PositiveDuration
from ebbtide.text.addresses import is_host, leads_to_itself

_URL_EXAMPLE = "amqps://mq.example.com:5671/prod"
_MANAGEMENT_EXAMPLE = "https://mq.example.com:443"
PORTS = {"amqp": 5672, "amqps": 5671, "http": 15672, "https": 443}
"""Ports of addresses without one."""

_UUID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # queues of Celery's result backend rpc
OWN_QUEUES = re.compile(rf".*\.pidbox|celeryev(\..*)?|amq\..*|celery_delayed_.*|{_UUID}", re.IGNORECASE)
"""Queues that Celery or RabbitMQ create for themselves: replies, remote control, events, delayed tasks."""

LONGEST_VISIBILITY = timedelta(hours=12)
"""SQS makes a received message visible again after this time at most. Source: Amazon SQS Developer Guide, "Amazon SQS
visibility timeout".
"""


class BrokerKind(StrEnum):
    RABBITMQ = "rabbitmq"
    SQS = "sqs"


def _parts(url: str, schemes: tuple[str, ...], code: str, expected: str, example: str) -> SplitResult:
    """Return the parts of an address without a login. The message never shows a password."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in schemes and is_host(parts.hostname or "") and (parts.port is None or parts.port > 0)
    except ValueError:
        raise wanted(f"{code}.form", expected, found="another text", example=example) from None
    if parts.username is not None or parts.password is not None:
        hint = "logins are controller: { user: …, secret: … } and, for workers, workers: { user: …, secret: … }"
        raise wanted(
            f"{code}.login", "an address without user and password", found="a login", example=example, hint=hint
        )
    if not sound or parts.query or parts.fragment:
        raise wanted(f"{code}.form", expected, example=example)
    if leads_to_itself(parts.hostname or ""):
        hint = "in a pod this is the pod itself"
        raise wanted(f"{code}.local", "the address of the broker as pods reach it", example=example, hint=hint)
    return parts


def _check_url(url: str) -> str:
    expected = "amqp:// or amqps://, a host, and a port and virtual host if need be"
    parts = _parts(url, ("amqp", "amqps"), "broker-url", expected, _URL_EXAMPLE)
    if "/" in parts.path.removeprefix("/"):
        raise wanted("broker-url.form", f"{expected}, with %2F for a slash in its name", example=_URL_EXAMPLE)
    return url


def _check_management(url: str) -> str:
    expected = "http:// or https://, a host, and a port if need be"
    parts = _parts(url, ("http", "https"), "broker-management", expected, _MANAGEMENT_EXAMPLE)
    if parts.path.strip("/"):
        raise wanted("broker-management.form", expected, example=_MANAGEMENT_EXAMPLE)
    return url


class BrokerUser(Settings):
    """A user of a broker and its password."""

    user: Annotated[
        str,
        *text(r"[A-Za-z0-9_.@-]{1,100}", "broker-user.form", "a user name of letters, digits and _ . @ -", "reader"),
    ] = Field(description="user name in RabbitMQ", examples=["reader"])
    secret: ObjectName = Field(
        description="a Secret with the password under password: for controller in the namespace ebbtide, for workers "
        "in ebbtide-workers and percent-encoded, since it becomes part of an address",
        examples=["rabbit-reader"],
    )


_OF_RABBITMQ = {
    "url": ("the address of AMQP", _URL_EXAMPLE),
    "management": ("the address of the management API", _MANAGEMENT_EXAMPLE),
    "controller": ("the controller's user", "{ user: reader, secret: rabbit-reader }"),
    "consumerTimeout": ("the longest time for which the broker waits for an acknowledgement", "13h"),
}
"""Keys that kind rabbitmq requires and other kinds refuse."""


class BrokerSettings(Settings):
    """A message broker that exists: queues of pools of kind celery or consumer."""

    instead_of: ClassVar[dict[str, str]] = {
        "region": "queues in SQS are in the region aws:region of the stack",
        "password": "passwords are in the Secrets of controller and workers",
    }

    checks: ClassVar[tuple[Check, ...]] = (
        *(
            needed_with(key, "kind", BrokerKind.RABBITMQ, "broker.key-missing", expected, example)
            for key, (expected, example) in _OF_RABBITMQ.items()
        ),
        *(
            only_with(key, "kind", BrokerKind.RABBITMQ, code="broker.key-of-another-kind")
            for key in (*_OF_RABBITMQ, "workers")
        ),
    )

    kind: Annotated[BrokerKind, *choice(*BrokerKind, planned={})] = Field(
        description="an existing RabbitMQ, or SQS of the stack's account and region", examples=["rabbitmq"]
    )
    url: Annotated[str, AfterValidator(_check_url)] | None = Field(
        default=None,
        description="for kind rabbitmq: address of AMQP with the virtual host, without a login",
        examples=[_URL_EXAMPLE],
    )
    management: Annotated[str, AfterValidator(_check_management)] | None = Field(
        default=None,
        description="for kind rabbitmq: address of the management API, which counts messages that workers hold",
        examples=[_MANAGEMENT_EXAMPLE],
    )
    controller: BrokerUser | None = Field(
        default=None,
        description="for kind rabbitmq: user of the controller, with the tag management and empty permissions on the "
        "virtual host",
        examples=["{ user: reader, secret: rabbit-reader }"],
    )
    workers: BrokerUser | None = Field(
        default=None,
        description="for kind rabbitmq: user of the workers, whose pods then get the complete address: "
        "CELERY_BROKER_URL with kind celery, EBBTIDE_BROKER_URL with kind consumer. Default: the pool's env has it",
        examples=["{ user: etl, secret: rabbit-etl }"],
    )
    consumer_timeout: PositiveDuration | None = Field(
        default=None,
        description="for kind rabbitmq: longest time for which the broker waits for an acknowledgement, longer than "
        "longestJob of its pools: after it a running task is delivered again. Set it on the broker: in a "
        "policy from RabbitMQ 3.12 on, before that in rabbitmq.conf",
        examples=["13h"],
    )

    @property
    def on_sqs(self) -> bool:
        return self.kind is BrokerKind.SQS

    @property
    def longest_wait(self) -> timedelta:
        """Return the time after which the broker delivers a running job again."""
        return self.consumer_timeout or LONGEST_VISIBILITY

    @property
    def tls(self) -> bool:
        return urlsplit(self.url or "").scheme == "amqps"

    @property
    def host(self) -> str:
        return urlsplit(self.url or "").hostname or ""

    @property
    def port(self) -> int:
        """Return the port of RabbitMQ that workers and the controller call."""
        parts = urlsplit(self.url or "")
        return parts.port or PORTS[parts.scheme]

    @property
    def vhost(self) -> str:
        return unquote(urlsplit(self.url or "").path.removeprefix("/")) or "/"

    @property
    def management_url(self) -> str:
        """Return scheme, host and port of RabbitMQ's management API."""
        parts = urlsplit(self.management or "")
        return f"{parts.scheme}://{_bracketed(parts)}:{self.management_port}"

    @property
    def management_port(self) -> int:
        """Return the port of RabbitMQ that only the controller calls."""
        parts = urlsplit(self.management or "")
        return parts.port or PORTS[parts.scheme]

    def address(self, user: str, password: str) -> str:
        """Return RabbitMQ's complete address. `password` is percent-encoded."""
        parts = urlsplit(self.url or "")
        login = f"{quote(user, safe='')}:{password}"
        return f"{parts.scheme}://{login}@{_bracketed(parts)}:{self.port}/{quote(self.vhost, safe='')}"


def _bracketed(parts: SplitResult) -> str:
    host = parts.hostname or ""
    return f"[{host}]" if ":" in host else host
