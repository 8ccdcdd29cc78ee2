"""The section of message brokers: existing RabbitMQs that hold the queues of pools.

The stack file has no login of workers: their pods get the broker's address from a Secret of the team, in their `env`.
"""

import re
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import AfterValidator, Field

from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.checked import Settings
from ebbtide.settings.sections.grammar import choice, text
from ebbtide.settings.sections.pods.env import ObjectName
from ebbtide.settings.sections.types import PositiveDuration
from ebbtide.text.addresses import leads_to_itself

_URL_EXAMPLE = "amqps://mq.example.com:5671/prod"
_MANAGEMENT_EXAMPLE = "https://mq.example.com:443"
PORTS = {"amqp": 5672, "amqps": 5671, "http": 15672, "https": 443}
"""Ports of addresses without one."""

OWN_QUEUES = re.compile(r".*\.pidbox|celeryev(\..*)?|amq\..*|.*\.reply\..*|celery_delayed_.*", re.IGNORECASE)
"""Queues that Celery or RabbitMQ create for themselves: replies, remote control, events, delayed tasks."""


class BrokerKind(StrEnum):
    RABBITMQ = "rabbitmq"


def _parts(url: str, schemes: tuple[str, ...], code: str, expected: str, example: str) -> SplitResult:
    """Return the parts of an address without a login. The message never shows a password."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in schemes and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        raise wanted(f"{code}.form", expected, found="another text", example=example) from None
    if parts.username is not None or parts.password is not None:
        hint = "the controller's login is controller: { user: …, secret: … }; workers get theirs from a Secret"
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
        description="a Secret of the namespace ebbtide, with the password under password", examples=["rabbit-reader"]
    )


class BrokerSettings(Settings):
    """A message broker that exists: queues of pools of kind celery or consumer."""

    instead_of: ClassVar[dict[str, str]] = {
        "password": "the Secret of controller has the password of the controller; workers get theirs from a Secret",
    }

    kind: Annotated[BrokerKind, *choice("rabbitmq", planned={"sqs": "SQS is planned and not acted on yet"})] = Field(
        description="the broker", examples=["rabbitmq"]
    )
    url: Annotated[str, AfterValidator(_check_url)] = Field(
        description="address of AMQP with the virtual host, without a login", examples=[_URL_EXAMPLE]
    )
    management: Annotated[str, AfterValidator(_check_management)] = Field(
        description="address of the management API, which counts messages that workers hold",
        examples=[_MANAGEMENT_EXAMPLE],
    )
    controller: BrokerUser = Field(
        description="user of the controller, with the tag management and empty permissions on the virtual host",
        examples=["{ user: reader, secret: rabbit-reader }"],
    )
    consumer_timeout: PositiveDuration = Field(
        description="longest time for which the broker waits for an acknowledgement, longer than longestJob of its "
        "pools: after it a running task is delivered again. Workers request it; a broker before 3.12 needs a policy",
        examples=["13h"],
    )

    @property
    def tls(self) -> bool:
        return self.url.startswith("amqps:")

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        parts = urlsplit(self.url)
        return parts.port or PORTS[parts.scheme]

    @property
    def vhost(self) -> str:
        return unquote(urlsplit(self.url).path.removeprefix("/")) or "/"

    @property
    def management_url(self) -> str:
        """Return scheme, host and port."""
        parts = urlsplit(self.management)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return f"{parts.scheme}://{host}:{self.management_port}"

    @property
    def management_port(self) -> int:
        parts = urlsplit(self.management)
        return parts.port or PORTS[parts.scheme]

    def covers(self, longest_job: timedelta) -> bool:
        return longest_job < self.consumer_timeout
