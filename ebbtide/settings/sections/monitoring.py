"""The section of monitoring: which Prometheus watches the stack, and how it is told what to scrape and whom to tell."""

import re
from enum import StrEnum
from typing import Annotated, ClassVar, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from ebbtide.settings.file.wanted import wanted
from ebbtide.settings.sections.checked import Check, Settings
from ebbtide.settings.sections.pods.pod import LabelKey, LabelValue
from ebbtide.settings.sections.types import acted_on

METRICS_PORT = "metrics"
"""A pod with a port of this name is scraped there, at /metrics."""

_NAMESPACE = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
_RUNBOOKS_EXAMPLE = "https://docs.example.com/ebbtide"


class PrometheusKind(StrEnum):
    NONE = "none"
    EXISTING = "existing"


_PLANNED = {
    "bundled": "a Prometheus of the stack's own is planned and not acted on yet; name one that is there, with its "
    "operator"
}


def _namespace(value: object) -> str:
    if not isinstance(value, str) or re.fullmatch(_NAMESPACE, value) is None:
        raise wanted("monitoring.namespace-form", "the name of a namespace", example="monitoring")
    return value


def _runbooks(address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise wanted(
            "monitoring.runbooks-form",
            "where the documentation is served, http:// or https://, without a login",
            example=_RUNBOOKS_EXAMPLE,
        )
    return address


_Namespace: TypeAlias = Annotated[
    str, BeforeValidator(_namespace), WithJsonSchema({"type": "string", "pattern": _NAMESPACE})
]


def _existing_says_where(prometheus: PrometheusKind, namespace: str | None) -> None:
    if prometheus is PrometheusKind.EXISTING and namespace is None:
        what = "the namespace that Prometheus runs in: the network policies let it through, and nobody else"
        raise wanted("monitoring.namespace-missing", what, example="monitoring", at="namespace")


def _only_with_one(field: str, key: str) -> Check:
    def rule(prometheus: PrometheusKind, value: object) -> None:
        if value and prometheus is PrometheusKind.NONE:
            what = f"no {key} without a Prometheus: it would do nothing"
            raise wanted("monitoring.key-of-nothing", what, example="prometheus: existing", at=key)

    return Check(("prometheus", field), rule)


class MonitoringSettings(Settings):
    """Which Prometheus watches the stack."""

    checks: ClassVar[tuple[Check, ...]] = (
        Check(("prometheus", "namespace"), _existing_says_where),
        *(_only_with_one(key, key) for key in ("namespace", "labels", "runbooks")),
    )

    prometheus: Annotated[PrometheusKind, *acted_on(*PrometheusKind, planned=_PLANNED)] = Field(
        default=PrometheusKind.NONE,
        description="none; existing: one that is there, with its operator, is told what to scrape and is given rules",
        examples=["existing"],
    )
    namespace: _Namespace | None = Field(
        default=None,
        description="for existing: where it runs. Its pods may reach the ports of metrics",
        examples=["monitoring"],
    )
    labels: dict[LabelKey, LabelValue] = Field(
        default={},
        description="for existing: labels by which its operator chooses PodMonitors and PrometheusRules",
        examples=["{ release: kube-prometheus-stack }"],
    )
    runbooks: Annotated[str, AfterValidator(_runbooks)] | None = Field(
        default=None,
        description="where the built documentation is served: each alert links to its page; default: the page's file",
        examples=[_RUNBOOKS_EXAMPLE],
    )
