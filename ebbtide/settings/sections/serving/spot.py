"""A variant on spot nodes: what it may be, and what it stands beside.

Its pods and those of one other variant, which is not on spot, stand behind one Service and take the same requests. So
when AWS takes every spot node, the others have all requests at once, and nobody has to notice: between variants of
their own a gateway knows no such thing, and refuses the share of one that has no pods.

**Which fills first.** Requests in flight are counted of both together, and each scales by how many there are for one
pod. The variant with the lower target grows first. A step of load that is above both targets brings pods of both; those
of the other one go again once the number is below its target.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.serving.scale import FloorKind
from ebbtide.settings.sections.workloads import WorkloadKind
from ebbtide.units.durations import format_duration, latency_text
from ebbtide.vocabulary.labels import Category

if TYPE_CHECKING:
    from ebbtide.settings.sections.pods.pod import Gpu
    from ebbtide.settings.sections.serving.scale import MetricSettings
    from ebbtide.settings.sections.serving.services import Hardware, VariantSettings

LONGEST_REQUEST = timedelta(minutes=2) - timedelta(seconds=20)
"""A spot node goes two minutes after its notice; until its pods are told, and have stopped, takes the rest."""

APART = 1.5
"""How far above the target of those on spot that of the others should be. Of pods that are wanted `n / APART` are
enough, rounded up: with 1.5 a number goes back to 2, with 1.3 no further than to 4."""


def spot_needs_no_gpu(spot: object, hardware: "Hardware | None", gpu: "Gpu") -> None:
    if spot and (gpu.count or hardware == "gpu"):
        expected = "no GPU with spot, since spot groups have no GPUs"
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


def spot_leaves_the_choice(variants: Mapping[str, "VariantSettings"]) -> None:
    """It takes the requests of the one without `when`, so it can have no condition and no share of its own."""
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


def spot_is_beside_another(variants: Mapping[str, "VariantSettings"]) -> None:
    if variants and all(pods.spot for pods in variants.values()):
        expected = (
            "another variant without when, not on spot nodes, that serves all requests while there are no spot nodes"
        )
        last = [*variants][-1]
        raise wanted("variants.all-spot", expected, found="none", example="spot: false", at=("variants", last, "spot"))


def requests_end_in_time(longest: timedelta, variants: Mapping[str, "VariantSettings"]) -> None:
    for name in _on_spot(variants):
        if longest > LONGEST_REQUEST:
            expected = (
                f"at most {format_duration(LONGEST_REQUEST)} with spot: a spot node stops two minutes after its notice"
            )
            actual = f"{format_duration(longest)} with variants.{name}.spot"
            hint = "longer work belongs in a queue, under ebbtide:workers"
            raise wanted("spot.long-requests", expected, found=actual, example="90s", hint=hint, at="longestRequest")


def forecasts_are_of_one_variant(variants: Mapping[str, "VariantSettings"]) -> None:
    """What is counted is of both together, and each would have pods for all of it."""
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


def others_fill_last(variants: Mapping[str, "VariantSettings"]) -> None:
    """By each metric that is counted of both together, in flight for each pod or latency: see the module."""
    base = next((name for name, pods in variants.items() if pods.takes_the_rest and not pods.spot), None)
    if base is None or not variants[base].scale.grows:
        return
    for spot in _on_spot(variants):
        if variants[spot].scale.grows:
            _fills_first(spot, variants[spot].scale.metrics, base, variants[base].scale.metrics)


def _fills_first(spot: str, first: "MetricSettings", base: str, last: "MetricSettings") -> None:
    for key, target in last.gateway_targets.items():
        lower = first.gateway_targets.get(key)
        if lower is not None and lower < target:
            continue
        if lower is None:
            expected = f"no {key}, or a lower one of {spot} too, which is on spot and fills first"
            example = f"{key}: {_text(key, target / APART)} of {spot}"
        else:
            expected = f"above {_text(key, lower)}, the target of {spot}, which is on spot and fills first"
            example = f"{key}: {_text(key, APART * lower)}"
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


def _on_spot(variants: Mapping[str, "VariantSettings"]) -> Iterator[str]:
    yield from (name for name, pods in variants.items() if pods.spot)
