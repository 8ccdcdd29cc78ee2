"""Routes of the gateway: each leads to a Service that the stack has.

Of a namespace that the stack does not make the Services are somebody else's, and nothing is known of them.
"""

from collections.abc import Iterator, Mapping

from ebbtide.policies.rule import Hits, Rule, Severity
from ebbtide.recording.resources import Resource, name_of, namespace_of
from ebbtide.recording.state import StackState
from ebbtide.recording.values import mappings, value_at


def _leads_nowhere(state: StackState) -> Hits:
    own = {name_of(it) for it in state.of_kind("Namespace")}
    ports = {(namespace_of(it), name_of(it)): set(_ports(it)) for it in state.of_kind("Service")}
    for route in state.of_kind("HTTPRoute", "GRPCRoute"):
        for backend in _backends(route):
            place = str(backend.get("namespace", namespace_of(route))), str(backend.get("name"))
            if place[0] not in own:
                continue
            if place not in ports:
                yield route, f"it leads to Service {'/'.join(place)}, which the stack does not have"
            elif backend.get("port") not in ports[place]:
                yield route, f"it leads to port {backend.get('port')} of Service {'/'.join(place)}, which has none such"


def _backends(route: Resource) -> Iterator[Mapping[str, object]]:
    """Those that are Services."""
    for rule in mappings(value_at(route.inputs, "spec.rules")):
        yield from (it for it in mappings(rule.get("backendRefs")) if it.get("kind", "Service") == "Service")


def _ports(service: Resource) -> Iterator[object]:
    yield from (it.get("port") for it in mappings(value_at(service.inputs, "spec.ports")))


RULES = (
    Rule(
        id="EB044",
        severity=Severity.BLOCKING,
        law="a route of the gateway leads to a Service and a port that the stack has",
        fix="name the Service of a variant, SERVICE-VARIANT, and its port; or delete the route",
        source="kubernetes-sigs/gateway-api#1243; envoyproxy/gateway#162",
        check=_leads_nowhere,
    ),
)
