"""The proxy settings of pods in a closed network, and the addresses that are always called directly."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import pytest

from components.pods.egress import BUNDLE, NEVER_PROXIED, Egress, egress_of
from ebbtide.settings.sections.egress import EgressSettings
from ebbtide.settings.sections.network import NetworkSettings
from tests.builders.authority import AUTHORITY
from tests.builders.recorded import record
from tests.builders.stack import Recorded, stack_settings

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import PodSpecArgsDict

BARE: "PodSpecArgsDict" = {"containers": [{"name": "app", "image": "app:1"}, {"name": "side", "image": "side:1"}]}
PROXY = "http://proxy.example.com:3128"


@pytest.fixture(scope="module")
def closed() -> Recorded:
    egress = {"httpsProxy": PROXY, "noProxy": [".corp.example.com"], "caBundle": AUTHORITY}
    return Recorded(record(stack_settings(egress=EgressSettings.model_validate(egress, by_alias=True))))


def pods(stack: Recorded) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Namespace, name and spec of every pod that the stack makes."""
    for resource in stack.all:
        spec: Mapping[str, Any] = resource.inputs.get("spec") or {}
        template: Mapping[str, Any] | None = spec.get("jobTemplate", {}).get("spec", spec).get("template")
        if template:
            metadata = resource.inputs["metadata"]
            yield metadata["namespace"], metadata["name"], template["spec"]


def variables(pod: Mapping[str, Any]) -> list[dict[str, str]]:
    return [{each["name"]: each.get("value", "") for each in box.get("env", ())} for box in pod["containers"]]


def pod(stack: Recorded, name: str) -> Mapping[str, Any]:
    return next(spec for _, its_name, spec in pods(stack) if its_name == name)


def test_every_container_of_a_pod_gets_the_proxy_in_both_spellings() -> None:
    through = cast("Mapping[str, Any]", Egress(http_proxy=PROXY).through(BARE))

    names = [list(values) for values in variables(through)]
    assert names == [["HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"]] * 2


@pytest.mark.parametrize("name", ["api", "hub", "train", "cluster-autoscaler"])
def test_what_calls_the_outside_goes_through_the_proxy(closed: Recorded, name: str) -> None:
    (values,) = variables(pod(closed, name))

    assert values["HTTPS_PROXY"] == values["https_proxy"] == PROXY
    assert "HTTP_PROXY" not in values
    assert values["NO_PROXY"].split(",") == [*NEVER_PROXIED, ".corp.example.com"]


@pytest.mark.parametrize(
    "near",
    ["$(KUBERNETES_SERVICE_HOST)", "169.254.169.254", "169.254.170.23", ".svc", "10.0.0.0/8", "localhost"],
)
def test_the_cluster_and_the_nodes_own_services_are_never_proxied(closed: Recorded, near: str) -> None:
    assert near in variables(pod(closed, "train"))[0]["NO_PROXY"].split(",")


@pytest.mark.parametrize(("endpoints", "direct"), [(True, True), (False, False)])
def test_services_with_an_endpoint_in_the_vpc_are_called_directly(endpoints: bool, direct: bool) -> None:
    way_out = egress_of(
        stack_settings(
            egress=EgressSettings(https_proxy=PROXY),
            network=NetworkSettings.model_validate({"endpoints": endpoints}, by_alias=True),
        )
    )

    assert ("sts.us-east-1.amazonaws.com" in way_out.no_proxy) is direct
    assert ("s3.us-east-1.amazonaws.com" in way_out.no_proxy) is direct


def test_a_bundle_lies_in_each_namespace_whose_pods_mount_it(closed: Recorded) -> None:
    bundles = {
        resource.inputs["metadata"]["namespace"]: resource.inputs["data"]["bundle.pem"]
        for resource in closed.of("ConfigMap")
        if resource.inputs["metadata"]["name"] == BUNDLE
    }
    mounting = {
        namespace
        for namespace, _, spec in pods(closed)
        if any(volume["name"] == BUNDLE for volume in spec.get("volumes", ()))
    }

    assert mounting == {"ebbtide", "ebbtide-workers", "kube-system"}
    assert bundles == dict.fromkeys(mounting, AUTHORITY)


def test_a_pod_with_the_bundle_starts_after_it(closed: Recorded) -> None:
    assert "namespaces-system-ca-bundle" in closed.before(closed.named("api-deployment"))
    assert "autoscaler-ca-bundle" in closed.before(closed.named("autoscaler-deployment"))
