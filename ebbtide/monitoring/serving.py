"""PromQL about services for autoscaling triggers, rules, dashboards and commands. Pure.

The gateway's Envoys count requests, with one Envoy cluster for each variant, under names that Envoy Gateway derives
from the routes. All results cover the whole variant, over all proxies and pods; `for_each_pod` divides them.

**Missing is not zero.** Without a scrape there is no result, so that an autoscaler holds. But Envoy, as Envoy Gateway
starts it, writes the series of requests only from a cluster's first request on (`enableDeferredCreationStats`): after
a proxy restarts, a service without requests has no such series. A proxy reports at once how many endpoints a cluster
has (`membership_total`). So if only that series exists, there were no requests, and the result is zero.

**Latency covers only answers**: Envoy measures the answers of pods, and a request that times out or is turned away has
none. It counts as an error, or as turned away.

**Turned away is not failed.** The gateway answers a request above `maxInFlight`, and Envoy counts it among its 503
(and as `pending_overflow`), whatever code the client receives.

**Variants that share a cluster**, one of them on spot nodes, cannot be told apart in it: the counts of both are
recorded for the variant that is not on spot.

A proxy that cannot be scraped is not counted: if one of two is away, half of the requests are missing. The alert on
proxies reports this, and the autoscaler's slow scale-down outlasts a short gap.
"""

from collections.abc import Sequence
from datetime import timedelta

from ebbtide.monitoring.gpus import gpu_use
from ebbtide.monitoring.rules import CUSTOMER
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.serving.gateway import Implementation
from ebbtide.settings.sections.serving.services import pod_name
from ebbtide.settings.sections.serving.steps import LATENCY_WINDOW
from ebbtide.vocabulary.labels import NAMESPACE

LATENCY_OVER, THROUGHPUT_OVER = LATENCY_WINDOW, timedelta(minutes=1)
PERCENTILE = 0.95

_REQUESTS = "envoy_cluster_upstream_rq"
CONNECTED = "envoy_control_plane_connected_state"
"""1 for each proxy that is connected to Envoy Gateway."""

_NAME = "[bcdfghjklmnpqrstvwxz2456789]"  # characters of the names that Kubernetes generates
_OF_PODS = rf"-({_NAME}{{1,10}}-{_NAME}{{5}}|[0-9]+)"  # after the name of a Deployment, or of a StatefulSet


def counts_requests(settings: StackSettings) -> bool:
    """True if Ebbtide knows the gateway's request metrics."""
    return settings.cluster.context is None or settings.serving.implementation is Implementation.ENVOY_GATEWAY


def envoy_cluster(settings: StackSettings, service: str, variant: str) -> str:
    """The label `envoy_cluster_name` of a variant's requests; `variant` is `SINGLE_VARIANT` if the service names none.

    A variant on spot nodes shares the label of the service's base variant.

    Source: `irRouteDestinationName` and `irDestinationSettingName` of Envoy Gateway 1.9.1.
    """
    of_service = settings.services[service]
    if not of_service.weighted:
        if of_service.variants[variant].spot and of_service.base is not None:
            variant = of_service.base
        return f"httproute/{NAMESPACE}/{pod_name(service, variant)}/rule/0"
    place = of_service.by_place.index(variant)
    return f"httproute/{NAMESPACE}/{service}/rule/0/backend/{place}"


def in_flight_query(customer: str, clusters: Sequence[str]) -> str:
    """Requests in flight, including requests that wait for a connection."""
    of = _of_clusters(customer, clusters)
    active, waiting = (f"sum by ({CUSTOMER}) ({_REQUESTS}_{state}{of})" for state in ("active", "pending_active"))
    return _whole(f"{active} + {waiting} or {_known_zero(of)}")


def latency_query(customer: str, clusters: Sequence[str]) -> str:
    """p95 latency over two minutes, in seconds; 0 if no request was answered."""
    of = _of_clusters(customer, clusters)
    return _whole(f"{quantile(customer, clusters, PERCENTILE, LATENCY_OVER)} >= 0 or {_known_zero(of)}")


def throughput_query(customer: str, clusters: Sequence[str]) -> str:
    """Answers of pods per second, over one minute."""
    of = _of_clusters(customer, clusters)
    return _whole(f"{_rate(f'{_REQUESTS}_time_count{of}{_span(THROUGHPUT_OVER)}')} or {_known_zero(of)}")


def for_each_pod(customer: str, clusters: Sequence[str], total: str) -> str:
    """Divide a total by the ready pods; no result while none is ready.

    Proxies learn of the same endpoints at different times: the one that knows most of them counts.
    """
    pods = f"max by ({CUSTOMER}) (envoy_cluster_membership_total{_of_clusters(customer, clusters)})"
    return f"{total} / ({pods} > 0)"


def queue_query(customer: str, metric: str, pods: str) -> str:
    """Requests that wait inside pods, by a gauge that the pods export; `pods` is the name of the pods."""
    return f'sum by ({CUSTOMER}) ({metric}{{{CUSTOMER}="{customer}",namespace="{NAMESPACE}",workload="{pods}"}})'


def gpu_query(pods: str) -> str:
    """Return the mean utilization of the pods' GPUs, in percent.

    Without a selector by customer: on an existing cluster another scraper adds no such label.
    """
    used = gpu_use(f'namespace="{NAMESPACE}",pod=~"{pods}{_OF_PODS}"')
    return f"avg by ({CUSTOMER}) ({used})"


def quantile(customer: str, clusters: Sequence[str], share: float, over: timedelta) -> str:
    """The `share` quantile of the time that answers took, in seconds; NaN if there were none."""
    of = _of_clusters(customer, clusters)
    buckets = f"rate({_REQUESTS}_time_bucket{of}{_span(over)})"
    return _whole(f"histogram_quantile({share:g}, sum by ({CUSTOMER}, le) ({buckets})) / 1000")


def failing_query(customer: str, clusters: Sequence[str], over: timedelta) -> str:
    """Requests per second that ended with 5xx: the pods' own errors, time-outs, and requests without a pod."""
    of, span = _of_clusters(customer, clusters), _span(over)
    failed = _rate(f'{_REQUESTS}{of[:-1]},envoy_response_code=~"5.."}}{span}')
    full = _rate(f"{_REQUESTS}_pending_overflow{of}{span}")
    return _whole(f"{failed} - {full} > 0 or {_known_zero(of)}")


def turned_away_query(customer: str, clusters: Sequence[str], over: timedelta) -> str:
    """Requests per second that the gateway or a pod refused as too many."""
    of, span = _of_clusters(customer, clusters), _span(over)
    by_pods = _rate(f'{_REQUESTS}{of[:-1]},envoy_response_code="429"}}{span}')
    return _whole(f"{_rate(f'{_REQUESTS}_pending_overflow{of}{span}')} + ({by_pods} or {_known_zero(of)})")


def failed_share(customer: str, clusters: Sequence[str], over: timedelta) -> str:
    """The share of all requests that failed; NaN if there were none."""
    of = _of_clusters(customer, clusters)
    return _whole(f"{failing_query(customer, clusters, over)} / {_rate(f'{_REQUESTS}{of}{_span(over)}')}")


def of_gateway(customer: str) -> str:
    """Requests per second that the gateway answered itself: with a 503, if a route has no ready pod."""
    return _rate(f'envoy_http_rq_direct_response{{{CUSTOMER}="{customer}"}}{_span(timedelta(minutes=5))}')


def _rate(series: str) -> str:
    return f"sum by ({CUSTOMER}) (rate({series}))"


def _whole(expression: str) -> str:
    return f"max by ({CUSTOMER}) ({expression})"


def _known_zero(of: str) -> str:
    return f"0 * sum by ({CUSTOMER}) (envoy_cluster_membership_total{of})"


def _of_clusters(customer: str, clusters: Sequence[str]) -> str:
    """Select Envoy clusters by name; the names need no escaping in a regular expression.

    Envoy Gateway adds the backend's place to the name if zones matter, and while a backend has no pod: it may come
    and go with a change of `scale.max`. Source: `NeedsClusterPerSetting` of 1.9.1.
    """
    return f'{{{CUSTOMER}="{customer}",envoy_cluster_name=~"({"|".join(clusters)})(/backend/0)?"}}'


def _span(over: timedelta) -> str:
    return f"[{int(over.total_seconds())}s]"
