"""Dangers for the clients of a service: lost routes and variants, shares, request time, scaling and floors."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ebbtide.policies.rule import Severity
from ebbtide.preview.dangers.compared import Compared, listed
from ebbtide.preview.document import Danger, DangerCode
from ebbtide.settings.sections.serving.routes import RouteSettings
from ebbtide.settings.sections.serving.scale import FloorKind, MetricSettings, ScaleSettings
from ebbtide.settings.sections.serving.services import ServiceSettings, VariantSettings, pod_name
from ebbtide.units.durations import format_duration, latency_text


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
    yield Danger(
        code=DangerCode.ROUTE_LOST,
        severity=Severity.WARNING,
        subjects=(name,),
        what=f"takes {_place(old.route)} away from service {name}",
        impact="requests there are answered with 404",
        fix="keep it until it receives no requests (dashboard services: throughput), or inform its users first",
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
    yield Danger(
        code=DangerCode.VARIANT_LOST,
        severity=Severity.WARNING,
        subjects=tuple(removed),
        what=f"removes {listed([*removed])} while {_place(new.route)} leads there",
        impact=f"{requests} are answered by {listed([*new.pods(name)])}",
        fix=_first_to_zero(removed.values())
        + "see that the others answer them as well, and have the room for them: their max",
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
    yield Danger(
        code=DangerCode.SHARE_AT_ONCE,
        severity=Severity.WARNING,
        subjects=tuple(at_once),
        what=f"gives {listed([f'{pods} {weight} %' for pods, weight in at_once.items()])} of the requests at once",
        impact="the gateway answers a few requests of that moment with 500: one to seven where 600 come in a second",
        fix="add a variant with weight: 0, and give it its share with the next change",
    )


def _spot_lost(name: str, removed: Sequence[str], old: ServiceSettings, new: ServiceSettings) -> Iterator[Danger]:
    """Spot variants whose base stays. If the base goes too, `_variants_lost` reports it."""
    base = None if old.base is None else pod_name(name, old.base)
    if not removed or base not in new.pods(name):
        return
    yield Danger(
        code=DangerCode.VARIANT_LOST,
        severity=Severity.WARNING,
        subjects=tuple(removed),
        what=f"removes {listed(removed)}, on spot nodes",
        impact=f"{base} answers all requests, and may be few until it has grown",
        fix=f"see that {base} has the room for them: its max, and the max of its node group",
    )


def _less_time(name: str, old: ServiceSettings, new: ServiceSettings) -> Iterator[Danger]:
    if new.longest_request < old.longest_request:
        yield Danger(
            code=DangerCode.LONGEST_REQUEST_LOWERED,
            severity=Severity.WARNING,
            subjects=(name,),
            what=f"lowers longestRequest of {name} from {format_duration(old.longest_request)} to "
            f"{format_duration(new.longest_request)}",
            impact="longer requests are ended by the gateway, and by the pods that stop",
            fix="see that none takes longer (dashboard services: latency)",
        )


def _scaling_changed(pods: str, old: VariantSettings, new: VariantSettings) -> Iterator[Danger]:
    old_targets, new_targets = _targets(old.scale.metrics), _targets(new.scale.metrics)
    keys = {**old_targets, **new_targets}
    sides = {key: (old_targets.get(key, "none"), new_targets.get(key, "none")) for key in keys}
    changed = [f"{key} {before} → {after}" for key, (before, after) in sides.items() if before != after]
    bounds = {"min": (old.scale.min, new.scale.min), "max": (old.scale.max, new.scale.max)}
    lowered = [f"{key} {before} → {after}" for key, (before, after) in bounds.items() if after < before]
    kind_changes = bool(old.scale.metrics.external) is not bool(new.scale.metrics.external)
    kind_note = "; its autoscaler goes before the other kind comes, and until then the pods keep their number"
    if changed or lowered:
        yield Danger(
            code=DangerCode.TARGET_CHANGED,
            severity=Severity.WARNING if lowered else Severity.NOTE,
            subjects=(pods,),
            what=f"changes how {pods} scales: {', '.join([*changed, *lowered])}{kind_note if kind_changes else ''}",
            impact="the number of pods changes within 15 s of the update, by the current load",
            fix="do it when the load is low, and watch ebbtide why service",
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
    yield Danger(
        code=DangerCode.FLOOR_LOWERED,
        severity=Severity.NOTE if all(text.startswith("event") for text in lowered) else Severity.WARNING,
        subjects=(pods,),
        what=f"lowers the floor of {pods}: {', '.join(lowered)}",
        impact="at the next rush its pods come when the load is there, each after the time that it takes to start",
        fix="see what the floor was for (ebbtide why service)"
        + ("" if new.planned or not old.planned else ", and do it while it does not stand, or the update is refused"),
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
