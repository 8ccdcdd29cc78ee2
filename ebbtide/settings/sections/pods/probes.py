"""Ports and probes of a container.

A probe names an existing port by name or number: the kubelet would probe a wrong one forever. The API only accepts a
number for gRPC, so names are resolved when the pod is built.
"""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, ClassVar, TypeAlias

from pydantic import BeforeValidator, Field, Strict, WithJsonSchema
from pydantic_core import PydanticCustomError

from ebbtide.settings.file.problems import all_of, wanted
from ebbtide.settings.sections.checked import Check, Settings
from ebbtide.settings.sections.grammar import exactly_one, only_with, text
from ebbtide.settings.sections.types import Positive, PositiveDuration, Word

PORT_NAME = r"^(?=.*[a-z])(?!.*--)[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?$"
"""Source: Kubernetes, IsValidPortName in k8s.io/apimachinery/pkg/util/validation."""
_MOST = 65535


def _port(value: object) -> str | int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST:
        return value
    if isinstance(value, str) and re.fullmatch(PORT_NAME, value):
        return value
    raise wanted("port.reference", "a port by its name or number", example="http or 8080")


PortName: TypeAlias = Annotated[
    str,
    *text(
        PORT_NAME,
        "port.name",
        "the name of a port: at most 15 lower-case letters, digits and single hyphens, at least one letter",
        "http",
    ),
]
PortNumber: TypeAlias = Annotated[int, Strict(), Field(ge=1, le=_MOST)]
PortReference: TypeAlias = Annotated[
    str | int,
    BeforeValidator(_port),
    WithJsonSchema({"anyOf": [{"type": "string", "pattern": PORT_NAME}, {"type": "integer", "minimum": 1}]}),
]


def _path(value: object) -> str:
    if not isinstance(value, str) or not value.startswith("/") or not value.isprintable() or " " in value:
        raise wanted("probe.path", "the path of a URL, beginning with /", example="/healthz")
    return value


def _timeout_within_period(every: timedelta, timeout: timedelta) -> None:
    if timeout > every:
        expected = "at most `every`: a probe must end before the next one begins"
        raise wanted("probe.timeout", expected, found=f"{timeout.total_seconds():g}s", example="1s", at="timeout")


class Probe(Settings):
    """A probe of a container by the kubelet."""

    checks: ClassVar[tuple[Check, ...]] = (
        exactly_one("http", "tcp", "grpc", "exec", of="a probe", example="{ http: /healthz, port: http }"),
        only_with("port", "http", code="probe.stray-port", example="{ tcp: http } or { grpc: 9000 }"),
        only_with("service", "grpc", code="probe.stray-service", example="{ grpc: 9000 }"),
        Check(("every", "timeout"), _timeout_within_period),
    )

    http: Annotated[str, BeforeValidator(_path)] | None = Field(
        default=None, description="an HTTP path; a status from 200 to 399 is a success", examples=["/healthz"]
    )
    port: PortReference | None = Field(
        default=None, description="port for http; needed only if there are several", examples=["http"]
    )
    tcp: PortReference | None = Field(
        default=None, description="a TCP port that must accept connections", examples=["http"]
    )
    grpc: PortReference | None = Field(default=None, description="a port with gRPC's health service", examples=["9000"])
    service: Annotated[str, Strict()] | None = Field(default=None, description="name of the gRPC service")
    exec: tuple[Word, ...] | None = Field(
        default=None,
        min_length=1,
        description="a command in the container; exit code 0 is a success",
        examples=["[pg_isready]"],
    )
    every: PositiveDuration = Field(
        default=timedelta(seconds=10), description="time between two probes", examples=["10s"]
    )
    timeout: PositiveDuration = Field(default=timedelta(seconds=1), description="timeout of a probe", examples=["1s"])
    failures: Positive = Field(default=3, description="number of consecutive failures that count", examples=["3"])


class Probes(Settings):
    """Probes: readiness admits traffic, liveness restarts the container, startup delays both."""

    readiness: Probe | None = Field(
        default=None, description="readiness; default for pods with ports: a connection to the first port by name"
    )
    liveness: Probe | None = Field(default=None, description="liveness; default: none")
    startup: Probe | None = Field(default=None, description="startup; default: none")

    def named(self) -> Mapping[str, Probe]:
        probes = {"readiness": self.readiness, "liveness": self.liveness, "startup": self.startup}
        return {name: probe for name, probe in probes.items() if probe is not None}


def ports_once(ports: Mapping[str, int]) -> None:
    first: dict[int, str] = {}
    for name, number in ports.items():
        first_name = first.setdefault(number, name)
        if first_name != name:
            actual = f"{number} for {first_name} and {name}"
            shared = f"API and metrics on one port: leave it out and write metrics: {first_name}"
            hint = shared if name == "metrics" else ""
            raise wanted("port.twice", "each port once", found=actual, example="9090", hint=hint, at=("ports", name))


def probes_have_ports(ports: Mapping[str, int], probes: Probes) -> None:
    faults: list[PydanticCustomError] = []
    for name, probe in probes.named().items():
        for key, port in (("port", probe.port), ("tcp", probe.tcp), ("grpc", probe.grpc)):
            if port is not None and port not in ports and port not in ports.values():
                faults.append(_no_port(ports, (name, key), port))
        if probe.http is not None and probe.port is None and len(ports) != 1:
            faults.append(_no_port(ports, (name, "port"), None))
    if faults:
        raise all_of(faults)


def _no_port(ports: Mapping[str, int], at: tuple[str, str], value: object) -> PydanticCustomError:
    names = ", ".join(f"{name} ({number})" for name, number in ports.items())
    expected = f"one of the ports of this container: {names}" if names else "a port of this container, under `ports`"
    example = next(iter(ports), "ports: { http: 8080 }")
    shown = "no port" if value is None else repr(value)
    return wanted("probe.no-such-port", expected, found=shown, example=example, at=("probes", *at))
