"""Evidence and use for tests of advice on sizes, with defaults."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from ebbtide.advice.sizes.evidence import Evidence, Figure, Use
from ebbtide.advice.sizes.rules import Asked, Resource, Verdict, decide
from ebbtide.monitoring.links import Reply

Points: TypeAlias = Sequence[tuple[float, float]]

EVIDENCE = Evidence()


def steady(amount: float) -> Figure:
    return Figure(amount, amount, amount)


def use(*, cpu: float = 500, memory: float = 1000, **changes: Any) -> Use:
    """Of a container that was seen for two weeks, and that nothing was short of."""
    return Use(**{"days": 14, "cpu": steady(cpu), "memory": steady(memory), "kills": 0, **changes})


def asked(**changes: Any) -> Asked:
    return Asked(**{"cpu": 2000, "memory": 4096, **changes})


def decided(resource: Resource, of: Use, given: Asked | None = None) -> Verdict:
    return decide(resource, given or asked(), of, EVIDENCE)


class Told:
    """A Prometheus whose answers are written down: courses by a part of the question, points by hours before `until`."""

    where = "Prometheus at test"

    def __init__(self, until: datetime, courses: Mapping[str, Mapping[str, Points]]) -> None:
        self._until, self._courses = until, courses

    def get(self, path: str, query: Mapping[str, object]) -> Reply:
        asked = str(query.get("query", ""))
        if path == "status/runtimeinfo":
            return self._reply({})
        if path == "query" and asked.startswith(("vector", "max(timestamp")):
            return self._reply({"result": [{"metric": {}, "value": [0, str(self._until.timestamp())]}]})
        found = next((series for part, series in self._courses.items() if part in asked), {})
        if path == "query":
            result = [{"metric": labels(text), "value": [0, str(points[-1][1])]} for text, points in found.items()]
            return self._reply({"result": result})
        return self._reply({"result": [self._series(text, points) for text, points in found.items()]})

    def _series(self, text: str, points: Points) -> dict[str, Any]:
        at = [(self._until.timestamp() - hours * 3600, str(value)) for hours, value in points]
        return {"metric": labels(text), "values": at}

    def _reply(self, data: dict[str, Any]) -> Reply:
        return Reply({"status": "success", "data": data}, self._until)


def labels(text: str) -> dict[str, str]:
    """`namespace=ebbtide workload=api`"""
    return dict(part.split("=") for part in text.split())


def hourly(days: float, value: Callable[[float], float]) -> Points:
    """A point each hour until now; `value` of the hours before now."""
    return [(float(hour), value(hour)) for hour in range(round(days * 24) - 1, -1, -1)]
