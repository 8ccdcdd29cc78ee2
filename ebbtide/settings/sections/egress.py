"""The section of closed networks: proxy and certificates for connections to the outside.

**The certificates replace a list.** OpenSSL, Go and the AWS clients read one file of authorities only. A bundle with
only the company's certificates breaks every call that does not pass the proxy, above all to AWS: append the company's
certificates to the public list.
"""

import re
from collections.abc import Mapping
from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Any, ClassVar, TypeAlias
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, WithJsonSchema

from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.checked import Check, Settings, each_once
from ebbtide.settings.sections.grammar import text_schema
from ebbtide.text.addresses import unmapped

METADATA = (ip_network("169.254.169.254/32"), ip_network("fd00:ec2::254/128"))
"""Instance metadata, which has the node's credentials. Never allowed for pods, whatever a file says."""

AWS_AUTHORITIES = frozenset({"Amazon", "Starfield Technologies, Inc."})
"""Authorities of AWS' services. Source: the root certificates at amazontrust.com/repository."""

_PROXY_EXAMPLE = "http://proxy.example.com:3128"
_HOST = r"^(?=.{1,253}$)(\*?\.)?[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?(/\d{1,3})?$"
_PEM_MARK = "-----BEGIN CERTIFICATE-----"
_PEM_BLOCK = re.compile(rf"{_PEM_MARK}[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")
_MOST_PEM_BYTES = 1_000_000  # a ConfigMap holds 1 MiB


def _parse_proxy(value: object) -> str:
    """An invalid value is never shown: it may contain a password, with or without a scheme."""
    text = value if isinstance(value, str) else ""
    if "@" in text:
        hint = "it would be readable in every pod; let the proxy identify the cluster by its addresses"
        raise wanted(
            "proxy.login", "a proxy without a login", found="one with a login", example=_PROXY_EXAMPLE, hint=hint
        )
    try:
        parts = urlsplit(text)
        sound = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        sound = False
        parts = urlsplit("")
    if not sound or parts.path.strip("/") or parts.query or parts.fragment or re.search(r"[\s$]", text):
        raise wanted(
            "proxy.form", "http:// or https://, a host and a port", found="another value", example=_PROXY_EXAMPLE
        )
    return text.rstrip("/")


def _parse_direct(value: object) -> str:
    if not isinstance(value, str) or re.fullmatch(_HOST, value) is None:
        raise wanted(
            "direct.form", "a host, a domain with a dot before it, or a range of addresses", example=".corp.example.com"
        )
    return value


def _parse_range(value: object) -> str:
    block = _block(value)
    if block is None:
        hint = "names cannot be allowed: a network policy knows addresses only"
        raise wanted("range.form", "a range of addresses", example="10.1.0.0/16", hint=hint)
    if block in METADATA:
        raise wanted("range.metadata", "a range other than the instance metadata's", example="10.1.0.0/16")
    if str(block) != value:
        raise wanted(
            "range.first-address", "a range by its first address", example="10.1.0.0/16", hint=f"did you mean {block}?"
        )
    return str(block)


def _block(value: object) -> IPv4Network | IPv6Network | None:
    try:
        block = ip_network(value, strict=False) if isinstance(value, str) else None
    except ValueError:
        return None
    return block if block is None or unmapped(block.network_address) == block.network_address else None


def _parse_pem(value: object) -> str:
    text = value if isinstance(value, str) else ""
    if "PRIVATE KEY" in text:
        raise wanted(
            "certificates.private-key",
            "certificates only",
            found="a private key",
            hint="remove it, and consider it compromised",
        )
    if len(text.encode()) > _MOST_PEM_BYTES:
        expected = f"at most {_MOST_PEM_BYTES} bytes, which a ConfigMap holds"
        raise wanted("certificates.too-large", expected, found=str(len(text.encode())), hint="leave out the comments")
    if not authorities(text):
        expected = "certificates of authorities in PEM, as a block of text"
        raise wanted("certificates.form", expected, found="no such text", example=f"|\n  {_PEM_MARK}…")
    return text


@cache
def authorities(pem: str) -> frozenset[str]:
    """Return the organisations, or else the names, of the authorities in a bundle; none if it is unreadable."""
    import ssl  # imported here, since few stack files have a bundle

    blocks = _PEM_BLOCK.findall(pem)  # comments between them may hold any letters
    if not blocks or len(blocks) < pem.count(_PEM_MARK):
        return frozenset()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata="\n".join(blocks))
    except ssl.SSLError:
        return frozenset()
    return frozenset(_holder(certificate) for certificate in context.get_ca_certs())


def _holder(certificate: Mapping[str, Any]) -> str:
    subject = {key: str(value) for part in certificate["subject"] for key, value in part}
    return subject.get("organizationName") or subject.get("commonName") or "an authority without a name"


def _noproxy_needs_a_proxy(http: str | None, https: str | None, direct: tuple[str, ...]) -> None:
    if direct and http is None and https is None:
        raise wanted(
            "no-proxy.without-proxy",
            "httpsProxy or httpProxy with it",
            found="neither",
            example=_PROXY_EXAMPLE,
            at="noProxy",
        )


_PATTERN = r"^https?://[^@\s/]+/?$"
_Proxy: TypeAlias = Annotated[str, BeforeValidator(_parse_proxy), text_schema(_PATTERN)]
_Direct: TypeAlias = Annotated[str, BeforeValidator(_parse_direct), WithJsonSchema({"type": "string"})]
_Range: TypeAlias = Annotated[str, BeforeValidator(_parse_range), text_schema(r"^[0-9a-fA-F.:]+(/\d{1,3})?$")]
_Pem: TypeAlias = Annotated[str, BeforeValidator(_parse_pem), text_schema(_PEM_MARK)]


class EgressSettings(Settings):
    """Connections from pods to addresses outside the cluster."""

    checks: ClassVar[tuple[Check, ...]] = (Check(("http_proxy", "https_proxy", "no_proxy"), _noproxy_needs_a_proxy),)

    http_proxy: _Proxy | None = Field(
        default=None, description="proxy for http, without a login", examples=[_PROXY_EXAMPLE]
    )
    https_proxy: _Proxy | None = Field(
        default=None, description="proxy for https, without a login", examples=[_PROXY_EXAMPLE]
    )
    no_proxy: Annotated[tuple[_Direct, ...], each_once("host", "[.corp.example.com]")] = Field(
        default=(),
        description="addresses reached without the proxy, in addition to the cluster, the VPC and the node's "
        "own services",
        examples=["[.corp.example.com, 10.20.0.0/16]"],
    )
    ca_bundle: _Pem | None = Field(
        default=None,
        description="PEM certificates of authorities; they replace the list in the images, so include the public ones",
        examples=["|\n  -----BEGIN CERTIFICATE-----\n  …"],
    )
    allow: Annotated[tuple[_Range, ...], Field(min_length=1), each_once("range", "[10.1.0.0/16]")] = Field(
        default=(),
        description="ranges outside the cluster that workloads and workers may reach; default: everything "
        "except the instance metadata",
        examples=["[10.1.0.0/16]"],
    )
