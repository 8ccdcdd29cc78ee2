"""While a part is away the stack's own alert says so, and it ends when the part is back.

Rules, scrape jobs and exporter are the rendered ones; everything is looked at each second, and no alert waits. Of
Prometheus itself the dead man's alert is what tells: `tests/control_plane/monitoring/test_bundled_monitoring`.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from ebbtide.demo.model_server import ModelServer
from tests.builders.control_plane import eventually
from tests.serving.support.monitored import monitored
from tests.serving.support.site import Serving
from tests.serving.support.stack import served, service

pytestmark = [pytest.mark.serving, pytest.mark.timeout(240)]

COUNTED = service("counted")
WORKED = service("worked", "scale: { metrics: { cpu: 70% }, min: 1, max: 3 }")
IDLE = ModelServer(port=0)
MISSING, UNLED = "EbbtideServiceMetricMissing", "EbbtideGatewayUnled"
OF_PARTS = {MISSING, UNLED, "EbbtideGatewayProxiesFew", "EbbtideHpaBlind", "EbbtideExporterAway"}


@pytest.fixture(scope="module")
def watched(serving: Serving) -> Iterator[Serving]:
    """Two services, one that is counted at the gateway and one whose CPU is read; all is well."""
    with (
        monitored(serving, COUNTED, WORKED, at_once=True),
        served(serving, COUNTED, WORKED, replicas={"counted": 1, "worked": 1}, server=IDLE, autoscaled=True),
    ):
        eventually(lambda: sees_all(serving), what="both autoscalers to see their metrics", patience=120)
        eventually(lambda: not firing(serving), what="no alert on a part", patience=120)
        yield serving


def sees_all(serving: Serving) -> bool:
    found = serving.gateway_metrics("ebbtide_hpa_scaling_active == 1")
    return {one["metric"]["hpa"] for one in found} == {"counted", "worked"}


def firing(serving: Serving) -> set[tuple[str, str]]:
    """Alerts on parts that are away, each with the service that it names; other alerts are about what is not here."""
    alerts: list[dict[str, Any]] = serving.prometheus("alerts")["alerts"]
    return {
        (one["labels"]["alertname"], one["labels"].get("service", one["labels"].get("hpa", "")))
        for one in alerts
        if one["state"] == "firing" and one["labels"]["alertname"] in OF_PARTS
    }


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ("keda", {(MISSING, "counted"), ("EbbtideHpaBlind", "counted")}),
        ("metrics-server", {(MISSING, "worked"), ("EbbtideHpaBlind", "worked")}),
        ("envoy-gateway", {(UNLED, "")}),
    ],
)
def test_it_fires_while_the_part_is_away_and_ends_after(
    watched: Serving, part: str, told: set[tuple[str, str]]
) -> None:
    watched.away(part)
    try:
        eventually(lambda: firing(watched) == told, what=f"{told} alone", patience=90)
    finally:
        watched.back(part)

    eventually(lambda: not firing(watched), what="the end of the alerts", patience=90)
