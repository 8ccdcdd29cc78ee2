"""What the kubelets of real nodes tell of containers is what recording rules ask for."""

import re
from collections.abc import Mapping

import pytest

from ebbtide.monitoring.recordings import recordings
from ebbtide.vocabulary.labels import NAMESPACE, WORKLOAD
from tests.builders.monitoring.promql import series, uses
from tests.node.harbour import Harbour

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]

BUSY = 0.2  # of a core; what the burner may use by its limit, and does
CPU = "container_cpu_usage_seconds_total"
OF_CONTAINERS = {
    use.metric: use.labels
    for rule in recordings("harbour")
    for use in uses(rule.expr)
    if use.metric.startswith("container_")
}


def test_a_kubelet_tells_each_metric_of_containers_that_a_rule_names(harbour: Harbour) -> None:
    name = burner(harbour)
    try:
        node = harbour.wait(lambda: running_on(harbour, name), "the burner to run")
        told = harbour.wait(lambda: whole(exposition(harbour, node), name), "cAdvisor to tell of it")
        begun, at = used(told, name)
        spent, until = harbour.wait(lambda: further(harbour, node, name, begun), "ten seconds of its processor time")
    finally:
        harbour.cluster.plane.kubectl("--namespace", NAMESPACE, "delete", "pod", name, "--wait=false")

    for metric, labels in OF_CONTAINERS.items():
        ours = [of for of in series(told)[metric] if of.get("pod") == name and of.get("container")]
        assert [of["container"] for of in ours] == ["burn"], f"{metric}: each container once"
        assert labels - {"node"} <= ours[0].keys(), "and `node` is added when it is scraped"
    assert BUSY / 2 < (spent - begun) / (until - at) < BUSY * 1.5


def burner(harbour: Harbour) -> str:
    """A pod that uses what it may, under the category and the size that Ebbtide gives pods."""
    like = harbour.deployment("hub")["spec"]["template"]["spec"]
    container = {key: value for key, value in like["containers"][0].items() if key in ("image", "securityContext")}
    limits = {"cpu": f"{int(BUSY * 1000)}m", "memory": "64Mi"}
    burn = {
        **container,
        "name": "burn",
        "command": ["sh", "-c", "while :; do :; done"],
        "resources": {"limits": limits},
    }
    kept = {key: like[key] for key in ("securityContext", "tolerations") if key in like}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "burner", "labels": {WORKLOAD: "burner"}},
        "spec": {**kept, "nodeSelector": {"set": "flexible"}, "containers": [burn], "terminationGracePeriodSeconds": 0},
    }
    harbour.api.create(f"/api/v1/namespaces/{NAMESPACE}/pods", pod)
    return "burner"


def running_on(harbour: Harbour, name: str) -> str | None:
    pod = harbour.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")
    return pod["spec"].get("nodeName") if pod["status"].get("phase") == "Running" else None


def exposition(harbour: Harbour, node: str) -> str:
    return harbour.cluster.plane.kubectl("get", "--raw", f"/api/v1/nodes/{node}/proxy/metrics/cadvisor")


def whole(told: str, name: str) -> str | None:
    """cAdvisor looks at a new container after some seconds."""
    of: Mapping[str, list[Mapping[str, str]]] = series(told)
    seen = [metric for metric in OF_CONTAINERS if any(labels.get("pod") == name for labels in of.get(metric, ()))]
    return told if len(seen) == len(OF_CONTAINERS) else None


def further(harbour: Harbour, node: str, name: str, begun: float) -> tuple[float, float] | None:
    later = used(exposition(harbour, node), name)
    return later if later[0] > begun + 10 * BUSY else None


def used(told: str, name: str) -> tuple[float, float]:
    """Seconds of a processor, and when they were counted: cAdvisor looks only now and then."""
    pattern = rf'^{CPU}\{{[^}}]*container="burn"[^}}]*pod="{name}"[^}}]*\}} (\S+) (\d+)$'
    ((seconds, at),) = re.findall(pattern, told, re.MULTILINE)
    return float(seconds), int(at) / 1000
