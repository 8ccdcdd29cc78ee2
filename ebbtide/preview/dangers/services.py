"""Dangers for the clients of a service: lost routes and variants, shares, request time, scaling and floors."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ebbtide.findings import Severity
from ebbtide.preview.dangers.compared import Compared, listed
from ebbtide.preview.dangers.kinds import danger_kind
from ebbtide.preview.document import Danger
from ebbtide.settings.sections.serving.routes import RouteSettings
from ebbtide.settings.sections.serving.scale import FloorKind, MetricSettings, ScaleSettings
from ebbtide.settings.sections.serving.services import ServiceSettings, VariantSettings, pod_name
from ebbtide.text.durations import format_duration, latency_text

ROUTE_LOST = danger_kind("route-lost", "a service loses its route", Severity.WARNING)
VARIANT_LOST = danger_kind("variant-lost", "a variant of a service is removed", Severity.WARNING)
SHARE_AT_ONCE = danger_kind("share-at-once", "a new variant gets its share of the requests at once", Severity.WARNING)
LONGEST_REQUEST_LOWERED = danger_kind(
    "longest-request-lowered", "a service's longestRequest is lowered", Severity.WARNING
)
TARGET_CHANGED = danger_kind(
    "target-changed", "a service scales by other targets or bounds", Severity.WARNING, Severity.NOTE
)
FLOOR_LOWERED = danger_kind("floor-lowered", "the floor of a service is lowered", Severity.WARNING, Severity.NOTE)


def service_dangers(compared: Compared) -> Iterator[Danger]:
    before, after = compared.before.settings.services, compared.after.settings.services
    for name, old in before.items():
        new = after.get(name)
        yield from _route_lost(name, old, new)
        if new is None:
            continue
        yield from _variants_lost(name, old, new)
        yield from _shares_at_once(name, old, new)
        yield from _less_time(name, old, new)
        for pods, variant in new.pods(name).items():
            former = old.pods(name).get(pods)
            if former is not None:
                yield from _scaling_changed(pods, former, variant)
                yield from _floor_lowered(pods, former.scale, variant.scale)


def _route_lost(name: str, old: ServiceSettings, new: ServiceSettings | None) -> Iterator[Danger]:
    route = None if new is None else new.route
    if old.route is None or (route is not None and _place(route) == _place(old.route)):
        return
    yield ROUTE_LOST.danger(
        subjects=(name,),
        text=f"takes {_place(old.route)} away from service {name}",
        impact="requests there are answered with 404",
        remedy="keep it until it receives no requests (dashboard services: throughput), or inform its users first",
    )


def _place(route: RouteSettings) -> str:
    model = "" if route.model is None else f" (model {route.model})"
    return f"{route.host}{route.path}{model}"


def _variants_lost(name: str, old: ServiceSettings, new: ServiceSettings) -> Iterator[Danger]:
    removed = {pods: variant for pods, variant in old.pods(name).items() if pods not in new.pods(name)}
    yield from _spot_lost(name, [pods for pods, variant in removed.items() if variant.spot], old, new)
    removed = {pods: variant for pods, variant in removed.items() if not variant.spot and variant.weight != 0}
    if not removed or new.route is None:
        return
    conditions = [variant.when.text for variant in removed.values() if variant.when is not None]
    shares = [f"{variant.weight} %" for variant in removed.values() if variant.weight]
    requests = f"requests with {listed(conditions)}" if conditions else f"{listed(shares) or 'all'} of the requests"
    yield VARIANT_LOST.danger(
        subjects=tuple(removed),
        text=f"removes {listed([*removed])} while {_place(new.route)} leads there",
        impact=f"{requests} are answered by {listed([*new.pods(name)])}",
        remedy=_first_to_zero(removed.values())
        + "see that the others answer them as well, and have the capacity: their max",
    )


def _first_to_zero(variants: Iterable[VariantSettings]) -> str:
    weighted = any(variant.weight for variant in variants)
    return "set its weight to 0 first, and remove it with the next change; " if weighted else ""


def _shares_at_once(name: str, old: ServiceSettings, new: ServiceSettings) -> Iterator[Danger]:
    """The route sends requests before the gateway knows a new variant's pods: `components.serving.routing`."""
    former = old.pods(name)
    at_once = {
        pods: variant.weight
        for pods, variant in new.pods(name).items()
        if variant.weight and (pods not in former or former[pods].weight is None)
    }
    if not at_once or old.route is None or new.route is None:
        return
    yield SHARE_AT_ONCE.danger(
        subjects=tuple(at_once),
        text=f"gives {listed([f'{pods} {weight} %' for pods, weight in at_once.items()])} of the requests at once",
        impact="the gateway answers a few requests of that moment with 500: one to seven at 600 requests a second",
        remedy="add a variant with weight: 0, and give it its share with the next change",
    )


def _spot_lost(name: str, removed: Sequence[str], old: ServiceSettings, new: ServiceSettings) -> Iterator[Danger]:
    """Spot variants whose base stays. If the base goes too, `_variants_lost` reports it."""
    base = None if old.base is None else pod_name(name, old.base)
    if not removed or base not in new.pods(name):
        return
    yield VARIANT_LOST.danger(
        subjects=tuple(removed),
        text=f"removes {listed(removed)}, on spot nodes",
        impact=f"{base} answers all requests, and may have too few pods until it has scaled",
        remedy=f"see that {base} has the capacity for them: its max, and the max of its node group",
    )


def _less_time(name: str, old: ServiceSettings, new: ServiceSettings) -> Iterator[Danger]:
    if new.longest_request < old.longest_request:
        yield LONGEST_REQUEST_LOWERED.danger(
            subjects=(name,),
            text=f"lowers longestRequest of {name} from {format_duration(old.longest_request)} to "
            f"{format_duration(new.longest_request)}",
            impact="the gateway ends longer requests, and so do pods that stop",
            remedy="see that none takes longer (dashboard services: latency)",
        )


def _scaling_changed(pods: str, old: VariantSettings, new: VariantSettings) -> Iterator[Danger]:
    old_targets, new_targets = _targets(old.scale.metrics), _targets(new.scale.metrics)
    keys = {**old_targets, **new_targets}
    sides = {key: (old_targets.get(key, "none"), new_targets.get(key, "none")) for key in keys}
    changed = [f"{key} {before} → {after}" for key, (before, after) in sides.items() if before != after]
    bounds = {"min": (old.scale.min, new.scale.min), "max": (old.scale.max, new.scale.max)}
    lowered = [f"{key} {before} → {after}" for key, (before, after) in bounds.items() if after < before]
    kind_changes = bool(old.scale.metrics.external) is not bool(new.scale.metrics.external)
    kind_note = "; its autoscaler is deleted before the other kind is created, and meanwhile the pods stay"
    if changed or lowered:
        yield TARGET_CHANGED.danger(
            severity=Severity.WARNING if lowered else Severity.NOTE,
            subjects=(pods,),
            text=f"changes how {pods} scales: {', '.join([*changed, *lowered])}{kind_note if kind_changes else ''}",
            impact="the number of pods changes within 15 s of the update, according to the current load",
            remedy="do it when the load is low, and watch ebbtide why service",
        )


def _floor_lowered(pods: str, old: ScaleSettings, new: ScaleSettings) -> Iterator[Danger]:
    """Removed events are only a note: they may be over, and a preview does not read the date."""
    old_floors, new_floors = _floors(old), _floors(new)
    fewer = [(key, number) for key, number in old_floors.items() if new_floors.get(key, 0) < number]
    lowered = [f"{key} {number} → {new_floors.get(key, 'none')}" for key, number in fewer]
    if old.floor is FloorKind.FORECAST and new.floor is not FloorKind.FORECAST:
        lowered.append(f"floor forecast → {new.floor or 'none'}")
    elif new.margin < old.margin:
        lowered.append(f"margin {old.margin:g} → {new.margin:g}")
    if not lowered:
        return
    yield FLOOR_LOWERED.danger(
        severity=Severity.NOTE if all(text.startswith("event") for text in lowered) else Severity.WARNING,
        subjects=(pods,),
        text=f"lowers the floor of {pods}: {', '.join(lowered)}",
        impact="at the next rush its pods start only when the load arrives, each with its startup delay",
        remedy="see what the floor was for (ebbtide why service)"
        + ("" if new.planned or not old.planned else ", and do it while it is not in force, or the update is refused"),
    )


def _floors(scale: ScaleSettings) -> Mapping[str, int]:
    events = {f"event {event.at:%Y-%m-%dT%H:%M}": event.min for event in scale.events}
    nights = {f"overnight {night.at}": night.min for night in scale.overnight}
    return {**nights, **events} if scale.open is None else {"open": scale.open, **nights, **events}


def _targets(metrics: MetricSettings) -> Mapping[str, str]:
    latency = None if metrics.latency is None else latency_text(metrics.latency)
    numbers = {
        "cpu": metrics.cpu,
        "memory": metrics.memory,
        "gpu": metrics.gpu,
        "inFlight": metrics.in_flight,
        "throughput": metrics.throughput,
        "queue": None if metrics.queue is None else metrics.queue.target,
        "query": None if metrics.query is None else metrics.query.target,
    }
    targets = {key: f"{value:g}" for key, value in numbers.items() if value is not None}
    return targets if latency is None else {**targets, "latency": latency}
