"""The exporter's config document. It contains prices and the calendar's end, which the exporter's image lacks."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime

from ebbtide.vocabulary.documents import OMIT_DEFAULT, SETTING, Document, UnreadableConfig
from ebbtide.vocabulary.labels import NAMESPACE
from ebbtide.vocabulary.windows import MINUTES_PER_DAY, wall_to_instant

MOST_LABEL_VALUES = 50
"""Values of one cost label that an exporter reports until it restarts. Further ones are `OTHER_VALUES`."""
NO_VALUE, OTHER_VALUES = "no value", "other values"
"""In place of values of labels, which never contain a blank. Prometheus takes an empty value for a missing label."""


def metric_label(key: str) -> str:
    """Return the name in Prometheus of a label of pods, in the form that kube-state-metrics uses: `label_team`."""
    return "label_" + re.sub(r"[^A-Za-z0-9_]", "_", key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The on-demand list price."""

    instance_type: str
    dollars_per_hour: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMax:
    """The highest number of nodes that the stack file allows for a group."""

    group: str
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelValues:
    """A label that a pod must have, with one of these values."""

    key: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedRule:
    """The pods that a rule for adopted pods selects."""

    name: str
    namespace: str
    selector: tuple[LabelValues, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterConfig(Document):
    namespace: str  # of the exporter and of the closer's CronJobs
    hpa_namespaces: tuple[str, ...] = ()
    prices: tuple[Price, ...] = ()
    tls_endpoints: tuple[str, ...] = ()  # host:port
    timezone: str = field(default="UTC", metadata={SETTING: "business_hours.timezone"})
    holidays_until: date | None = None  # last day with known holidays; None: no calendar
    adopted: tuple[AdoptedRule, ...] = field(default=(), metadata=OMIT_DEFAULT)
    workload_namespaces: tuple[str, ...] = field(default=(NAMESPACE,), metadata=OMIT_DEFAULT)
    """Namespaces of the stack's Deployments and StatefulSets that may sleep."""
    team_namespaces: tuple[str, ...] = field(default=(), metadata=OMIT_DEFAULT)
    """Further namespaces with adopted ones that may sleep. A team may delete its namespace."""
    sleepers: tuple[str, ...] = field(default=(), metadata=OMIT_DEFAULT)
    """Deployments and StatefulSets that the workload controller wakes, in the form "deployment ebbtide/api"."""
    group_max: tuple[GroupMax, ...] = field(default=(), metadata=OMIT_DEFAULT)
    cost_labels: tuple[str, ...] = field(default=(), metadata={**OMIT_DEFAULT, SETTING: "costs.labels"})
    """Keys of the pods' labels by which the ledger divides costs."""

    @property
    def dollars_per_hour(self) -> Mapping[str, float]:
        return {price.instance_type: price.dollars_per_hour for price in self.prices}

    @property
    def max_nodes(self) -> Mapping[str, int]:
        return {entry.group: entry.nodes for entry in self.group_max}

    @property
    def holidays_end(self) -> datetime | None:
        if self.holidays_until is None:
            return None
        return wall_to_instant(self.timezone, self.holidays_until, MINUTES_PER_DAY, last=True)

    def check(self) -> None:
        _ = self.holidays_end  # raises for a time zone that does not exist
        for endpoint in self.tls_endpoints:
            if not _is_endpoint(endpoint):
                raise UnreadableConfig(
                    f"tlsEndpoints: found {endpoint!r}, wanted host:port, for example redis.example.com:6379"
                )


def _is_endpoint(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isdecimal() and 0 < int(port) < 65536
