"""The HTTPRoutes of a service and its Envoy Gateway policies. Pure: settings in, plain values out.

**One route per variant**, if the variant has a condition or is the only one. The route has the name of the variant's
pods: Envoy Gateway names a cluster after the route and the position of the rule, and metrics identify the variant by
this name. Variants with weights share a route, whose backends each have a filter: without filters Envoy Gateway puts
the backends into one cluster, and metrics cannot distinguish them. The filter sends the name of the chosen variant to
the pods, which know it anyway.

**A weight of 0** would remove the variant's cluster, and recreate it later. Envoy receives clusters before routes, so
in between it answers 500: at 600 requests per second, one to seven such answers for each such change, and none for
other changes (envoyproxy/gateway#2515 leaves such backends out). So the cluster stays, with the pods of the largest
variant and a millionth of the requests. For other gateways the weight is 0.

**A variant on spot nodes** has no route: the route of its base variant leads to a Service over the pods of both. So
they are one cluster in Envoy, and when half of the endpoints disappear, the other half gets the requests. There is no
such failover between clusters: for a cluster without endpoints Envoy answers 503.

**Retries** happen only if the request reached no pod: after a failed connection or a refused stream. Envoy Gateway's
default also repeats a 503, which may come from a pod that has done half of the work.

**A full service** answers 429 with Retry-After at once. Envoy itself answers 503 with the header `x-envoy-overloaded`,
which the override matches, so that a 503 from the model passes unchanged.

**A silent request** keeps its connection: a model may compute for longer than the 350 s after which AWS' load balancer
drops an idle connection. For a TLS listener this timeout is fixed, but TCP keepalives restart it: the load balancer
then also sends probes to the client.

**Refusing endpoints** are ejected for a while: the least-request balancer would prefer a pod that answers nothing,
since such a pod has no requests in flight.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeAlias

from ebbtide.settings.sections.serving.gateway import GATEWAY, GATEWAY_NAMESPACE
from ebbtide.settings.sections.serving.routes import BalanceKind, Match, RouteSettings, When, matches
from ebbtide.settings.sections.serving.services import ServiceSettings, VariantSettings, pod_name
from ebbtide.text.durations import format_duration
from ebbtide.vocabulary.labels import NAMESPACE

VARIANT_HEADER = "x-ebbtide-variant"
OVERLOADED = "x-envoy-overloaded"
RETRY_AFTER = 5
"""Seconds. An autoscaler that reads metrics every 15 s sees the load within this time in one of three cases; a client
that retries sooner finds the same pods."""

_BALANCERS = {
    BalanceKind.LEAST_REQUEST: "LeastRequest",
    BalanceKind.ROUND_ROBIN: "RoundRobin",
    BalanceKind.RANDOM: "Random",
    BalanceKind.CONSISTENT_HASH: "ConsistentHash",
}
_MANY = 1_000_000
"""A value that disables a limit of Envoy. The default limit is 1,024 for each proxy and route."""

_OF_A_PERCENT = 10_000
"""Multiplier of all weights if one of them is 0. The Gateway API allows weights up to a million."""

KEEPALIVE = {"idleTime": timedelta(minutes=1), "interval": timedelta(seconds=20)}
"""Keepalive of client connections. Nine unanswered probes end a connection, so a client may be away four minutes."""

_SLOW_START = timedelta(seconds=30)
_ZONE_SHARE_FROM = 6
"""The number of endpoints from which a proxy prefers those of its zone. With fewer, a zone may lack capacity."""

_NAME_OF_NAMESPACE = "kubernetes.io/metadata.name"

Plan: TypeAlias = Mapping[str, Any]


def http_routes(
    name: str, service: ServiceSettings, *, gateway_namespace: str = GATEWAY_NAMESPACE, envoy: bool = True
) -> dict[str, Plan]:
    """Return the specs of HTTPRoutes by name; empty for a service without a route. `envoy`: for Envoy Gateway."""
    route = service.route
    if route is None:
        return {}
    common = {
        "parentRefs": [{"name": GATEWAY, "namespace": gateway_namespace}],
        "hostnames": [route.host],
    }
    if service.weighted:
        rule = _rule(service, _matches(route, None), [*_shares(name, service, envoy=envoy)])
        return {name: {**common, "rules": [rule]}}
    pods = service.pods(name)
    shared = service.sharing(name)
    return {
        pod: {
            **common,
            "rules": [
                _rule(
                    service, _matches(route, variant.when), [_backend(service, name if pod in shared else pod, variant)]
                )
            ],
        }
        for pod, variant in pods.items()
        if not variant.spot
    }


def _rule(service: ServiceSettings, matches: Sequence[Plan], backends: Sequence[Plan]) -> Plan:
    return {
        "matches": [*matches],
        "backendRefs": [*backends],
        "timeouts": {"request": format_duration(service.longest_request)},
    }


def _backend(service: ServiceSettings, to: str, variant: VariantSettings) -> dict[str, Any]:
    return {"name": to, "port": variant.ports[service.port]}


def _shares(name: str, service: ServiceSettings, *, envoy: bool) -> Iterator[Plan]:
    weights = {variant: service.variants[variant].weight or 0 for variant in service.by_place}
    largest = max(weights, key=weights.__getitem__)
    keeps = envoy and 0 in weights.values()
    for variant, weight in weights.items():
        to = largest if keeps and weight == 0 else variant
        share = max(1, weight * _OF_A_PERCENT) if keeps else weight
        yield {**_counted_backend(service, pod_name(name, to), service.variants[to]), "weight": share}


def _counted_backend(service: ServiceSettings, pod: str, variant: VariantSettings) -> Plan:
    header: Plan = {
        "type": "RequestHeaderModifier",
        "requestHeaderModifier": {"set": [{"name": VARIANT_HEADER, "value": pod}]},
    }
    return {**_backend(service, pod, variant), "filters": [header]}


def _matches(route: RouteSettings, when: When | None) -> list[Plan]:
    return [_match(match) for match in matches(route, when)]


def _match(match: Match) -> Plan:
    plan: Plan = {"path": {"type": "PathPrefix", "value": match.path}}
    headers = [{"type": "Exact", "name": name, "value": value} for name, value in match.headers]
    return {**plan, "headers": headers} if headers else plan


def backend_policy(route: str, service: ServiceSettings, *, proxies: int, largest: int) -> Plan:
    """Return the spec of a route's BackendTrafficPolicy. `largest`: the maximum number of the route's pods."""
    return {
        "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": route}],
        "loadBalancer": _balancer(service, largest),
        "circuitBreaker": _limits(service, proxies),
        "retry": {
            "numRetries": 2,
            "retryOn": {"triggers": ["connect-failure", "refused-stream"]},
        },
        "healthCheck": {
            "passive": {
                "interval": "2s",
                "baseEjectionTime": "10s",
                "maxEjectionPercent": 50,
                "splitExternalLocalOriginErrors": True,
                "consecutiveLocalOriginFailures": 3,
                "consecutiveGatewayErrors": 0,
                "consecutive5XxErrors": 0,
            },
            # Even if most pods refuse, send requests only to pods that may answer.
            "panicThreshold": 10,
        },
        "timeout": {
            "tcp": {"connectTimeout": "2s"},
            "http": {"requestTimeout": format_duration(service.longest_request)},
        },
        **_full(service),
    }


def _balancer(service: ServiceSettings, largest: int) -> Plan:
    kind = service.balance.kind
    plan: dict[str, Any] = {"type": _BALANCERS[kind]}
    if kind is BalanceKind.CONSISTENT_HASH:
        plan["consistentHash"] = {"type": "Headers", "headers": [{"name": service.balance.consistent_hash}]}
        return plan
    if kind in (BalanceKind.LEAST_REQUEST, BalanceKind.ROUND_ROBIN):
        plan["slowStart"] = {"window": format_duration(_SLOW_START)}
    if largest >= _ZONE_SHARE_FROM and not service.weighted:
        plan["zoneAware"] = {"preferLocal": {"minEndpointsThreshold": _ZONE_SHARE_FROM}}
    return plan


def _limits(service: ServiceSettings, proxies: int) -> Plan:
    """Return the limits of one proxy. Each proxy counts separately, so each gets a share of the service's limit."""
    most = service.max_in_flight
    limit = _MANY if most is None else -(-most // proxies)
    return {
        "maxConnections": _MANY,
        "maxPendingRequests": _MANY,
        "maxParallelRequests": limit,
        "maxParallelRetries": 64,
    }


def _full(service: ServiceSettings) -> Plan:
    if service.max_in_flight is None:
        return {}
    return {
        "responseOverride": [
            {
                "source": "Local",
                "match": {
                    "statusCodes": [{"type": "Value", "value": 503}],
                    "responseHeaders": [{"name": OVERLOADED, "value": {"type": "Exact", "value": "true"}}],
                },
                "response": {
                    "statusCode": 429,
                    "header": {"set": [{"name": "Retry-After", "value": str(RETRY_AFTER)}]},
                },
            }
        ]
    }


def client_policy(longest: timedelta) -> Plan:
    """Return the spec of the gateway's ClientTrafficPolicy. `longest`: the longest request of all services."""
    return {
        "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": GATEWAY}],
        "tcpKeepalive": {key: format_duration(time) for key, time in KEEPALIVE.items()},
        "headers": {"enableEnvoyHeaders": True},  # they mark a full service, for the override
        "timeout": {
            "http": {
                "requestReceivedTimeout": format_duration(longest),
                "idleTimeout": "1h",
            }
        },
    }


def gateway_spec(class_name: str, tls: str | None) -> Plan:
    """Return the spec of the Gateway: a listener for HTTP, or for HTTPS if the gateway terminates TLS."""
    allowed = {"namespaces": {"from": "Selector", "selector": {"matchLabels": {_NAME_OF_NAMESPACE: NAMESPACE}}}}
    if tls is None:
        listeners = [{"name": "http", "protocol": "HTTP", "port": 80, "allowedRoutes": allowed}]
    else:
        certificate = {"name": tls, "kind": "Secret", "group": ""}
        listeners = [
            {
                "name": "https",
                "protocol": "HTTPS",
                "port": 443,
                "allowedRoutes": allowed,
                "tls": {"mode": "Terminate", "certificateRefs": [certificate]},
            }
        ]
    return {"gatewayClassName": class_name, "listeners": listeners}


def routed(services: Mapping[str, ServiceSettings]) -> Iterator[tuple[str, ServiceSettings]]:
    """Return the services with a route."""
    yield from ((name, service) for name, service in services.items() if service.route is not None)
