"""The autoscaler of a variant. Pure: settings in, plain values out.

A variant that scales only by CPU and memory has a HorizontalPodAutoscaler. A variant with a metric from Prometheus has
KEDA's ScaledObject, which creates one: a cluster has only one external metrics server, KEDA's.

**A missing metric never scales down.** A query without a result is an error (`ignoreNullValues: "false"`; by default
KEDA treats it as 0 and scales to one pod within 6 s), and after three errors the number of pods stays
(`currentReplicasIfHigher`; KEDA's default is a fixed number).

**A variant with a copy on spot nodes** shares an Envoy cluster with the copy, so requests are counted for both
together. Each of the two scales by the requests per pod over both, as a `Value`: an HPA multiplies its number of ready
pods by the ratio of value to target. Without a ready pod the HPA requests its minimum.

`ebbtide.settings.sections.serving.steps` computes the steps up and down; the simulator uses them too.
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
from ebbtide.text.durations import format_duration
from ebbtide.vocabulary.labels import PREFIX

ACCESS = "ebbtide-prometheus-access"
"""Name of the TriggerAuthentication, and of the ConfigMap that holds the header's name."""

REASON = PREFIX + "scaling"
"""Annotation with the reasons for the steps."""

Plan: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """A variant that scales, and the source of its metrics."""

    pod: str
    service: ServiceSettings
    variant: VariantSettings
    customer: str
    cluster: str  # name of the Envoy cluster that receives the variant's requests
    prometheus: str  # address
    access: PrometheusAccess | None = None  # credentials for Prometheus
    forecast: str | None = None  # the series with the variant's forecast, in pods
    shared: bool = False  # True if another variant shares the Envoy cluster
    tolerance: bool  # True if each HPA can set a tolerance, as in Kubernetes from 1.35 on

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


def reasons(scaled: Scaled) -> str:
    """Return the annotation's text, with a reason for each step."""
    starts, longest = format_duration(scaled.variant.starts_within), format_duration(scaled.service.longest_request)
    down = scaled.steps.down
    return (
        f"up: {_up_text(scaled)}; "
        f"down: by a quarter every {format_duration(down.period)}, in which the longest request ({longest}) ends, "
        f"after {format_duration(down.stabilization)} below, since a pod takes {starts} to come back"
    )


def _up_text(scaled: Scaled) -> str:
    if scaled.metrics.latency is None:
        return "twice as many or four more every 15s"
    period = format_duration(scaled.steps.up.period)
    return f"twice as many or four more every {period}, the time in which new pods are seen in the latency"


def behavior(scaled: Scaled) -> Plan:
    """Return the `behavior` of `autoscaling/v2`."""
    tolerance = {"tolerance": f"{scaled.steps.up_tolerance:.3g}"} if scaled.tolerance else {}
    return {"scaleUp": {**_rules(scaled.steps.up), **tolerance}, "scaleDown": _rules(scaled.steps.down)}


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


def autoscaler(scaled: Scaled) -> Plan:
    """Return the spec of a HorizontalPodAutoscaler, for CPU and memory only."""
    scale = scaled.variant.scale
    return {
        "scaleTargetRef": scaled.target,
        "minReplicas": scale.min,
        "maxReplicas": scale.max,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": name, "target": {"type": "Utilization", "averageUtilization": round(percent)}},
            }
            for name, percent in _of_pods(scaled.metrics)
        ],
        "behavior": behavior(scaled),
    }


def scaled_object(scaled: Scaled) -> Plan:
    """Return the spec of a ScaledObject."""
    scale = scaled.variant.scale
    return {
        "scaleTargetRef": scaled.target,
        "minReplicaCount": scale.min,
        "maxReplicaCount": scale.max,
        "pollingInterval": int(SYNC.total_seconds()),
        "cooldownPeriod": int(scaled.steps.down.stabilization.total_seconds()),
        "fallback": {"failureThreshold": 3, "replicas": max(1, scale.min), "behavior": "currentReplicasIfHigher"},
        "advanced": {"horizontalPodAutoscalerConfig": {"name": scaled.pod, "behavior": behavior(scaled)}},
        "triggers": [
            *(
                {"type": name, "metricType": "Utilization", "metadata": {"value": f"{round(percent)}"}}
                for name, percent in _of_pods(scaled.metrics)
            ),
            *_queries(scaled),
        ],
    }


def _of_pods(metrics: MetricSettings) -> Iterator[tuple[str, float]]:
    for name, percent in (("cpu", metrics.cpu), ("memory", metrics.memory)):
        if percent is not None:
            yield name, percent


def _queries(scaled: Scaled) -> Iterator[Plan]:
    metrics = scaled.metrics
    if metrics.in_flight is not None:
        yield _total(scaled, "inFlight", in_flight_query(scaled.customer, [scaled.cluster]), metrics.in_flight)
    if metrics.latency is not None:
        yield _trigger(
            scaled,
            "latency",
            latency_query(scaled.customer, [scaled.cluster]),
            metrics.latency.total_seconds(),
            metric_type="Value",
        )
    if metrics.throughput is not None:
        yield _total(scaled, "throughput", throughput_query(scaled.customer, [scaled.cluster]), metrics.throughput)
    if metrics.queue is not None:
        yield _trigger(
            scaled, "queue", queue_query(scaled.customer, metrics.queue.metric, scaled.pod), metrics.queue.target
        )
    if metrics.gpu is not None:
        yield _trigger(scaled, "gpu", gpu_query(scaled.pod), metrics.gpu, metric_type="Value")
    if metrics.query is not None:
        yield _trigger(scaled, "query", metrics.query.promql, metrics.query.target)
    if scaled.forecast is not None:
        yield _trigger(scaled, "forecast", scaled.forecast, 1, silent_is_zero=True)


def _total(scaled: Scaled, name: str, query: str, threshold: float) -> Plan:
    """Return a trigger for a total that the gateway counts."""
    if not scaled.shared:
        return _trigger(scaled, name, query, threshold)
    return _trigger(
        scaled, name, for_each_pod(scaled.customer, [scaled.cluster], query), threshold, metric_type="Value"
    )


def _trigger(
    scaled: Scaled,
    name: str,
    query: str,
    threshold: float,
    *,
    metric_type: str = "AverageValue",
    silent_is_zero: bool = False,
) -> Plan:
    """Return a trigger. With `AverageValue` the query's result is the variant's total, and `threshold` is per pod.

    `silent_is_zero`: a missing result counts as 0. In the first week there is no forecast, which must not stop the
    other metrics from scaling down.
    """
    trigger: Plan = {
        "type": "prometheus",
        "name": name,
        "metricType": metric_type,
        "metadata": {
            "serverAddress": scaled.prometheus,
            "query": query,
            "threshold": f"{threshold:g}",
            "ignoreNullValues": "true" if silent_is_zero else "false",
            **({} if scaled.access is None else access_metadata(scaled.access)),
        },
    }
    secret = scaled.access is not None and scaled.access.secrets
    return {**trigger, "authenticationRef": {"name": ACCESS}} if secret else trigger


def access_metadata(access: PrometheusAccess) -> Mapping[str, str]:
    """Return the fields of a trigger's metadata that describe the access; none of them is secret.

    Traps of KEDA's scaler: with a token it sends no secret header, and it uses a certificate authority only with an
    auth mode. An authority without credentials gets the mode `apiKey`, for which KEDA's Prometheus scaler sends
    nothing.
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
