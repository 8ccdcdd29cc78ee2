"""What the provisioning side says to the exporter, in its config document; and the labels of nodes, which it reads.

The document is one JSON object, keys in camelCase. The exporter cannot read prices or calendars: it is told.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, cast

from ebbtide.vocabulary.controller_config import UnreadableConfig, encoded, record
from ebbtide.vocabulary.labels import PREFIX
from ebbtide.vocabulary.windows import MINUTES_PER_DAY, wall_to_instant

EXPORTER = "ebbtide-exporter"
"""Name of the exporter's Deployment, account, roles and ConfigMap."""

NODE_GROUP = PREFIX + "node-group"
NODE_KIND = PREFIX + "node-kind"
GPU_RESOURCE = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """On demand, by the list."""

    instance_type: str
    dollars_per_hour: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterConfig:
    namespace: str  # of the process, and of the closer's CronJobs
    hpa_namespaces: tuple[str, ...] = ()
    prices: tuple[Price, ...] = ()
    tls_endpoints: tuple[str, ...] = ()  # host:port
    timezone: str = "UTC"
    holidays_until: date | None = None  # the last day for which they are known; None: there is no calendar

    @property
    def dollars_per_hour(self) -> Mapping[str, float]:
        return {price.instance_type: price.dollars_per_hour for price in self.prices}

    @property
    def holidays_end(self) -> datetime | None:
        if self.holidays_until is None:
            return None
        return wall_to_instant(self.timezone, self.holidays_until, MINUTES_PER_DAY, last=True)


def dump(config: ExporterConfig) -> str:
    """Equal configs give equal text."""
    return json.dumps(encoded(config), indent=2, sort_keys=True) + "\n"


def load(text: str) -> ExporterConfig:
    """Raises `UnreadableConfig`."""
    try:
        config = record(ExporterConfig, cast("dict[str, Any]", json.loads(text)))
        _ = config.holidays_end  # a time zone that does not exist
    except (LookupError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UnreadableConfig(f"the document is incomplete or malformed: {error!r}") from error
    if wrong := [it for it in config.tls_endpoints if not _is_endpoint(it)]:
        raise UnreadableConfig(
            f"tlsEndpoints: found {wrong[0]!r}, wanted host:port, for example redis.example.com:6379"
        )
    return config


def _is_endpoint(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isdecimal() and 0 < int(port) < 65536
