"""The bundled images, the registry that they are pulled from, and the pull secrets of every pod.

**One registry for several upstreams.** A mirror separates them by the upstream's host as the first part of the path:
`registry.k8s.io/autoscaling/x:v1` becomes `mirror.example.com/hub/registry.k8s.io/autoscaling/x:v1`. A pull-through
cache of ECR whose repository prefix is the host, a proxy project of Harbor named after the host, and
`skopeo sync --scoped` all have this form. Only a prefix is added, so tags and digests stay. (Sources: AWS CLI
reference, `ecr create-pull-through-cache-rule`, whose prefix may have dots and 30 characters; goharbor.io, "Configure
Proxy Cache".)

**Images that the stack file names stay unchanged**, since the customer chose their registry.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from components.definitions import version
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.controller import CONTROLLER_IMAGE

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import PodSpecArgsDict

ALERTMANAGER = "quay.io/prometheus/alertmanager:v0.28.1"
# The last release of a corrected minor; amd64 and arm64. Source: NVIDIA/k8s-device-plugin, tags.
DEVICE_PLUGIN = "nvcr.io/nvidia/k8s-device-plugin:v0.19.3"
ENVOY = "docker.io/envoyproxy/envoy:distroless-v1.39.1"
ENVOY_GATEWAY = f"docker.io/envoyproxy/gateway:{version('envoy-gateway')}"
# amd64 and arm64. Source: NVIDIA/dcgm-exporter, `deployment/values.yaml` of the release.
GPU_EXPORTER = "nvcr.io/nvidia/k8s/dcgm-exporter:4.2.3-4.1.3-ubuntu22.04"
KARPENTER = f"public.ecr.aws/karpenter/controller:{version('karpenter').removeprefix('v')}"
KEDA = f"ghcr.io/kedacore/keda:{version('keda').removeprefix('v')}"
KEDA_METRICS = f"ghcr.io/kedacore/keda-metrics-apiserver:{version('keda').removeprefix('v')}"
PROMETHEUS = "quay.io/prometheus/prometheus:v3.7.3"
RAY_OPERATOR = f"quay.io/kuberay/operator:{version('kuberay')}"
REDIS = "docker.io/valkey/valkey:8.1"
_VPA = version("vertical").removeprefix("v")
VPA_ADMISSION = f"registry.k8s.io/autoscaling/vpa-admission-controller:{_VPA}"
VPA_CERTGEN = "registry.k8s.io/ingress-nginx/kube-webhook-certgen:v20231011-8b53cabe0"
VPA_RECOMMENDER = f"registry.k8s.io/autoscaling/vpa-recommender:{_VPA}"
VPA_UPDATER = f"registry.k8s.io/autoscaling/vpa-updater:{_VPA}"

_DOCKER_HUB = "docker.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSource:
    registry: str | None = None
    pull_secrets: tuple[str, ...] = ()
    named: Mapping[str, str] = field(default_factory=dict[str, str])  # by bundled image: the stack file's replacement

    def of(self, image: str) -> str:
        """Return the reference by which a bundled image is pulled."""
        if image in self.named:
            return self.named[image]
        return image if self.registry is None else f"{self.registry}/{_with_host(image)}"

    def pulled(self, pod: "PodSpecArgsDict") -> "PodSpecArgsDict":
        """Return the pod with its pull secrets, which must exist in the pod's namespace."""
        if not self.pull_secrets:
            return pod
        return {**pod, "image_pull_secrets": [{"name": name} for name in self.pull_secrets]}


UPSTREAM = ImageSource()
"""Each image from the registry that publishes it, and no pull secret."""


def image_source(settings: StackSettings) -> ImageSource:
    own, controller = settings.images, settings.controller.image
    chosen = {
        ALERTMANAGER: own.alertmanager,
        CONTROLLER_IMAGE: None if controller == CONTROLLER_IMAGE else controller,
        DEVICE_PLUGIN: own.device_plugin,
        ENVOY: own.envoy,
        ENVOY_GATEWAY: own.envoy_gateway,
        GPU_EXPORTER: own.gpu_exporter,
        KARPENTER: own.karpenter,
        KEDA: own.keda,
        KEDA_METRICS: own.keda_metrics,
        PROMETHEUS: own.prometheus,
        RAY_OPERATOR: own.ray_operator,
        REDIS: own.redis,
        VPA_ADMISSION: own.vpa_admission,
        VPA_CERTGEN: own.vpa_certgen,
        VPA_RECOMMENDER: own.vpa_recommender,
        VPA_UPDATER: own.vpa_updater,
    }
    return ImageSource(
        registry=own.registry,
        pull_secrets=own.pull_secrets,
        named={bundled: image for bundled, image in chosen.items() if image is not None},
    )


def _with_host(image: str) -> str:
    """Return an image's full name. A name without a host is Docker Hub's."""
    first, slash, _ = image.partition("/")
    if not slash:
        return f"{_DOCKER_HUB}/library/{image}"
    is_host = "." in first or ":" in first or first == "localhost"
    return image if is_host else f"{_DOCKER_HUB}/{image}"
