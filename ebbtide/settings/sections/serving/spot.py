"""A variant on spot nodes, and its relation to the others.

Its pods and those of one variant that is not on spot nodes share a Service and receive the same requests. If AWS
reclaims every spot node, the others receive all requests at once. A gateway cannot do that between separate variants:
the share of one without pods would fail.

**Which grows first.** Requests in flight are counted for both together, and each scales by the number per pod. The
variant with the lower target grows first. A step of load above both targets adds pods of both; the other's are removed
once the number is below its target.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Protocol

from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.pods.pod import Gpu
from ebbtide.settings.sections.serving.routes import When
from ebbtide.settings.sections.serving.scale import FloorKind, MetricSettings, ScaleSettings
from ebbtide.settings.sections.workloads import WorkloadKind
from ebbtide.text.durations import format_duration, latency_text
from ebbtide.vocabulary.labels import Category

LONGEST_REQUEST = timedelta(minutes=2) - timedelta(seconds=20)
"""A spot node is reclaimed two minutes after its notice; notifying and stopping its pods takes the remaining time."""

MIN_TARGET_RATIO = 1.5
"""Minimum ratio of the other variants' targets to the targets on spot nodes. Of `n` other pods, `n / MIN_TARGET_RATIO`
then suffice, rounded up: with 1.5 their number falls back to 2, with 1.3 only to 4.
"""


class Variant(Protocol):
    """The keys of a variant that the rules for spot nodes compare; `services.VariantSettings` has them."""

    @property
    def spot(self) -> bool: ...
    @property
    def when(self) -> When | None: ...
    @property
    def weight(self) -> int | None: ...
    @property
    def takes_the_rest(self) -> bool: ...
    @property
    def scale(self) -> ScaleSettings: ...


def spot_needs_no_gpu(spot: object, hardware: str | None, gpu: Gpu) -> None:
    if spot and (gpu.count or hardware == "gpu"):
        expected = "no GPU with spot: variants with GPUs run on demand"
        actual = f"gpu: {gpu.count}" if gpu.count else "hardware: gpu"
        raise wanted("variant.spot-gpu", expected, found=actual, example="hardware: cpu", at="spot")


def spot_is_not_fixed(spot: object, category: Category) -> None:
    if spot and category is Category.FIXED:
        expected = "flexible with spot: a fixed pod is never evicted, but AWS may take a spot node at any time"
        raise wanted("variant.spot-fixed", expected, found="fixed", example="category: flexible", at="category")


def spot_keeps_no_state(spot: object, kind: WorkloadKind) -> None:
    if spot and kind is WorkloadKind.STATEFUL_SET:
        expected = "deployment with spot: a disk stays in its zone, where there may be no spot node for its pod"
        raise wanted("variant.spot-stateful", expected, found=kind.value, example="kind: deployment", at="kind")


def spot_leaves_the_choice(variants: Mapping[str, Variant]) -> None:
    """A variant on spot shares the requests of the variant without `when`, so it has no condition and no weight."""
    for name in _on_spot(variants):
        if variants[name].when is not None:
            expected = "no when with spot: it shares the requests of the variant without when"
            raise wanted(
                "variants.spot-when", expected, found="both", example="spot: false", at=("variants", name, "spot")
            )
    weighted = next((name for name, pods in variants.items() if pods.weight is not None), None)
    for name in _on_spot(variants) if weighted is not None else ():
        expected = "no weights with spot: while AWS has taken its nodes, its share of requests would fail"
        hint = "without weights it shares all requests of the variant without when"
        raise wanted(
            "variants.spot-weight",
            expected,
            found=f"weights, of {weighted}",
            example="spot: false",
            hint=hint,
            at=("variants", name, "spot"),
        )


def spot_is_beside_another(variants: Mapping[str, Variant]) -> None:
    if variants and all(pods.spot for pods in variants.values()):
        expected = (
            "another variant without when, not on spot nodes, that serves all requests while there are no spot nodes"
        )
        last = [*variants][-1]
        raise wanted("variants.all-spot", expected, found="none", example="spot: false", at=("variants", last, "spot"))


def requests_end_in_time(longest: timedelta, variants: Mapping[str, Variant]) -> None:
    for name in _on_spot(variants):
        if longest > LONGEST_REQUEST:
            expected = (
                f"at most {format_duration(LONGEST_REQUEST)} with spot: a spot node stops two minutes after its notice"
            )
            actual = f"{format_duration(longest)} with variants.{name}.spot"
            hint = "longer work belongs in a queue, under ebbtide:workers"
            raise wanted("spot.long-requests", expected, found=actual, example="90s", hint=hint, at="longestRequest")


def forecasts_are_of_one_variant(variants: Mapping[str, Variant]) -> None:
    """Metrics count the requests of both variants together, so each would have pods for all requests."""
    if not any(_on_spot(variants)):
        return
    for name, pods in variants.items():
        if pods.takes_the_rest and pods.scale.floor is FloorKind.FORECAST:
            raise wanted(
                "variants.spot-forecast",
                "floor: calendar with spot: requests of both variants are counted together",
                found="forecast",
                example="calendar",
                at=("variants", name, "scale", "floor"),
            )


def others_fill_last(variants: Mapping[str, Variant]) -> None:
    """Compare each metric that is counted for both together, in flight per pod or latency: see the module."""
    base = next((name for name, pods in variants.items() if pods.takes_the_rest and not pods.spot), None)
    if base is None or not variants[base].scale.grows:
        return
    for spot in _on_spot(variants):
        if variants[spot].scale.grows:
            _fills_first(spot, variants[spot].scale.metrics, base, variants[base].scale.metrics)


def _fills_first(spot: str, first: MetricSettings, base: str, last: MetricSettings) -> None:
    for key, target in last.gateway_targets.items():
        lower = first.gateway_targets.get(key)
        if lower is not None and lower < target:
            continue
        if lower is None:
            expected = f"no {key}, or also a lower one of {spot}, which is on spot and fills first"
            example = f"{key}: {_text(key, target / MIN_TARGET_RATIO)} of {spot}"
        else:
            expected = f"above {_text(key, lower)}, the target of {spot}, which is on spot and fills first"
            example = f"{key}: {_text(key, MIN_TARGET_RATIO * lower)}"
        raise wanted(
            "variants.spot-target",
            expected,
            found=f"{_text(key, target)} of {base}",
            example=example,
            hint="set the keys of scale at each variant",
            at=("variants", base, "scale", "metrics", key),
        )


def _text(key: str, target: float) -> str:
    return latency_text(timedelta(seconds=target)) if key == "latency" else f"{target:g}"


def _on_spot(variants: Mapping[str, Variant]) -> Iterator[str]:
    yield from (name for name, pods in variants.items() if pods.spot)
