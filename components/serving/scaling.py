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


def reasons(scaled: Scaled) -> str:
    """One sentence for each step, for whoever reads the object."""
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
    """`autoscaling/v2` behavior."""
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
    """The spec of a HorizontalPodAutoscaler: CPU and memory alone."""
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
    """The spec of a ScaledObject."""
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
    """Of a total that is counted at the gateway."""
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
    """`AverageValue`: the result is of the whole variant, and each pod takes `threshold` of it.

    A forecast that is silent asks for nothing, and must not hold what the other metrics would lower: for a week there
    is none.
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
