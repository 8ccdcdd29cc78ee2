"""Receivers of alerts, and remote write of samples.

Secrets (URLs with a token, passwords, keys) are in a Secret of the stack, under one fixed key per kind of receiver.
Alertmanager reads them from a mounted file for each message, so new values need no restart. The network policy needs
the port of a hidden URL, so the port is a key here.
"""

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, Strict

from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.checked import Check, Settings
from ebbtide.settings.sections.grammar import not_both, text, text_schema
from ebbtide.settings.sections.serving.access import HeaderText, logins_are_secret
from ebbtide.settings.sections.serving.routes import HeaderName
from ebbtide.settings.sections.types import Name
from ebbtide.text.addresses import leads_to_itself

HTTPS = 443
SECRET_KEY: Mapping[str, str] = {"slack": "url", "webhook": "url", "email": "password", "pagerduty": "routingKey"}
"""Key in the Secret, by kind of receiver."""
DEAD_MAN_KEY = "url"
TOKEN_KEY = "token"
"""Key of remote write's Secret."""

_ADDRESS = r"^[^@\s,<>]+@[^@\s,<>]+\.[^@\s,<>]+$"
_SMARTHOST = r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?:[0-9]{1,5}$"
_ROLE = r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[\w+=,.@/-]{1,512}$"
_REMOTE_EXAMPLE = "https://mimir.example.com/api/v1/push"


def _smarthost(value: object) -> str:
    if not isinstance(value, str) or re.fullmatch(_SMARTHOST, value) is None or port_of(value) > 65_535:
        expected = "the mail server, a host and a port"
        raise wanted("monitoring.smarthost-form", expected, example="smtp.example.com:587")
    return value


def _remote_url(address: str) -> str:
    try:
        parts = urlsplit(address)
        sound = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        sound = False
        parts = urlsplit("")
    if not sound or parts.username or parts.fragment or re.search(r"\s", address):
        # Not shown: a password may precede the @.
        expected = "where samples are written, http:// or https://, without a login"
        raise wanted("monitoring.remote-url", expected, found="another address", example=_REMOTE_EXAMPLE)
    if leads_to_itself(parts.hostname or ""):
        expected, hint = "where samples are written, as pods reach it", "in a pod this is the pod itself"
        raise wanted("monitoring.remote-local", expected, example=_REMOTE_EXAMPLE, hint=hint)
    return address


def port_of(host_and_port: str) -> int:
    return int(host_and_port.rpartition(":")[2])


_Port: TypeAlias = Annotated[int, Strict(), Field(ge=1, le=65_535)]
_Address: TypeAlias = Annotated[
    str, *text(_ADDRESS, "monitoring.email-form", "an e-mail address", "oncall@example.com")
]
_Smarthost: TypeAlias = Annotated[str, BeforeValidator(_smarthost), text_schema(_SMARTHOST)]
_RoleArn: TypeAlias = Annotated[
    str, *text(_ROLE, "monitoring.role-form", "the ARN of a role of AWS", "arn:aws:iam::123456789012:role/remote-write")
]


class Slack(Settings):
    """A Slack channel, through an incoming webhook."""

    channel: str | None = Field(default=None, description="channel; default: the webhook's own", examples=['"#oncall"'])


class Webhook(Settings):
    """A webhook for Alertmanager's messages."""

    port: _Port = Field(
        default=HTTPS, description="port of the secret address, which the network policy opens", examples=["8080"]
    )


class Email(Settings):
    """Mail through a server with a password and TLS."""

    to: _Address = Field(description="recipient", examples=["oncall@example.com"])
    from_: _Address = Field(alias="from", description="sender", examples=["ebbtide@example.com"])
    smarthost: _Smarthost = Field(description="address and port of the mail server", examples=["smtp.example.com:587"])
    username: str | None = Field(
        default=None, description="user name at the mail server; default: the sender", examples=["ebbtide"]
    )


class PagerDuty(Settings):
    """A PagerDuty service, through the Events API v2."""


def _one_kind(slack: object, webhook: object, email: object, pagerduty: object) -> None:
    receivers = {"slack": slack, "webhook": webhook, "email": email, "pagerduty": pagerduty}
    kinds = [kind for kind, value in receivers.items() if value is not None]
    if len(kinds) != 1:
        raise wanted(
            "monitoring.receiver-kinds",
            f"one of {', '.join(receivers)}",
            found=" and ".join(kinds) or "none of them",
            example="slack: {}",
            at=kinds[1] if kinds else "",
        )


class Receiver(Settings):
    """A receiver of alerts."""

    checks: ClassVar[tuple[Check, ...]] = (Check(("slack", "webhook", "email", "pagerduty"), _one_kind),)

    slack: Slack | None = Field(default=None, description="the Secret's key is url", examples=["{}"])
    webhook: Webhook | None = Field(default=None, description="the Secret's key is url", examples=["{ port: 8080 }"])
    email: Email | None = Field(
        default=None,
        description="the Secret's key is password",
        examples=["{ to: oncall@example.com, from: ebbtide@example.com, smarthost: smtp.example.com:587 }"],
    )
    pagerduty: PagerDuty | None = Field(default=None, description="the Secret's key is routingKey", examples=["{}"])
    secret: Name = Field(description="a Secret of ebbtide:secrets with one value", examples=["oncall"])

    @property
    def kind(self) -> str:
        receivers = {"slack": self.slack, "webhook": self.webhook, "email": self.email}
        return next((kind for kind, value in receivers.items() if value is not None), "pagerduty")

    @property
    def key(self) -> str:
        """Return the key in the Secret."""
        return SECRET_KEY[self.kind]

    @property
    def port(self) -> int:
        if self.webhook is not None:
            return self.webhook.port
        return HTTPS if self.email is None else port_of(self.email.smarthost)


class DeadMan(Settings):
    """A service outside the cluster that alerts when the dead man's alert stops arriving."""

    secret: Name = Field(
        description="a Secret of ebbtide:secrets whose key url holds the address of the service", examples=["dead-man"]
    )
    port: _Port = Field(default=HTTPS, description="port of that address", examples=["8080"])


class Alerts(Settings):
    """Receivers of Alertmanager's messages."""

    receiver: Receiver
    dead_man: DeadMan | None = Field(
        default=None,
        description="webhook that receives EbbtideDeadMan every five minutes; default: none",
        examples=["{ secret: dead-man }"],
    )


class RemoteWrite(Settings):
    """An additional store for samples, beyond the retention."""

    checks: ClassVar[tuple[Check, ...]] = (
        not_both(
            "secret", "role", "monitoring.remote-both", "secret or role, not both", found="", example="secret: mimir"
        ),
        Check(("headers",), logins_are_secret),
    )

    url: Annotated[str, AfterValidator(_remote_url)] = Field(
        description="address of the store", examples=[_REMOTE_EXAMPLE]
    )
    secret: Name | None = Field(
        default=None, description="a Secret of ebbtide:secrets whose key token holds a bearer token", examples=["mimir"]
    )
    role: _RoleArn | None = Field(
        default=None,
        description="for Amazon Managed Prometheus, on EKS: role of Prometheus' account; it must trust "
        "pods.eks.amazonaws.com",
        examples=["arn:aws:iam::123456789012:role/remote-write"],
    )
    headers: dict[HeaderName, HeaderText] = Field(
        default={}, description="headers that are not secret, such as a tenant", examples=["{ X-Scope-OrgID: acme }"]
    )

    @property
    def port(self) -> int:
        parts = urlsplit(self.url)
        return parts.port or (HTTPS if parts.scheme == "https" else 80)
