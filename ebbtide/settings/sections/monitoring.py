"""The section of monitoring: which Prometheus watches the stack, and how it is told what to scrape and whom to tell."""

import re
from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from ebbtide.settings.file.wanted import wanted
from ebbtide.settings.sections.alerting import DEAD_MAN_KEY, TOKEN_KEY, Alerts, RemoteWrite
from ebbtide.settings.sections.checked import Check, Settings
from ebbtide.settings.sections.pods.pod import LabelKey, LabelValue
from ebbtide.settings.sections.redis import class_name
from ebbtide.settings.sections.types import Mebibytes, acted_on

PROMETHEUS = "ebbtide-prometheus"
ALERTMANAGER = "ebbtide-alertmanager"
"""The workloads and Services of `bundled`, in the namespace of the controller."""

RETENTION = timedelta(days=30)
STORAGE = 50 * 1024
"""MiB."""
MEMORY = 1024
"""MiB: 60,000 series took 676, and questions over many days need some too."""
LEAST_STORAGE = 1024
"""MiB: below it the parts that Prometheus writes at once, blocks of two hours, leave no room for others."""

_RETENTION = r"^[1-9][0-9]{0,3}[dh]$"
_LONGEST_RETENTION = timedelta(days=1096)
_NAMESPACE = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
_RUNBOOKS_EXAMPLE = "https://docs.example.com/ebbtide"


class PrometheusKind(StrEnum):
    NONE = "none"
    EXISTING = "existing"
    BUNDLED = "bundled"


class Discovery(StrEnum):
    """How a Prometheus that is there learns what to scrape and which rules to evaluate."""

    OPERATOR = "operator"  # PodMonitors and a PrometheusRule
    CONFIG_MAP = "config-map"  # files, which its own config names


def _retention(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, str) and re.fullmatch(_RETENTION, value):
        span = timedelta(**{"days" if value.endswith("d") else "hours": int(value[:-1])})
        if timedelta(days=1) <= span <= _LONGEST_RETENTION:
            return span
    what = f"how long samples are kept, from a day to {_LONGEST_RETENTION.days} days: a number and d or h"
    raise wanted("monitoring.retention-form", what, example="30d")


def _enough(storage: int) -> int:
    if storage < LEAST_STORAGE:
        raise wanted("monitoring.storage-small", "at least 1Gi", found=f"{storage}Mi", example="50Gi")
    return storage


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


_Retention: TypeAlias = Annotated[
    timedelta,
    BeforeValidator(_retention),
    WithJsonSchema({"type": "string", "pattern": _RETENTION}),
    PlainSerializer(lambda span: f"{int(span / timedelta(hours=1))}h", return_type=str, when_used="json"),
]


def _existing_says_where(prometheus: PrometheusKind, namespace: str | None) -> None:
    if prometheus is PrometheusKind.EXISTING and namespace is None:
        what = "the namespace that Prometheus runs in: the network policies let it through, and nobody else"
        raise wanted("monitoring.namespace-missing", what, example="monitoring", at="namespace")


def _only_with(field: str, key: str, *kinds: PrometheusKind) -> Check:
    def rule(prometheus: PrometheusKind, value: object) -> None:
        if not value or prometheus in kinds:
            return
        with_this = "without a Prometheus" if prometheus is PrometheusKind.NONE else f"with prometheus: {prometheus}"
        raise wanted(
            "monitoring.key-of-nothing",
            f"no {key} {with_this}: it would do nothing",
            example=f"prometheus: {kinds[0]}",
            hint=_ITS_OWN.get(key, "") if prometheus is PrometheusKind.EXISTING else "",
            at=key,
        )

    return Check(("prometheus", field), rule)


_ITS_OWN = {
    "retention": "a Prometheus that is there has its own",
    "storage": "a Prometheus that is there has its own",
    "storageClass": "a Prometheus that is there has its own",
    "memory": "a Prometheus that is there has its own",
    "alerts": "alerts go where the Prometheus that is there sends them",
    "remoteWrite": "the Prometheus that is there writes, and its operator is told so in the object Prometheus",
}
_BUNDLED_ONLY = {
    "retention": "retention",
    "storage": "storage",
    "storage_class": "storageClass",
    "memory": "memory",
    "alerts": "alerts",
    "remote_write": "remoteWrite",
}


class MonitoringSettings(Settings):
    """Which Prometheus watches the stack."""

    checks: ClassVar[tuple[Check, ...]] = (
        Check(("prometheus", "namespace"), _existing_says_where),
        *(_only_with(key, key, PrometheusKind.EXISTING) for key in ("namespace", "discovery", "labels")),
        *(_only_with(key, key, PrometheusKind.EXISTING, PrometheusKind.BUNDLED) for key in ("runbooks", "dashboards")),
        *(_only_with(field, key, PrometheusKind.BUNDLED) for field, key in _BUNDLED_ONLY.items()),
    )

    prometheus: Annotated[PrometheusKind, *acted_on(*PrometheusKind, planned={})] = Field(
        default=PrometheusKind.NONE,
        description="none; existing: one that is there is told what to scrape and is given rules; "
        "bundled: one of the stack's own, with an Alertmanager where alerts says whom to tell",
        examples=["bundled"],
    )
    namespace: _Namespace | None = Field(
        default=None,
        description="for existing: where it runs. Its pods may reach the ports of metrics",
        examples=["monitoring"],
    )
    discovery: Discovery | None = Field(
        default=None,
        description="for existing: operator, its kinds; config-map: files of scrape jobs and rules in its namespace, "
        "for one without an operator; default: operator",
        examples=["config-map"],
    )
    labels: dict[LabelKey, LabelValue] = Field(
        default={},
        description="for existing: labels by which PodMonitors and PrometheusRules, or the ConfigMap, are chosen",
        examples=["{ release: kube-prometheus-stack }"],
    )
    runbooks: Annotated[str, AfterValidator(_runbooks)] | None = Field(
        default=None,
        description="where the built documentation is served: each alert links to its page; default: the page's file",
        examples=[_RUNBOOKS_EXAMPLE],
    )
    dashboards: bool = Field(
        default=False,
        description="whether Grafana's dashboards come along, as ConfigMaps that its sidecar looks for",
        examples=["true"],
    )
    retention: _Retention | None = Field(
        default=None, description="for bundled: how long samples are kept; default: 30d", examples=["30d"]
    )
    storage: Annotated[Mebibytes, AfterValidator(_enough)] | None = Field(
        default=None,
        description="for bundled: the size of its volume, of which 85 % are used before the oldest samples go; "
        "default: 50Gi",
        examples=["50Gi"],
    )
    storage_class: Annotated[str, AfterValidator(class_name)] | None = Field(
        default=None,
        description="for bundled: the StorageClass of its volumes; default: the cluster's own",
        examples=["gp3"],
    )
    memory: Mebibytes | None = Field(
        default=None,
        description="for bundled: what Prometheus asks for and may use; default: 1Gi, for some 100,000 series",
        examples=["2Gi"],
    )
    alerts: Alerts | None = Field(
        default=None,
        description="for bundled: whom Alertmanager tells; default: there is none, and alerts are seen in Prometheus",
        examples=["{ receiver: { slack: {}, secret: oncall } }"],
    )
    remote_write: RemoteWrite | None = Field(
        default=None,
        description="for bundled: where samples are written besides",
        examples=["{ url: https://mimir.example.com/api/v1/push, secret: mimir }"],
    )

    @property
    def kept_for(self) -> timedelta:
        return self.retention or RETENTION

    @property
    def storage_mib(self) -> int:
        return self.storage or STORAGE

    @property
    def memory_mib(self) -> int:
        return self.memory or MEMORY

    def secret_references(self) -> Iterator[tuple[tuple[str, ...], str, str]]:
        """Where, the Secret of the stack, and its key."""
        if self.alerts is not None:
            receiver = self.alerts.receiver
            yield ("alerts", "receiver", "secret"), receiver.secret, receiver.key
            if self.alerts.dead_man is not None:
                yield ("alerts", "deadMan", "secret"), self.alerts.dead_man.secret, DEAD_MAN_KEY
        if self.remote_write is not None and self.remote_write.secret is not None:
            yield ("remoteWrite", "secret"), self.remote_write.secret, TOKEN_KEY
