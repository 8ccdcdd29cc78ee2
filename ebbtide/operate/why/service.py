"""Explain a service's number of pods: each metric with its target and value, the limits, the floor and the route."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from controllers.adapters.kube_api import ApiError, KubeApi
from controllers.workloads.floors.calendar import PodFloorNow, floor_at
from ebbtide.operate.api import CannotOperate
from ebbtide.operate.objects import Document, at, rows_at
from ebbtide.operate.ray.facts import workloads_config_of
from ebbtide.operate.ray.view import why_pending
from ebbtide.operate.services import ServiceFacts, VariantObjects, conditions, services_of
from ebbtide.text.counts import verb
from ebbtide.text.one_line import collapsed
from ebbtide.vocabulary.windows import BusinessHours
from ebbtide.vocabulary.workloads import WorkloadsConfig

_WHY = {
    "at-min": "its min, since neither business hours nor a night nor an event ask for more",
    "business-hours": "for business hours",
    "before-business-hours": "ahead of business hours",
    "overnight": "for the work of this night",
    "before-overnight": "ahead of the work of this night",
    "event": "for an event",
    "before-event": "ahead of an event",
}


def floors_config(api: KubeApi, namespace: str) -> tuple[WorkloadsConfig | None, str]:
    """Return the workload controller's config, or why it is unknown; neither in a stack without one."""
    try:
        return workloads_config_of(api, namespace), ""
    except (ApiError, CannotOperate) as error:
        return None, f"floors: {collapsed(error)}"


def floor_line(config: WorkloadsConfig | None, pods: str, least: int | None, now: datetime) -> str:
    """Explain the floor, or where to read about sleep; empty for pods with neither. `least` is the autoscaler's min."""
    if config is not None and any(policy.name == pods for policy in config.all_sleepers):
        return f"it sleeps outside business hours: ebbtide why workload {pods}"
    policy = next((floor for floor in config.floors if floor.name == pods), None) if config is not None else None
    if config is None or policy is None:
        return ""
    floor = floor_at(now, policy, config.hours)
    differs = "" if least in (None, floor.pods) else f"; its autoscaler has {least}: see ebbtide status"
    return f"floor: {floor.pods}{_until(floor, config.hours)}, {_WHY[floor.reason]}{differs}"


def _until(floor: PodFloorNow, hours: BusinessHours) -> str:
    return "" if floor.until is None else f" until {hours.local(floor.until):%a %d %b %H:%M} ({hours.timezone})"


def least_of(scaled: Document | None, hpa: Document | None) -> int | None:
    """Return the field that the workload controller writes: KEDA's if there is one."""
    return at(hpa, "spec", "minReplicas") if scaled is None else at(scaled, "spec", "minReplicaCount")


HOLDS = {
    "TooManyReplicas": "more are wanted than its max allows",
    "TooFewReplicas": "fewer are wanted than its min allows",
    "ScaleDownStabilized": "fewer would do, and it waits to see if that lasts",
    "ScaleUpStabilized": "more are wanted, and it waits to see if that lasts",
    "ScaleDownLimit": "fewer would do, and it removes a few at a time",
    "ScaleUpLimit": "more are wanted, and it adds a few at a time",
    "BackoffBoth": "it pauses after a change",
    "BackoffDownscale": "it pauses after a change",
    "BackoffUpscale": "it pauses after a change",
    "ScalingDisabled": "it is switched off, as there are no replicas",
}
"""Reasons of an HPA's conditions in words. Source: pkg/controller/podautoscaler of Kubernetes 1.35."""


def explain_service(api: KubeApi, namespace: str, name: str, now: datetime | None = None) -> list[str]:
    """Return sentences. Raises `CannotOperate` for a name that no service has."""
    services, unread = services_of(api, namespace)
    service = next((service for service in services if service.name == name), None)
    lines = [f"not known: {line}" for line in unread]
    if service is None:
        have = ", ".join(service.name for service in services) or "none"
        further = f" ({'; '.join(unread)})" if unread else ""
        raise CannotOperate(f"no service is called {name} that scales or has a route; there are: {have}{further}", 2)
    config, why_unknown = floors_config(api, namespace)
    instant = now or datetime.now(UTC)
    floors = {
        variant.pods: floor_line(config, variant.pods, least_of(variant.scaled, variant.hpa), instant)
        for variant in service.variants
    }
    return [*service_lines(service, floors), *lines, *([f"not known: {why_unknown}"] if why_unknown else [])]


def service_lines(facts: ServiceFacts, floors: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a service; `floors` has a sentence, or nothing, by the name of the pods."""
    for variant in facts.variants:
        yield f"{variant.pods}: {pods_text(variant)}."
        if floor := floors.get(variant.pods):
            yield f"  - {floor}"
        yield from (f"  - {sentence}" for sentence in limits_of(variant))
        yield from (f"  - {text}" for text in _metrics(variant))
    yield from route_lines(facts)


def pods_text(variant: VariantObjects) -> str:
    if variant.replicas is None:
        return "its pods do not exist"
    least, most = at(variant.hpa, "spec", "minReplicas"), at(variant.hpa, "spec", "maxReplicas")
    bounds = "" if variant.hpa is None else f", between {1 if least is None else least} and {most}"
    desired = "" if variant.desired in (None, variant.replicas) else f", {variant.desired} wanted"
    return f"{variant.replicas} pods, {variant.ready} ready{desired}{bounds}"


def limits_of(variant: VariantObjects) -> Iterator[str]:
    """Yield what keeps the number from following the load; nothing if all is well."""
    yield from _of_keda(variant)
    reported = conditions(variant.hpa)
    if variant.hpa is None and variant.scaled is None:
        yield "no autoscaler: the stack file sets the number"
    elif variant.hpa is None:
        yield "KEDA has not made its HPA yet"
    elif not reported:
        yield "the HPA has not evaluated its metrics yet"
    able, active, limited = (reported.get(kind, {}) for kind in ("AbleToScale", "ScalingActive", "ScalingLimited"))
    if able.get("status") == "False" and able.get("reason") not in HOLDS:
        yield f"it cannot be scaled: {_message(able)}"
    elif able.get("reason") in HOLDS:
        yield HOLDS[str(able["reason"])]
    if active.get("status") == "False":
        reason = str(active.get("reason"))
        yield HOLDS.get(reason) or f"a metric is missing, so the number stays: {_message(active)}"
    if limited.get("status") == "True":
        yield HOLDS.get(str(limited.get("reason"))) or _message(limited)
    if variant.pending:
        do = verb(len(variant.pending), "does", "do")
        yield f"{len(variant.pending)} of its pods {do} not run yet: {why_pending(variant.pending[0])}"


def _of_keda(variant: VariantObjects) -> Iterator[str]:
    reported = conditions(variant.scaled)
    if reported.get("Ready", {}).get("status") == "False":
        yield f"KEDA cannot read a trigger: {_message(reported['Ready'])}"
    if reported.get("Fallback", {}).get("status") == "True":
        yield "KEDA has no value for a trigger, so the number does not decrease"
    if reported.get("Paused", {}).get("status") == "True":
        yield "an operator paused KEDA's ScaledObject"
    if variant.scaled is not None and not reported:
        yield "KEDA has not processed its ScaledObject: is its operator there?"


def _metrics(variant: VariantObjects) -> Iterator[str]:
    """Yield each metric with its value and target."""
    now = {_key(metric): metric for metric in rows_at(variant.hpa, "status", "currentMetrics")}
    triggers = [str(row.get("name") or row.get("type")) for row in rows_at(variant.scaled, "spec", "triggers")]
    for metric in rows_at(variant.hpa, "spec", "metrics"):
        key = _key(metric)
        match = re.match(r"s(\d+)-", key)
        name = triggers[int(match[1])] if match is not None and int(match[1]) < len(triggers) else key
        target = _value(metric, "target")
        yield f"{name}: {_value(now.get(key), 'current') or 'not known'}, target {target or 'not known'}"


def _key(metric: Document) -> str:
    return str(at(metric, "resource", "name") or at(metric, "external", "metric", "name") or metric.get("type"))


def _value(metric: Document | None, side: str) -> str:
    part = at(metric, "resource", side) or at(metric, "external", side)
    percent, mean, total = (at(part, key) for key in ("averageUtilization", "averageValue", "value"))
    if percent is not None:
        return f"{percent}% of the request"
    if mean is not None:
        return f"{_number(mean)} for each pod"
    return "" if total is None else f"{_number(total)}"


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
        yield "no gateway has processed it: is its GatewayClass there?"
    for parent in parents:
        reported = conditions({"status": parent})
        for kind in ("Accepted", "ResolvedRefs"):
            if reported.get(kind, {}).get("status") == "False":
                yield f"{'not accepted' if kind == 'Accepted' else 'leads nowhere'}: {_message(reported[kind])}"
    for ref in rows_at(route, "spec", "parentRefs"):
        key = str(ref.get("namespace") or at(route, "metadata", "namespace")), str(ref.get("name"))
        if key not in facts.gateways:
            continue
        programmed = conditions(facts.gateways[key]).get("Programmed", {})
        if facts.gateways[key] is None:
            yield f"the Gateway {key[0]}/{key[1]} does not exist"
        elif programmed.get("status") != "True":
            reason = _message(programmed) or "no controller has processed it"
            yield f"the Gateway {key[0]}/{key[1]} is not programmed: {reason}"


def summary(facts: ServiceFacts) -> tuple[str, str]:
    """Return the route and the limits, in a few words for a table."""
    limits = [
        f"{variant.pods}: {text}"
        for variant in facts.variants
        for text in limits_of(variant)
        if not text.startswith("no auto")
    ]
    troubles = [text for route in facts.routes for text in route_troubles(facts, route)]
    hosts = sorted({host for route in facts.routes for host in at(route, "spec", "hostnames") or ()})
    route = "; ".join(dict.fromkeys(troubles)) or ", ".join(hosts) or "none"
    return route, "; ".join(limits)


def rows_of(facts: Sequence[ServiceFacts]) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield rows of a table: service, ready, wanted, route, limits."""
    for service in facts:
        route, limits = summary(service)
        ready = ", ".join(f"{variant.pods} {variant.ready}" for variant in service.variants)
        desired = ", ".join(
            str(variant.replicas if variant.desired is None else variant.desired) for variant in service.variants
        )
        yield service.name, ready, desired, route, limits


def _message(condition: Document) -> str:
    return collapsed(condition.get("message") or condition.get("reason") or "")
