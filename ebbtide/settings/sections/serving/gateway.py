"""The section of serving: the gateway for requests, and what autoscaling depends on."""

import re
from enum import StrEnum
from typing import Annotated, ClassVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, Strict

from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.checked import Check, Settings
from ebbtide.settings.sections.entrance import Certificate, Source
from ebbtide.settings.sections.grammar import choice, not_both
from ebbtide.settings.sections.pods.env import ObjectName
from ebbtide.settings.sections.serving.access import PrometheusAccess
from ebbtide.text.addresses import leads_to_itself

GATEWAY = "ebbtide"
"""Name of the stack's Gateway, its class and its EnvoyProxy."""
GATEWAY_NAMESPACE = "ebbtide-gateway"
OWNING_GATEWAY = "gateway.envoyproxy.io/owning-gateway-name"
"""Label of the pods that Envoy Gateway creates for a Gateway."""
KEDA_NAMESPACE = "keda"
HTTP_PORT = 80
GATEWAY_TLS_KEYS = ("tls.crt", "tls.key")
"""Keys of the Secret for TLS at the gateway."""

ENVOY_GATEWAY_CONTROLLER = "gateway.envoyproxy.io/gatewayclass-controller"


class Implementation(StrEnum):
    """Implementation of Gateway API, which decides about further policies."""

    ENVOY_GATEWAY = "envoy-gateway"
    OTHER = "other"


def _two_at_least(replicas: int) -> int:
    if replicas < 2:
        expected = "at least 2: while one is moved, the other serves"
        raise wanted("serving.one-proxy", expected, found=str(replicas), example="2")
    return replicas


def _address(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or re.search(r"\s", value):
        expected = "the address of Prometheus as pods reach it, http:// or https://"
        raise wanted("serving.prometheus-form", expected, example="http://prometheus.monitoring.svc:9090")
    if leads_to_itself(parts.hostname):
        expected, hint = "the address of Prometheus as pods reach it", "in a pod this is the pod itself"
        raise wanted("serving.prometheus-local", expected, example="http://prometheus.monitoring.svc:9090", hint=hint)
    return value.rstrip("/")


def _access_is_to_an_address(prometheus: str | None, access: PrometheusAccess | None) -> None:
    if access is None:
        return
    example = "prometheus: https://mimir.example.com/prometheus"
    if prometheus is None:
        expected = "prometheus with it, since the stack's own Prometheus needs no credentials"
        raise wanted("serving.access-alone", expected, found="no address", example=example, at="prometheusAccess")
    if access.authority is not None and not prometheus.startswith("https://"):
        expected = "an https:// address with authority"
        raise wanted("serving.authority-without-tls", expected, found=prometheus, example=example, at="prometheus")


class ServingSettings(Settings):
    """The gateway of this stack's services."""

    checks: ClassVar[tuple[Check, ...]] = (
        not_both(
            "certificate",
            "tls",
            "serving.tls-twice",
            "certificate, with which the load balancer terminates TLS, or tls, with which the gateway does",
        ),
        Check(("prometheus", "prometheus_access"), _access_is_to_an_address),
    )

    public: Annotated[bool, Strict()] = Field(
        default=False,
        description="on EKS: the gateway is reachable from the internet; false: only from private addresses",
        examples=["true"],
    )
    sources: Annotated[tuple[Source, ...], Field(min_length=1)] = Field(
        default=(),
        description="on EKS: address ranges of allowed clients; default: all if public, else private addresses",
        examples=['["203.0.113.0/24"]'],
    )
    certificate: Certificate | None = Field(
        default=None,
        description="on EKS: a certificate in AWS Certificate Manager for TLS at the load balancer",
        examples=["arn:aws:acm:us-east-1:123456789012:certificate/0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"],
    )
    tls: ObjectName | None = Field(
        default=None,
        description="a Secret with `tls.crt` and `tls.key` for TLS at the gateway",
        examples=["models-tls"],
    )
    proxies: Annotated[int, Strict(), AfterValidator(_two_at_least), Field(le=50)] = Field(
        default=2, description="number of Envoy pods of the stack's gateway, on fixed nodes", examples=["3"]
    )
    gateway_class: ObjectName | None = Field(
        default=None,
        description="on an existing cluster: the GatewayClass that serves the routes",
        examples=["eg"],
    )
    implementation: Annotated[Implementation, *choice(*Implementation, planned={})] = Field(
        default=Implementation.ENVOY_GATEWAY,
        description="on an existing cluster: implementation of that class. With other there are routes, "
        "weights and timeouts, but no load-balancing policy and no counts at the gateway",
        examples=["other"],
    )
    keda: Annotated[bool, Strict()] = Field(
        default=False,
        description="on an existing cluster: KEDA is installed; without KEDA only cpu and memory scale",
        examples=["true"],
    )
    prometheus: Annotated[str, AfterValidator(_address)] | None = Field(
        default=None,
        description="address of Prometheus for KEDA; default: that of ebbtide:monitoring, with discovery: operator the "
        "Service prometheus-operated in its namespace; required with discovery: config-map",
        examples=["http://prometheus.monitoring.svc:9090"],
    )
    prometheus_access: PrometheusAccess | None = Field(
        default=None,
        description="headers, a token or a private authority that this address needs",
        examples=["{ token: { secret: mimir, key: token } }"],
    )

    @property
    def balancer(self) -> str:
        """Return the Service of its load balancer, which cannot switch between internal and public: a change creates
        another.
        """
        return f"{GATEWAY}-{'public' if self.public else 'internal'}"
