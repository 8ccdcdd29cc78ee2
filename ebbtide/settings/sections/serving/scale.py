"""The section of scale: how many pods a service has, and by which metric.

The cluster's metrics server reads CPU and memory. Other metrics come from Prometheus through KEDA: requests in flight,
latency and throughput are counted at the gateway, since a queue inside a pod hides demand that other pods could take;
GPUs are read on the nodes.

Latency and throughput fall under overload: requests that time out have no response to measure, and a saturated service
responds no faster. So they are only allowed together with `inFlight`.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema

from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.business_hours import NightAwake
from ebbtide.settings.sections.checked import MIN_WITHIN_MAX, Check, Settings
from ebbtide.settings.sections.grammar import choice, text
from ebbtide.settings.sections.types import (
    Count,
    Latency,
    Percent,
    Positive,
    PositiveDuration,
    PositiveNumber,
    WallTimeText,
)

METRIC_NAME = r"^[a-zA-Z_:][a-zA-Z0-9_:]*$"


def _promql(value: object) -> str:
    expected, example = "a PromQL query with one result", "sum(my_backlog)"
    if not isinstance(value, str) or not value.strip():
        raise wanted("scale.promql", expected, example=example)
    from ebbtide.settings.sections.serving.queries import query_fault  # the parser is loaded only for a query

    if fault := query_fault(value.strip()):
        hint = "another store's extensions of PromQL belong in a recording rule there"
        raise wanted("scale.promql", expected, found=f"{value.strip()!r}: {fault}", example=example, hint=hint)
    return value.strip()


_MetricName: TypeAlias = Annotated[
    str,
    *text(METRIC_NAME, "scale.metric-name", "the name of a gauge, as its pods expose it", "vllm:num_requests_waiting"),
]


class WaitingTarget(Settings):
    """Requests that wait inside the model server, from its own metric."""

    metric: _MetricName = Field(
        description="a gauge at the pods' port named metrics", examples=["vllm:num_requests_waiting"]
    )
    target: PositiveNumber = Field(description="waiting requests per pod", examples=["4"])


class QueryTarget(Settings):
    """Any query to Prometheus."""

    promql: Annotated[str, BeforeValidator(_promql), WithJsonSchema({"type": "string", "minLength": 1})] = Field(
        description="a query with one result for the entire service", examples=["sum(my_backlog)"]
    )
    target: PositiveNumber = Field(description="target value per pod", examples=["10"])


def _latency_has_company(latency: object, throughput: object, in_flight: object) -> None:
    for key, target in (("latency", latency), ("throughput", throughput)):
        if target is not None and in_flight is None:
            expected = f"{key} only together with inFlight, since it has no value under overload"
            raise wanted("scale.falls-silent", expected, found="no inFlight", example="{ inFlight: 3 }", at=key)


class MetricSettings(Settings):
    """Targets; the target that needs the most pods decides."""

    checks: ClassVar[tuple[Check, ...]] = (Check(("latency", "throughput", "in_flight"), _latency_has_company),)

    cpu: Percent | None = Field(default=None, description="average use, in percent of the request", examples=["70%"])
    memory: Percent | None = Field(default=None, description="average use, in percent of the request", examples=["80%"])
    gpu: Percent | None = Field(default=None, description="average utilization of the GPUs", examples=["70%"])
    in_flight: PositiveNumber | None = Field(
        default=None,
        description="requests in flight per pod, counted at the gateway, including waiting ones",
        examples=["3"],
    )
    queue: WaitingTarget | None = Field(
        default=None,
        description="requests that wait inside each pod, from a gauge of the pod",
        examples=['{ metric: "vllm:num_requests_waiting", target: 4 }'],
    )
    latency: Latency | None = Field(
        default=None,
        description="95th percentile of two minutes, measured at the gateway; in addition to inFlight",
        examples=["300ms"],
    )
    throughput: PositiveNumber | None = Field(
        default=None,
        description="responses per second and pod, measured at the gateway; in addition to inFlight",
        examples=["20"],
    )
    query: QueryTarget | None = Field(
        default=None, description="a PromQL query", examples=["{ promql: sum(my_backlog), target: 10 }"]
    )

    @property
    def gateway_targets(self) -> Mapping[str, float]:
        """Return the targets that are counted at the gateway, by key; latency in seconds."""
        latency = None if self.latency is None else self.latency.total_seconds()
        targets = {"inFlight": self.in_flight, "latency": latency, "throughput": self.throughput}
        return {key: value for key, value in targets.items() if value is not None}

    @property
    def of_gateway(self) -> Sequence[str]:
        return [*self.gateway_targets]

    @property
    def external(self) -> Sequence[str]:
        """Return the keys of metrics that come from Prometheus through KEDA."""
        metrics = {"gpu": self.gpu, "queue": self.queue, "query": self.query}
        return [*self.of_gateway, *(key for key, value in metrics.items() if value is not None)]

    @property
    def of_pods(self) -> Sequence[str]:
        """Return the keys of metrics that the metrics server reads."""
        return [key for key, value in {"cpu": self.cpu, "memory": self.memory}.items() if value is not None]

    @property
    def keys(self) -> Sequence[str]:
        return [*self.of_pods, *self.external]


def _growth_has_a_metric(least: int, most: int, metrics: MetricSettings) -> None:
    if most > least and not metrics.keys:
        expected = "a metric, since max is above min"
        raise wanted("scale.no-metric", expected, found="none", example="{ inFlight: 3 }", at="metrics")
    if most == least and metrics.keys:
        expected = "max above min with metrics"
        raise wanted("scale.no-room", expected, found=f"{most} for both", example=f"max: {most + 3}", at="max")


def _zero_can_end(least: int, metrics: MetricSettings) -> None:
    if least == 0 and metrics.query is None:
        hint = "nothing holds a request while a service sleeps, so HTTP wakes nothing"
        expected = "at least 1, or an additional query that has a value while no pod runs"
        raise wanted("scale.zero", expected, found="0", example="1", hint=hint, at="min")


class FloorKind(StrEnum):
    """Source of the floor."""

    CALENDAR = "calendar"
    FORECAST = "forecast"


class EventSettings(Settings):
    """A promotion or a launch: pods are ready before it begins."""

    at: WallTimeText = Field(
        description="start: a date and a time of day in the stack's time zone", examples=['"2026-11-27T09:00"']
    )
    for_: PositiveDuration = Field(alias="for", description="duration", examples=["6h"])
    min: Positive = Field(
        description="minimum number of pods, above the scale's min and at most its max", examples=["8"]
    )

    @property
    def until(self) -> datetime:
        """Return the end in wall time, as `at`."""
        return self.at + self.for_


class NightSettings(NightAwake):
    """Work at a fixed time of each day, such as every night: pods are ready before it begins."""

    min: Positive = Field(
        description="minimum number of pods, above the scale's min and at most its max", examples=["6"]
    )


def _floor_knows_something(
    floor: FloorKind | None, during: int | None, overnight: Sequence[NightSettings], events: Sequence[EventSettings]
) -> None:
    if floor is FloorKind.CALENDAR and during is None and not overnight and not events:
        expected = "open, overnight or events with floor: calendar, which has no effect by itself"
        raise wanted("floor.nothing", expected, found="none", example="{ floor: calendar, open: 4 }", at="floor")


def _calendar_has_a_floor(
    floor: FloorKind | None, during: int | None, overnight: Sequence[NightSettings], events: Sequence[EventSettings]
) -> None:
    for key, present in (("open", during is not None), ("overnight", bool(overnight)), ("events", bool(events))):
        if present and floor is None:
            expected = f"floor in addition to {key}: it makes the minimum follow the calendar"
            raise wanted("floor.missing", expected, found="no floor", example="floor: calendar", at=key)


def _floor_stands_under_growth(floor: FloorKind | None, least: int, most: int, metrics: MetricSettings) -> None:
    if floor is not None and most <= least and not metrics.keys:
        expected = "a service that scales with floor: metrics, and max above min"
        example = "{ metrics: { inFlight: 3 }, min: 1, max: 12, floor: calendar, open: 4 }"
        raise wanted("floor.no-growth", expected, found=f"min: {least}, max: {most}", example=example, at="floor")


def _forecast_counts_requests(floor: FloorKind | None, metrics: MetricSettings) -> None:
    if floor is FloorKind.FORECAST and metrics.in_flight is None and metrics.throughput is None:
        expected = "inFlight or throughput with floor: forecast, which forecasts one of them"
        raise wanted(
            "floor.no-forecast", expected, found=", ".join(metrics.keys) or "none", example="calendar", at="floor"
        )


MARGINS = (1.0, 4.0)


def _margin_is_of_a_forecast(margin: float, floor: FloorKind | None) -> None:
    if not MARGINS[0] <= margin <= MARGINS[1]:
        expected = f"a factor from {MARGINS[0]:g} to {MARGINS[1]:g} on the forecast"
        raise wanted("floor.margin", expected, found=f"{margin:g}", example="1.2", at="margin")
    if margin != 1 and floor is not FloorKind.FORECAST:
        expected = "floor: forecast with margin, which is a factor on the forecast"
        raise wanted("floor.margin-alone", expected, found=floor or "no floor", example="floor: forecast", at="margin")


class ScaleSettings(Settings):
    """Number of pods, from `min` to `max`."""

    checks: ClassVar[tuple[Check, ...]] = (
        MIN_WITHIN_MAX,
        Check(("min", "max", "metrics"), _growth_has_a_metric),
        Check(("min", "metrics"), _zero_can_end),
        Check(("floor", "open", "overnight", "events"), _floor_knows_something),
        Check(("floor", "open", "overnight", "events"), _calendar_has_a_floor),
        Check(("floor", "min", "max", "metrics"), _floor_stands_under_growth),
        Check(("floor", "metrics"), _forecast_counts_requests),
        Check(("margin", "floor"), _margin_is_of_a_forecast),
    )

    metrics: MetricSettings = Field(
        default=MetricSettings(), description="target value per pod", examples=["{ inFlight: 3 }"]
    )
    min: Count = Field(default=1, description="minimum number of pods", examples=["1"])
    max: Positive = Field(default=1, description="maximum number of pods", examples=["12"])
    floor: Annotated[FloorKind, *choice(*FloorKind, planned={})] | None = Field(
        default=None,
        description="planned minimum of pods. calendar: by open, overnight and events; forecast: also by the "
        "last seven days",
        examples=["calendar"],
    )
    margin: PositiveNumber = Field(
        default=1, description="factor on the forecast; ebbtide advise floors finds it", examples=["1.2"]
    )
    open: Positive | None = Field(
        default=None, description="minimum number of pods during business hours; in addition to floor", examples=["4"]
    )
    overnight: tuple[NightSettings, ...] = Field(
        default=(),
        description="daily work at a fixed time; in addition to floor",
        examples=['[{ at: "02:00", for: 2h, min: 6 }]'],
    )
    events: tuple[EventSettings, ...] = Field(
        default=(),
        description="promotions and launches by date; in addition to floor",
        examples=['[{ at: "2026-11-27T09:00", for: 6h, min: 8 }]'],
    )

    @property
    def grows(self) -> bool:
        return self.max > self.min

    @property
    def planned(self) -> bool:
        """True if the minimum follows the calendar."""
        return self.floor is not None and (self.open is not None or bool(self.overnight) or bool(self.events))
