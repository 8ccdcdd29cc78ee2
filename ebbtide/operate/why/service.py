"""Why a service has the pods that it has: each metric with its target and value, and what holds the number."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from controllers.adapters.kube_api import KubeApi
from ebbtide.operate.api import CannotOperate
from ebbtide.operate.objects import Document, at, rows_at
from ebbtide.operate.ray.view import why_pending
from ebbtide.operate.services import ServiceFacts, Variant, conditions, services_of
from ebbtide.operate.why.floors import floor_line, floors_told, least_of

HOLDS = {
    "TooManyReplicas": "more are wanted than its max allows",
    "TooFewReplicas": "fewer are wanted than its min allows",
    "ScaleDownStabilized": "fewer would do, and it waits whether that lasts",
    "ScaleUpStabilized": "more are wanted, and it waits whether that lasts",
    "ScaleDownLimit": "fewer would do, and it takes a few away at a time",
    "ScaleUpLimit": "more are wanted, and it adds a few at a time",
    "BackoffBoth": "it pauses after a change",
    "BackoffDownscale": "it pauses after a change",
    "BackoffUpscale": "it pauses after a change",
    "ScalingDisabled": "it is switched off, as there are no replicas",
}
"""What an HPA says of what holds it. Source: pkg/controller/podautoscaler of Kubernetes 1.35."""


def explain_service(api: KubeApi, namespace: str, name: str, now: datetime | None = None) -> list[str]:
    """Sentences. Raises `CannotOperate` for a name that no service has."""
    found, unread = services_of(api, namespace)
    one = next((it for it in found if it.name == name), None)
    lines = [f"not known: {each}" for each in unread]
    if one is None:
        have = ", ".join(it.name for it in found) or "none"
        further = f" ({'; '.join(unread)})" if unread else ""
        raise CannotOperate(f"no service is called {name} that scales or has a route; there are: {have}{further}", 2)
    told, silent = floors_told(api, namespace)
    at_now = now or datetime.now(UTC)
    floors = {it.pods: floor_line(told, it.pods, least_of(it.scaled, it.hpa), at_now) for it in one.variants}
    return [*service_lines(one, floors), *lines, *([f"not known: {silent}"] if silent else [])]


def service_lines(facts: ServiceFacts, floors: Mapping[str, str]) -> Iterator[str]:
    """`floors`: by the name of the pods, a sentence or nothing."""
    for variant in facts.variants:
        yield f"{variant.pods}: {pods_text(variant)}."
        if floor := floors.get(variant.pods):
            yield f"  - {floor}"
        for sentence in held_by(variant):
            yield f"  - {sentence}"
        yield from (f"  - {text}" for text in _metrics(variant))
    yield from route_lines(facts)


def pods_text(variant: Variant) -> str:
    if variant.asked is None:
        return "its pods do not exist"
    least, most = at(variant.hpa, "spec", "minReplicas"), at(variant.hpa, "spec", "maxReplicas")
    bounds = "" if variant.hpa is None else f", between {1 if least is None else least} and {most}"
    wanted = "" if variant.wanted in (None, variant.asked) else f", {variant.wanted} wanted"
    return f"{variant.asked} pods, {variant.ready} ready{wanted}{bounds}"


def held_by(variant: Variant) -> Iterator[str]:
    """What keeps the number from what the load asks for; nothing where all is well."""
    yield from _of_keda(variant)
    told = conditions(variant.hpa)
    if variant.hpa is None and variant.scaled is None:
        yield "no autoscaler: the number is that of the stack file"
    elif variant.hpa is None:
        yield "KEDA has not made its HPA yet"
    elif not told:
        yield "the HPA has not looked yet"
    able, active, limited = (told.get(kind, {}) for kind in ("AbleToScale", "ScalingActive", "ScalingLimited"))
    if able.get("status") == "False" and able.get("reason") not in HOLDS:
        yield f"it cannot be scaled: {_said(able)}"
    elif able.get("reason") in HOLDS:
        yield HOLDS[str(able["reason"])]
    if active.get("status") == "False":
        reason = str(active.get("reason"))
        yield HOLDS.get(reason) or f"a metric is missing, so the number stays: {_said(active)}"
    if limited.get("status") == "True":
        yield HOLDS.get(str(limited.get("reason"))) or _said(limited)
    if variant.pending:
        yield f"{len(variant.pending)} of its pods do not run yet: {why_pending(variant.pending[0])}"


def _of_keda(variant: Variant) -> Iterator[str]:
    told = conditions(variant.scaled)
    if told.get("Ready", {}).get("status") == "False":
        yield f"KEDA cannot read a trigger: {_said(told['Ready'])}"
    if told.get("Fallback", {}).get("status") == "True":
        yield "KEDA has no value for a trigger, so the number does not decrease"
    if told.get("Paused", {}).get("status") == "True":
        yield "an operator paused KEDA's ScaledObject"
    if variant.scaled is not None and not told:
        yield "KEDA has not looked at its ScaledObject: is its operator there?"


def _metrics(variant: Variant) -> Iterator[str]:
    """Each with its target and what it is now."""
    now = {_key(it): it for it in rows_at(variant.hpa, "status", "currentMetrics")}
    triggers = [str(it.get("name") or it.get("type")) for it in rows_at(variant.scaled, "spec", "triggers")]
    for metric in rows_at(variant.hpa, "spec", "metrics"):
        key = _key(metric)
        place = re.match(r"s(\d+)-", key)
        called = triggers[int(place[1])] if place is not None and int(place[1]) < len(triggers) else key
        target = _value(metric, "target")
        yield f"{called}: {_value(now.get(key), 'current') or 'not known'}, target {target or 'not known'}"


def _key(metric: Document) -> str:
    return str(at(metric, "resource", "name") or at(metric, "external", "metric", "name") or metric.get("type"))


def _value(metric: Document | None, side: str) -> str:
    part = at(metric, "resource", side) or at(metric, "external", side)
    percent, mean, whole = (at(part, key) for key in ("averageUtilization", "averageValue", "value"))
    if percent is not None:
        return f"{percent}% of the request"
    if mean is not None:
        return f"{_number(mean)} for each pod"
    return "" if whole is None else f"{_number(whole)}"


def _number(quantity: object) -> str:
    text = str(quantity)
    return f"{int(text[:-1]) / 1000:g}" if re.fullmatch(r"-?\d+m", text) else text


def route_lines(facts: ServiceFacts) -> Iterator[str]:
    for route in facts.routes:
        hosts = ", ".join(at(route, "spec", "hostnames") or ()) or "every host"
        troubles = [*route_troubles(facts, route)]
        yield f"route {route['metadata']['name']} ({hosts}): {'; '.join(troubles) if troubles else 'accepted'}."


def route_troubles(facts: ServiceFacts, route: Document) -> Iterator[str]:
    parents = rows_at(route, "status", "parents")
    if not parents:
        yield "no gateway has looked at it: is its GatewayClass there?"
    for parent in parents:
        told = conditions({"status": parent})
        for kind in ("Accepted", "ResolvedRefs"):
            if told.get(kind, {}).get("status") == "False":
                yield f"{'not accepted' if kind == 'Accepted' else 'leads nowhere'}: {_said(told[kind])}"
    for ref in rows_at(route, "spec", "parentRefs"):
        key = str(ref.get("namespace") or at(route, "metadata", "namespace")), str(ref.get("name"))
        if key not in facts.gateways:
            continue
        programmed = conditions(facts.gateways[key]).get("Programmed", {})
        if facts.gateways[key] is None:
            yield f"the Gateway {key[0]}/{key[1]} does not exist"
        elif programmed.get("status") != "True":
            yield f"the Gateway {key[0]}/{key[1]} is not programmed: {_said(programmed) or 'nobody has looked at it'}"


def summary(facts: ServiceFacts) -> tuple[str, str]:
    """Its route and what holds it, in a few words for a table."""
    held = [f"{it.pods}: {text}" for it in facts.variants for text in held_by(it) if not text.startswith("no auto")]
    troubles = [text for route in facts.routes for text in route_troubles(facts, route)]
    hosts = sorted({host for route in facts.routes for host in at(route, "spec", "hostnames") or ()})
    route = "; ".join(dict.fromkeys(troubles)) or ", ".join(hosts) or "none"
    return route, "; ".join(held)


def rows_of(facts: Sequence[ServiceFacts]) -> Iterator[tuple[str, str, str, str, str]]:
    """For a table: service, ready, wanted, route, what holds it."""
    for one in facts:
        route, held = summary(one)
        ready = ", ".join(f"{it.pods} {it.ready}" for it in one.variants)
        wanted = ", ".join(str(it.asked if it.wanted is None else it.wanted) for it in one.variants)
        yield one.name, ready, wanted, route, held


def _said(condition: Document) -> str:
    return " ".join(str(condition.get("message") or condition.get("reason") or "").split())
