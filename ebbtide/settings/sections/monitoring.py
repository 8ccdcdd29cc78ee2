"""The section of monitoring: the Prometheus of the stack, its scrape jobs, rules and receivers."""

import re
from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer

from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.alerting import DEAD_MAN_KEY, TOKEN_KEY, Alerts, RemoteWrite
from ebbtide.settings.sections.checked import Check, Settings
from ebbtide.settings.sections.grammar import check_of, choice, needed_with, text, text_schema
from ebbtide.settings.sections.pods.pod import LabelKey, LabelValue
from ebbtide.settings.sections.redis import class_name
from ebbtide.settings.sections.types import Mebibytes
from ebbtide.text.quantities import memory_text
from ebbtide.vocabulary.labels import NAMESPACE

PROMETHEUS = "ebbtide-prometheus"
ALERTMANAGER = "ebbtide-alertmanager"
"""Workloads and Services of `bundled`, in the controller's namespace."""
OPERATED_SERVICE = "prometheus-operated"
"""The Service that Prometheus' operator creates, independent of the Prometheus' name."""
PROMETHEUS_PORT = 9090

RETENTION = timedelta(days=45)
"""A month and the ten days in which its ledger is closed."""
STORAGE = 50 * 1024
"""MiB."""
MEMORY = 1024
"""MiB: 60,000 series took 676, and queries over many days need some more."""
LEAST_STORAGE = 1024
"""MiB: below it Prometheus' blocks of two hours leave no space for others."""

_RETENTION = r"^[1-9][0-9]{0,3}[dh]$"
_LONGEST_RETENTION = timedelta(days=1096)
_NAMESPACE = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
_RUNBOOKS_EXAMPLE = "https://docs.example.com/ebbtide"


class PrometheusKind(StrEnum):
    NONE = "none"
    EXISTING = "existing"
    BUNDLED = "bundled"


class Discovery(StrEnum):
    """Delivery of scrape jobs and rules to an existing Prometheus."""

    OPERATOR = "operator"  # PodMonitors and a PrometheusRule
    CONFIG_MAP = "config-map"  # files, which its own config names


def _retention(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, str) and re.fullmatch(_RETENTION, value):
        span = timedelta(**{"days" if value.endswith("d") else "hours": int(value[:-1])})
        if timedelta(days=1) <= span <= _LONGEST_RETENTION:
            return span
    expected = f"how long samples are kept, from a day to {_LONGEST_RETENTION.days} days: a number and d or h"
    raise wanted("monitoring.retention-form", expected, example="45d")


def _enough(storage: int) -> int:
    if storage < LEAST_STORAGE:
        raise wanted("monitoring.storage-small", "at least 1Gi", found=f"{storage}Mi", example="50Gi")
    return storage


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
    str, *text(_NAMESPACE, "monitoring.namespace-form", "the name of a namespace", "monitoring")
]


_Retention: TypeAlias = Annotated[
    timedelta,
    BeforeValidator(_retention),
    text_schema(_RETENTION),
    PlainSerializer(lambda span: f"{int(span / timedelta(hours=1))}h", return_type=str, when_used="json"),
]


def _only_with(key: str, *kinds: PrometheusKind) -> Check:
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

    check = check_of(rule, "prometheus", key)
    return check._replace(refused=check.fields[1])


_ITS_OWN = {
    "retention": "an existing Prometheus has its own",
    "storage": "an existing Prometheus has its own",
    "storageClass": "an existing Prometheus has its own",
    "memory": "an existing Prometheus has its own",
    "alerts": "an existing Prometheus has its own receivers",
    "remoteWrite": "configure remote write in the object Prometheus of the existing operator",
}
"""What to do instead, by key of the bundled Prometheus."""


class MonitoringSettings(Settings):
    """The Prometheus that monitors the stack."""

    checks: ClassVar[tuple[Check, ...]] = (
        needed_with(
            "namespace",
            "prometheus",
            PrometheusKind.EXISTING,
            "monitoring.namespace-missing",
            "the namespace of Prometheus, which the network policies admit",
            "monitoring",
        ),
        *(_only_with(key, PrometheusKind.EXISTING) for key in ("namespace", "discovery", "labels")),
        *(_only_with(key, PrometheusKind.EXISTING, PrometheusKind.BUNDLED) for key in ("runbooks", "dashboards")),
        *(_only_with(key, PrometheusKind.BUNDLED) for key in _ITS_OWN),
    )

    prometheus: Annotated[PrometheusKind, *choice(*PrometheusKind, planned={})] = Field(
        default=PrometheusKind.NONE,
        description="none; existing: an existing Prometheus receives scrape jobs and rules; bundled: the stack "
        "brings Prometheus, and Alertmanager if alerts is set",
        examples=["bundled"],
    )
    namespace: _Namespace | None = Field(
        default=None,
        description="for existing: its namespace, whose pods may reach the metrics ports",
        examples=["monitoring"],
    )
    discovery: Discovery | None = Field(
        default=None,
        description="for existing: operator: objects of Prometheus' operator; config-map: files with scrape "
        "jobs and rules in its namespace, without the operator",
        examples=["config-map"],
        json_schema_extra={"default": Discovery.OPERATOR.value},
    )
    labels: dict[LabelKey, LabelValue] = Field(
        default={},
        description="for existing: labels of the PodMonitors and PrometheusRules, or of the ConfigMap, that it selects",
        examples=["{ release: kube-prometheus-stack }"],
    )
    runbooks: Annotated[str, AfterValidator(_runbooks)] | None = Field(
        default=None,
        description="address of the built documentation, to which alerts link; default: alerts name a command instead",
        examples=[_RUNBOOKS_EXAMPLE],
    )
    dashboards: bool = Field(
        default=False,
        description="create Grafana dashboards as ConfigMaps for Grafana's sidecar",
        examples=["true"],
    )
    retention: _Retention | None = Field(
        default=None,
        description="for bundled: retention of samples",
        examples=["45d"],
        json_schema_extra={"default": f"{RETENTION.days}d"},
    )
    storage: Annotated[Mebibytes, AfterValidator(_enough)] | None = Field(
        default=None,
        description="for bundled: size of its volume; at 85 % use the oldest samples are deleted",
        examples=["50Gi"],
        json_schema_extra={"default": memory_text(STORAGE)},
    )
    storage_class: Annotated[str, AfterValidator(class_name)] | None = Field(
        default=None,
        description="for bundled: StorageClass of its volumes; default: the cluster's default",
        examples=["gp3"],
    )
    memory: Mebibytes | None = Field(
        default=None,
        description="for bundled: memory request and limit of Prometheus; 1Gi is enough for about 100,000 series",
        examples=["2Gi"],
        json_schema_extra={"default": memory_text(MEMORY)},
    )
    alerts: Alerts | None = Field(
        default=None,
        description="for bundled: receivers of alerts; default: no Alertmanager, alerts are visible only in Prometheus",
        examples=["{ receiver: { slack: {}, secret: oncall } }"],
    )
    remote_write: RemoteWrite | None = Field(
        default=None,
        description="for bundled: an additional store for samples",
        examples=["{ url: https://mimir.example.com/api/v1/push, secret: mimir }"],
    )

    @property
    def address(self) -> str | None:
        """Return Prometheus' address within the cluster; None if there is none, or if its Service is unknown."""
        if self.prometheus is PrometheusKind.BUNDLED:
            return f"http://{PROMETHEUS}.{NAMESPACE}.svc:{PROMETHEUS_PORT}"
        if self.prometheus is PrometheusKind.EXISTING and self.discovery is not Discovery.CONFIG_MAP:
            return f"http://{OPERATED_SERVICE}.{self.namespace}.svc:{PROMETHEUS_PORT}"
        return None

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
        """Yield location, Secret of the stack, and key."""
        if self.alerts is not None:
            receiver = self.alerts.receiver
            yield ("alerts", "receiver", "secret"), receiver.secret, receiver.key
            if self.alerts.dead_man is not None:
                yield ("alerts", "deadMan", "secret"), self.alerts.dead_man.secret, DEAD_MAN_KEY
        if self.remote_write is not None and self.remote_write.secret is not None:
            yield ("remoteWrite", "secret"), self.remote_write.secret, TOKEN_KEY
