"""The autoscaler of a variant. Pure: settings in, plain values out.

CPU and memory alone make a HorizontalPodAutoscaler. As soon as one metric comes from Prometheus it is KEDA's
ScaledObject, which makes one: the cluster has one server of external metrics, and it is KEDA's.

**A metric that is missing never lowers.** A query without a result is an error (`ignoreNullValues: "false"`; KEDA's
default is to take it for 0 and to go down to one pod within 6 s), and after three of them the number of pods stays
(`currentReplicasIfHigher`; KEDA's default goes to a fixed number).

**Beside a variant on spot nodes** requests are counted of both, since they are one cluster in Envoy. What each scales
by is then how many there are for one pod of both, as a `Value`: an HPA multiplies the number of its own ready pods by
that over its target. One that has no ready pod wants its least.

The steps up and down are those of `ebbtide.settings.sections.serving.steps`, which the simulator plays too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ebbtide.monitoring.serving import (
    for_each_pod,
    gpu_query,
    in_flight_query,
    latency_query,
    queue_query,
    throughput_query,
)
from ebbtide.settings.sections.serving.access import PrometheusAccess
from ebbtide.settings.sections.serving.scale import MetricSettings
from ebbtide.settings.sections.serving.services import ServiceSettings, VariantSettings
from ebbtide.settings.sections.serving.steps import SYNC, Step, Steps, steps_of
from ebbtide.settings.sections.workloads import WorkloadKind
from ebbtide.units.durations import format_duration
from ebbtide.vocabulary.labels import PREFIX

ACCESS = "ebbtide-prometheus-access"
"""Name of the TriggerAuthentication, and of the ConfigMap that holds the header's name."""

REASON = PREFIX + "scaling"
"""Annotation: why the steps are what they are."""

Plan: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """What is scaled, and where its metrics are."""

    pod: str
    service: ServiceSettings
    variant: VariantSettings
    customer: str
    cluster: str  # what Envoy calls the cluster of its requests
    prometheus: str  # address
    access: PrometheusAccess | None = None  # what that address asks for
    forecast: str | None = None  # the series of its forecast, in pods
    shared: bool = False  # that cluster is of further variants too
    tolerance: bool  # the cluster knows a tolerance for each HPA, as Kubernetes has it from 1.35 on

    @property
    def metrics(self) -> MetricSettings:
        return self.variant.scale.metrics

    @property
    def steps(self) -> Steps:
        return steps_of(self.service, self.variant)

    @property
    def by_keda(self) -> bool:
        return bool(self.metrics.external)

    @property
    def target(self) -> Plan:
        kind = "StatefulSet" if self.variant.kind is WorkloadKind.STATEFUL_SET else "Deployment"
        return {"apiVersion": "apps/v1", "kind": kind, "name": self.pod}


def reasons(it: Scaled) -> str:
    """One sentence for each step, for whoever reads the object."""
    starts, longest = format_duration(it.variant.starts_within), format_duration(it.service.longest_request)
    down = it.steps.down
    return (
        f"up: {_up_text(it)}; "
        f"down: by a quarter every {format_duration(down.period)}, in which the longest request ({longest}) ends, "
        f"after {format_duration(down.stabilization)} below, since a pod takes {starts} to come back"
    )


def _up_text(it: Scaled) -> str:
    if it.metrics.latency is None:
        return "twice as many or four more every 15s"
    period = format_duration(it.steps.up.period)
    return f"twice as many or four more every {period}, the time in which new pods are seen in the latency"


def behavior(it: Scaled) -> Plan:
    """`autoscaling/v2` behavior."""
    tolerance = {"tolerance": f"{it.steps.up_tolerance:.3g}"} if it.tolerance else {}
    return {"scaleUp": {**_rules(it.steps.up), **tolerance}, "scaleDown": _rules(it.steps.down)}


def _rules(step: Step) -> Plan:
    period = int(step.period.total_seconds())
    return {
        "stabilizationWindowSeconds": int(step.stabilization.total_seconds()),
        "selectPolicy": "Max",
        "policies": [
            {"type": "Percent", "value": step.percent, "periodSeconds": period},
            {"type": "Pods", "value": step.pods, "periodSeconds": period},
        ],
    }


def autoscaler(it: Scaled) -> Plan:
    """The spec of a HorizontalPodAutoscaler: CPU and memory alone."""
    scale = it.variant.scale
    return {
        "scaleTargetRef": it.target,
        "minReplicas": scale.min,
        "maxReplicas": scale.max,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": name, "target": {"type": "Utilization", "averageUtilization": round(percent)}},
            }
            for name, percent in _of_pods(it.metrics)
        ],
        "behavior": behavior(it),
    }


def scaled_object(it: Scaled) -> Plan:
    """The spec of a ScaledObject."""
    scale = it.variant.scale
    return {
        "scaleTargetRef": it.target,
        "minReplicaCount": scale.min,
        "maxReplicaCount": scale.max,
        "pollingInterval": int(SYNC.total_seconds()),
        "cooldownPeriod": int(it.steps.down.stabilization.total_seconds()),
        "fallback": {"failureThreshold": 3, "replicas": max(1, scale.min), "behavior": "currentReplicasIfHigher"},
        "advanced": {"horizontalPodAutoscalerConfig": {"name": it.pod, "behavior": behavior(it)}},
        "triggers": [
            *(
                {"type": name, "metricType": "Utilization", "metadata": {"value": f"{round(percent)}"}}
                for name, percent in _of_pods(it.metrics)
            ),
            *_queries(it),
        ],
    }


def _of_pods(metrics: MetricSettings) -> Iterator[tuple[str, float]]:
    for name, percent in (("cpu", metrics.cpu), ("memory", metrics.memory)):
        if percent is not None:
            yield name, percent


def _queries(it: Scaled) -> Iterator[Plan]:
    metrics = it.metrics
    if metrics.in_flight is not None:
        yield _total(it, "inFlight", in_flight_query(it.customer, [it.cluster]), metrics.in_flight)
    if metrics.latency is not None:
        yield _trigger(
            it,
            "latency",
            latency_query(it.customer, [it.cluster]),
            metrics.latency.total_seconds(),
            metric_type="Value",
        )
    if metrics.throughput is not None:
        yield _total(it, "throughput", throughput_query(it.customer, [it.cluster]), metrics.throughput)
    if metrics.queue is not None:
        yield _trigger(it, "queue", queue_query(it.customer, metrics.queue.metric, it.pod), metrics.queue.target)
    if metrics.gpu is not None:
        yield _trigger(it, "gpu", gpu_query(it.pod), metrics.gpu, metric_type="Value")
    if metrics.query is not None:
        yield _trigger(it, "query", metrics.query.promql, metrics.query.target)
    if it.forecast is not None:
        yield _trigger(it, "forecast", it.forecast, 1, silent_is_zero=True)


def _total(it: Scaled, name: str, query: str, threshold: float) -> Plan:
    """Of a total that is counted at the gateway."""
    if not it.shared:
        return _trigger(it, name, query, threshold)
    return _trigger(it, name, for_each_pod(it.customer, [it.cluster], query), threshold, metric_type="Value")


def _trigger(
    it: Scaled,
    name: str,
    query: str,
    threshold: float,
    *,
    metric_type: str = "AverageValue",
    silent_is_zero: bool = False,
) -> Plan:
    """`AverageValue`: the result is of the whole variant, and each pod takes `threshold` of it.

    A forecast that is silent asks for nothing, and must not hold what the other metrics would lower: for a week there
    is none.
    """
    trigger: Plan = {
        "type": "prometheus",
        "name": name,
        "metricType": metric_type,
        "metadata": {
            "serverAddress": it.prometheus,
            "query": query,
            "threshold": f"{threshold:g}",
            "ignoreNullValues": "true" if silent_is_zero else "false",
            **({} if it.access is None else told(it.access)),
        },
    }
    secret = it.access is not None and it.access.secrets
    return {**trigger, "authenticationRef": {"name": ACCESS}} if secret else trigger


def told(access: PrometheusAccess) -> Mapping[str, str]:
    """Return the fields of a trigger's metadata that describe the access; none of them is secret.

    Traps of KEDA's scaler: beside a token it sends no secret header, and an authority counts only beside a way of
    logging in. Alone it stands beside `apiKey`, of which the scaler for Prometheus sends nothing.
    """
    headers = ",".join(f"{name}={value}" for name, value in access.headers.items())
    modes: dict[str, str] = {}
    if access.token is not None:
        modes = {"authModes": "bearer"}
    elif access.header is not None:
        modes = {"authModes": "custom"}
    elif access.authority is not None:
        modes = {"authModes": "apiKey", "apiKey": "unused"}
    return {**modes, "customHeaders": headers} if headers else modes
