"""What the exporter is told, from a stack: where to look for HPAs, what nodes cost, which certificates to look at."""

from collections.abc import Iterator, Sequence

from ebbtide.prices import NoPrice, on_demand
from ebbtide.settings.every_pod import every_pod
from ebbtide.settings.model import StackSettings
from ebbtide.vocabulary.controller_config import RedisEndpoint
from ebbtide.vocabulary.exporter import ExporterConfig, Price
from ebbtide.vocabulary.labels import NAMESPACE


def exporter_config(
    settings: StackSettings, redis: RedisEndpoint, years: Sequence[int] | None = None
) -> ExporterConfig:
    """`years` are those whose holidays are listed; None: as the controllers have them."""
    hours = settings.business_hours.hours(years)
    return ExporterConfig(
        namespace=NAMESPACE,
        hpa_namespaces=tuple(sorted({NAMESPACE, *(it.namespace for it in every_pod(settings))})),
        prices=tuple(_prices(settings)),
        tls_endpoints=(f"{redis.host}:{redis.port}",) if redis.tls else (),
        timezone=hours.timezone,
        holidays_until=hours.holidays_known_until,
    )


def _prices(settings: StackSettings) -> Iterator[Price]:
    """Of the types that the file names; those without a price are left out, and so is what they cost."""
    for name in sorted({it for group in settings.node_groups.values() for it in group.instance_types}):
        try:
            yield Price(instance_type=name, dollars_per_hour=on_demand(settings.region, name))
        except NoPrice:
            continue
