"""Check the dependencies of services, one line each. Pure.

On EKS a stack brings its gateway and KEDA. On an existing cluster it uses those that are installed, and a missing kind
makes `pulumi up` fail halfway.
"""

from collections.abc import Iterator, Mapping

from ebbtide.operate.objects import at
from ebbtide.operate.probe.facts import Answer, Denied, ServingWant
from ebbtide.operate.probe.findings import Probed, ProbeFinding, missing, note, ok
from ebbtide.settings.sections.serving.gateway import ENVOY_GATEWAY_CONTROLLER, Implementation

EXTERNAL_METRICS = "v1beta1.external.metrics.k8s.io"
KEDA_SERVERS = ("keda-operator-metrics-apiserver", "keda-metrics-apiserver")
"""Names of KEDA's metrics server in its chart and in Ebbtide."""

PROVIDERS: Mapping[str, tuple[str, str]] = {  # by the API's group and version: its provider, its use
    "gateway.networking.k8s.io/v1": ("Gateway API's kinds, with your gateway", "routes"),
    "keda.sh/v1alpha1": ("KEDA", "metrics of Prometheus; cpu and memory need none (serving.keda)"),
    "gateway.envoyproxy.io/v1alpha1": ("Envoy Gateway", "its policies; or write implementation: other"),
    "autoscaling.k8s.io/v1": ("the Vertical Pod Autoscaler", 'vertical; or write vertical: "off"'),
}


def serving(probed: Probed) -> Iterator[ProbeFinding]:
    want = probed.wants.serving
    if want is None:
        return
    if not want.brings:
        for api in want.apis:
            provider, use = PROVIDERS[api]
            lacking = f"no {api}, which is needed for {use}; install {provider}"
            yield ok("services", api) if api in probed.facts.apis else missing("services", lacking)
        if want.gateway_class is not None:
            yield _gateway_class(want, probed.facts.gateway_class)
    yield from _external_metrics(want, probed.facts.external_metrics)


def _gateway_class(want: ServingWant, gateway_class: Answer) -> ProbeFinding:
    subject, name = "gateway", want.gateway_class
    if isinstance(gateway_class, Denied):
        return note(subject, f"whether the GatewayClass {name} is there cannot be read: you need the right to get it")
    if gateway_class is None:
        return missing(
            subject, f"no GatewayClass {name}, which serving.gatewayClass names (kubectl get gatewayclasses)"
        )
    controller = at(gateway_class, "spec", "controllerName")
    if want.implementation is Implementation.ENVOY_GATEWAY and controller != ENVOY_GATEWAY_CONTROLLER:
        return missing(
            subject, f"GatewayClass {name} is of {controller}, not of Envoy Gateway; write implementation: other"
        )
    return ok(subject, f"GatewayClass {name}, of {controller}")


def _external_metrics(want: ServingWant, service: Answer) -> Iterator[ProbeFinding]:
    """Check the server of external metrics; a cluster has only one."""
    subject = "metrics"
    if isinstance(service, Denied):
        if want.keda:
            yield note(
                subject, f"who serves external metrics cannot be read: you need the right to get {EXTERNAL_METRICS}"
            )
        return
    if service is None:
        if want.keda and not want.brings:
            yield missing(subject, "no server of external metrics; install KEDA, or scale only by cpu and memory")
        return
    server = at(service, "spec", "service", "name")
    if server in KEDA_SERVERS:
        yield ok(subject, "external metrics are KEDA's")
        return
    name = f"{at(service, 'spec', 'service', 'namespace')}/{server}"
    foreign = (
        f"{name} serves external metrics, and a cluster has only one such server: only cpu and memory scale services"
    )
    yield missing(subject, foreign) if want.keda else note(subject, foreign)
