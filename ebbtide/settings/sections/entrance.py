"""Access to a workload from outside the cluster: an Ingress or a load balancer.

An Ingress needs a controller in the cluster; Ebbtide installs none. `expose` needs nothing in the cluster and only
works on EKS, where AWS' controller creates a network load balancer.
"""

import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field, Strict

from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.checked import Check, Settings
from ebbtide.settings.sections.grammar import text, text_schema
from ebbtide.settings.sections.pods.env import ObjectName
from ebbtide.settings.sections.pods.pod import LabelKey
from ebbtide.settings.sections.pods.probes import PortName, PortNumber

_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
HOST = rf"^(?=.{{1,253}}$)(\*\.)?{_LABEL}(\.{_LABEL})*$"
CERTIFICATE = r"^arn:aws[a-z-]*:acm:([a-z]{2}(-[a-z]+)+-\d):\d{12}:certificate/[-0-9a-zA-Z]+$"
_RANGE = r"^\d{1,3}(\.\d{1,3}){3}/\d{1,2}$"
_NO_PATH = ("//", "/./", "/../", "%2f", "%2F")
_NO_END = ("/..", "/.")

TLS_PORT = 443


def _path(value: object) -> str:
    """Accept a path that the API server accepts as a prefix."""
    text = value if isinstance(value, str) else ""
    plain = text.startswith("/") and text.isprintable() and not set(text) & set(" ?#")
    if not plain or any(part in text for part in _NO_PATH) or text.endswith(_NO_END):
        expected = "the beginning of a URL's path: from /, without // and /../, a query or spaces"
        raise wanted("ingress.path", expected, example="/api")
    return text


def _source(value: object) -> str:
    try:
        block = IPv4Network(value) if isinstance(value, str) and re.fullmatch(_RANGE, value) else None
    except ValueError:
        block = None
    if block is None:
        expected = "a block of IPv4 addresses, by its first one"
        raise wanted("expose.source", expected, example='"203.0.113.0/24"')
    return str(block)


Host: TypeAlias = Annotated[
    str,
    *text(
        HOST,
        "ingress.host",
        "a DNS name in lower case, of which the first part may be *",
        "api.example.com",
        unless="[0-9.]+",
    ),
]
UrlPath: TypeAlias = Annotated[str, BeforeValidator(_path), text_schema("^/")]
Certificate: TypeAlias = Annotated[
    str,
    *text(
        CERTIFICATE,
        "expose.certificate",
        "the ARN of a certificate in AWS Certificate Manager",
        "arn:aws:acm:us-east-1:123456789012:certificate/0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
    ),
]
Source: TypeAlias = Annotated[str, BeforeValidator(_source), text_schema(_RANGE)]


class Ingress(Settings):
    """An Ingress with one host and path."""

    host: Host = Field(description="DNS name; `*.` replaces one label", examples=["api.example.com"])
    path: UrlPath = Field(default="/", description="prefix of the URL's path", examples=["/api"])
    port: PortName | None = Field(
        default=None, description="name of a port of the workload; default: the first by name", examples=["http"]
    )
    tls: ObjectName | None = Field(
        default=None, description="Secret with the certificate, `tls.crt` and `tls.key`", examples=["api-tls"]
    )
    class_: ObjectName | None = Field(
        alias="class",
        default=None,
        description="IngressClass; default: the cluster's default",
        examples=["nginx"],
    )
    annotations: dict[LabelKey, Annotated[str, Strict()]] = Field(
        default={},
        description="annotations for its ingress controller",
        examples=["{ nginx.ingress.kubernetes.io/proxy-body-size: 64m }"],
    )


class Expose(Settings):
    """A network load balancer for one port. Only on EKS."""

    port: PortName | None = Field(
        default=None, description="name of a port of the workload; default: the first by name", examples=["http"]
    )
    public: Annotated[bool, Strict()] = Field(
        default=False, description="reachable from the internet; false: only from private addresses", examples=["true"]
    )
    certificate: Certificate | None = Field(
        default=None,
        description="a certificate in AWS Certificate Manager for TLS at the load balancer",
        examples=["arn:aws:acm:us-east-1:123456789012:certificate/0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"],
    )
    listen: PortNumber | None = Field(
        default=None,
        description="port of the load balancer; default: 443 with a certificate, else the number of the port",
        examples=["443"],
    )
    sources: Annotated[tuple[Source, ...], Field(min_length=1)] = Field(
        default=(),
        description="address ranges of allowed clients; default: all if public, else private addresses",
        examples=['["203.0.113.0/24"]'],
    )

    def listens_on(self, ports: Mapping[str, int]) -> int:
        if self.listen is not None:
            return self.listen
        return TLS_PORT if self.certificate is not None else ports[entrance_port(ports, self.port)]


def entrance_port(ports: Mapping[str, int], name: str | None) -> str:
    """Return the name of the port that an entrance leads to; without a name the first, as Pulumi sorts the keys."""
    return min(ports) if name is None else name


def _has_port(key: str, ports: Mapping[str, int], entrance: Ingress | Expose | None) -> None:
    if entrance is None or (ports and entrance.port is None) or entrance.port in ports:
        return
    names = ", ".join(ports)
    expected = f"one of the ports of this workload: {names}" if names else "a port of this workload, under `ports`"
    raise wanted(
        "entrance.no-such-port",
        expected,
        found="no port" if entrance.port is None else repr(entrance.port),
        example=next(iter(ports), "ports: { http: 8080 }"),
        at=key if entrance.port is None else (key, "port"),
    )


def _ingress_port(ports: Mapping[str, int], ingress: Ingress | None) -> None:
    _has_port("ingress", ports, ingress)


def _expose_port(ports: Mapping[str, int], expose: Expose | None) -> None:
    _has_port("expose", ports, expose)


ENTRANCE_CHECKS: Sequence[Check] = (
    Check(("ports", "ingress"), _ingress_port),
    Check(("ports", "expose"), _expose_port),
)


def load_balancer_name(workload: str, expose: Expose) -> str:
    """Return the name of its Service. A load balancer cannot switch between internal and public, so each has its own
    name.
    """
    return f"{workload}-{'public' if expose.public else 'entrance'}"


LOAD_BALANCER_ENDINGS = ("-entrance", "-public")
