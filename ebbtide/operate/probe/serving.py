"""Whether what services stand on is there: one line for each. Pure.

On EKS a stack brings its gateway and KEDA. On a cluster that is there they are used as they are, and a kind that is
missing ends an `up` halfway.
"""

from collections.abc import Iterator, Mapping

from ebbtide.operate.objects import at
from ebbtide.operate.probe.facts import Answer, Denied, ServingWant
from ebbtide.operate.probe.findings import Finding, Probed, missing, note, ok
from ebbtide.settings.sections.serving.gateway import ENVOY_GATEWAY_CONTROLLER, Implementation

EXTERNAL_METRICS = "v1beta1.external.metrics.k8s.io"
KEDAS = ("keda-operator-metrics-apiserver", "keda-metrics-apiserver")
"""What its chart calls its server of metrics, and what we call it."""

MADE: Mapping[str, tuple[str, str]] = {  # by the API's group and version: what makes it, what is lost without it
    "gateway.networking.k8s.io/v1": ("Gateway API's kinds, with your gateway", "routes"),
    "keda.sh/v1alpha1": ("KEDA", "metrics of Prometheus; cpu and memory need none (serving.keda)"),
    "gateway.envoyproxy.io/v1alpha1": ("Envoy Gateway", "its policies; or write implementation: other"),
    "autoscaling.k8s.io/v1": ("the Vertical Pod Autoscaler", 'vertical; or write vertical: "off"'),
}


def serving(probed: Probed) -> Iterator[Finding]:
    want = probed.wants.serving
    if want is None:
        return
    if not want.brings:
        for api in want.apis:
            install, lost = MADE[api]
            lacking = f"no {api}, which is needed for {lost}; install {install}"
            yield ok("services", api) if api in probed.facts.apis else missing("services", lacking)
        if want.gateway_class is not None:
            yield _gateway_class(want, probed.facts.gateway_class)
    yield from _external_metrics(want, probed.facts.external_metrics)


def _gateway_class(want: ServingWant, seen: Answer) -> Finding:
    what, name = "gateway", want.gateway_class
    if isinstance(seen, Denied):
        return note(what, f"whether the GatewayClass {name} is there cannot be read: you need the right to get it")
    if seen is None:
        return missing(what, f"no GatewayClass {name}, which serving.gatewayClass names (kubectl get gatewayclasses)")
    controller = at(seen, "spec", "controllerName")
    if want.implementation is Implementation.ENVOY_GATEWAY and controller != ENVOY_GATEWAY_CONTROLLER:
        return missing(
            what, f"GatewayClass {name} is of {controller}, not of Envoy Gateway; write implementation: other"
        )
    return ok(what, f"GatewayClass {name}, of {controller}")


def _external_metrics(want: ServingWant, seen: Answer) -> Iterator[Finding]:
    """A cluster has one server of them."""
    what = "metrics"
    if isinstance(seen, Denied):
        if want.keda:
            yield note(
                what, f"who serves external metrics cannot be read: you need the right to get {EXTERNAL_METRICS}"
            )
        return
    if seen is None:
        if want.keda and not want.brings:
            yield missing(what, "no server of external metrics; install KEDA, or scale only by cpu and memory")
        return
    server = at(seen, "spec", "service", "name")
    if server in KEDAS:
        yield ok(what, "external metrics are KEDA's")
        return
    place = f"{at(seen, 'spec', 'service', 'namespace')}/{server}"
    said = (
        f"{place} serves external metrics, and a cluster has only one such server: only cpu and memory scale services"
    )
    yield missing(what, said) if want.keda else note(what, said)
