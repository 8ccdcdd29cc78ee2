"""Text and numbers that the API server restricts further than the schema: addresses, names, ports.

Otherwise the API server would report a mistake in the middle of an `up`, about the rendered object, without a line of
the stack file. Other restrictions are left to the server.

Source: Kubernetes, pkg/apis/core/validation/validation.go: ValidateHostAliases, validatePodDNSConfig,
validateContainerPorts, validateHTTPGetAction, validateTCPSocketAction, validateGRPC, ValidateEnv.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from ebbtide.settings.file.problems import Finding, Location, show
from ebbtide.settings.fragment.values import is_list
from ebbtide.settings.sections.pods.env import ENV_NAME
from ebbtide.settings.sections.pods.probes import PORT_NAME
from ebbtide.text.addresses import unmapped

_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_SEARCH = r"\.|[a-z0-9_]([-a-z0-9_]*[a-z0-9_])?(\.[a-z0-9_]([-a-z0-9_]*[a-z0-9_])?)*\.?"
_LONGEST_NAME = 253
_MOST_PORT = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    code: str
    wanted: str
    example: str
    fits: Callable[[object], bool]
    most: int | None = None  # maximum entries of a list


def _is_address(value: object) -> bool:
    """Accept no address with a zone, and no IPv4 address written as IPv6: Kubernetes 1.36 refuses both."""
    if not isinstance(value, str) or "%" in value:
        return False
    try:
        address = ip_address(value)
    except ValueError:
        return False
    return unmapped(address) == address


def _matches(pattern: str, longest: int = _LONGEST_NAME) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and len(value) <= longest and re.fullmatch(pattern, value) is not None


def _is_port(least: int) -> Callable[[object], bool]:
    return lambda value: isinstance(value, int) and least <= value <= _MOST_PORT


def _is_port_or_name(value: object) -> bool:
    return _is_port(1)(value) or _matches(PORT_NAME)(value)


_ADDRESS = Format(code="address.form", wanted="an IP address", example="10.0.0.9", fits=_is_address)
_HOST = Format(
    code="dns-name.form",
    wanted="a DNS name: lower-case letters, digits, - and ., at most 253",
    example="licences.example.com",
    fits=_matches(_SUBDOMAIN),
)
_PORT = Format(code="port.number", wanted=f"a port from 1 to {_MOST_PORT}", example="8080", fits=_is_port(1))
_REFERENCE = Format(
    code="port.reference", wanted="a port by its name or number", example="http or 8080", fits=_is_port_or_name
)

_OF: Mapping[tuple[str, str], Format] = {  # by type and field
    ("HostAlias", "ip"): _ADDRESS,
    ("HostAlias", "hostnames"): _HOST,
    ("PodDNSConfig", "nameservers"): Format(
        code="address.form", wanted="an IP address, at most three", example="10.0.0.2", fits=_is_address, most=3
    ),
    ("PodDNSConfig", "searches"): Format(
        code="dns-name.form",
        wanted="a DNS name to search in, at most 32",
        example="ml.example.com",
        fits=_matches(_SEARCH),
        most=32,
    ),
    ("PodSpec", "hostname"): Format(
        code="dns-name.form", wanted="one label of a DNS name", example="licensed", fits=_matches(_LABEL)
    ),
    ("PodSpec", "subdomain"): Format(
        code="dns-name.form", wanted="one label of a DNS name", example="api", fits=_matches(_LABEL)
    ),
    ("ContainerPort", "containerPort"): _PORT,
    ("ContainerPort", "name"): Format(
        code="port.name",
        wanted="the name of a port: at most 15 lower-case letters, digits and single hyphens, at least one letter",
        example="http",
        fits=_matches(PORT_NAME),
    ),
    ("HTTPGetAction", "port"): _REFERENCE,
    ("TCPSocketAction", "port"): _REFERENCE,
    ("GRPCAction", "port"): _PORT,
    ("EnvVar", "name"): Format(
        code="env.name",
        wanted="the name of a variable: letters, digits, _, - and ., not beginning with a digit",
        example="LOG_LEVEL",
        fits=_matches(ENV_NAME, longest=2**20),
    ),
}


def format_findings(kind: str, key: str, value: object, at: Location) -> Iterator[Finding]:
    """Check a value of the right type."""
    form = _OF.get((kind, key))
    if form is None:
        return
    values = list(enumerate(value)) if is_list(value) else [(None, value)]
    for index, item in values:
        where: Location = at if index is None else (*at, index)
        if not form.fits(item) or (form.most is not None and index is not None and index >= form.most):
            yield Finding(code=form.code, at=where, wanted=form.wanted, found=show(item), example=form.example)
