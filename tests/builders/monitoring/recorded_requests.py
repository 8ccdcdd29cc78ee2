"""A link to a Prometheus that recorded the requests of a service, and how long answers took. Nothing else is known."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import TypeAlias

from ebbtide.monitoring.links import Reply
from ebbtide.monitoring.recorded import Recorded

WINDOW_S = 600
ANSWERS, MEDIAN = Recorded.THROUGHPUT.value, Recorded.MEDIAN_LATENCY.value
Series: TypeAlias = Mapping[tuple[str, str], Mapping[int, float]]


class RecordedRequests:
    """`series`: by recorded name and variant, values by how many windows before now they end."""

    where = "Prometheus at http://canned"

    def __init__(self, series: Series, now: datetime) -> None:
        self._series, self._now = series, now

    def get(self, path: str, query: Mapping[str, object]) -> Reply:
        if path == "status/runtimeinfo":
            return Reply({"status": "success", "data": {"storageRetention": "30d"}}, self._now)
        if query["query"] == "vector(1)":
            sample = {"metric": dict[str, str](), "value": [self._now.timestamp(), "1"]}
            return Reply({"status": "success", "data": {"result": [sample]}}, self._now)
        match = re.search(
            r'(customer_\S+?)\{customer="acme",service="embedder",variant="(\w*)"\}\[10m\]', str(query["query"])
        )
        nothing: Mapping[int, float] = {}
        values = self._series.get((match[1], match[2]), nothing) if match else nothing
        points = [
            [self._now.timestamp() - ago * WINDOW_S, f"{value}"] for ago, value in sorted(values.items(), reverse=True)
        ]
        result: list[object] = [{"metric": dict[str, str](), "values": points}] if points else []
        return Reply({"status": "success", "data": {"result": result}}, self._now)
