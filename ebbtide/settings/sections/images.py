"""The section of images: registry and pull secrets.

Digests are not filled in: without a lookup in the registry they would be guesses. `requireDigests` makes their absence
an error, and the other keys set them for the images that Ebbtide bundles.
"""

import re
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field, Strict

from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.checked import Settings, each_once
from ebbtide.settings.sections.grammar import text, text_schema
from ebbtide.settings.sections.types import Image

DIGEST = "@sha256:"

_REGISTRY = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$"
_OBJECT_NAME = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"


def _parse_registry(value: object) -> str:
    if not isinstance(value, str) or re.fullmatch(_REGISTRY, value) is None:
        text = value if isinstance(value, str) else ""
        hint = "leave out the scheme" if "://" in text else ""
        if "@" in text:  # not shown: a password may precede the sign
            raise wanted(
                "registry.login", "a registry", found="an address with a login", hint="logins belong in pull secrets"
            )
        raise wanted("registry.form", "a registry, with a path if need be", example="mirror.example.com/hub", hint=hint)
    return value


_Registry: TypeAlias = Annotated[str, BeforeValidator(_parse_registry), text_schema(_REGISTRY)]
_SecretName: TypeAlias = Annotated[
    str,
    *text(
        _OBJECT_NAME,
        "pull-secret.name",
        "the name of a Kubernetes Secret",
        "regcred",
        hint="only the name: the secret itself is made with kubectl create secret docker-registry",
    ),
]


class ImageSettings(Settings):
    """Registry, pull secrets and versions of images."""

    registry: _Registry | None = Field(
        default=None,
        description="a mirror for the images that Ebbtide brings; the path below it begins with the upstream's "
        "host. Images named in this file are pulled as named",
        examples=["mirror.example.com/hub"],
    )
    pull_secrets: Annotated[tuple[_SecretName, ...], each_once("pull secret", "[regcred]")] = Field(
        default=(),
        description="pull secrets of every pod; each must exist in ebbtide and ebbtide-workers, in "
        "ebbtide-ray-NAME of each Ray cluster, in ebbtide-NAME of each workload that starts pods, "
        "on EKS in kube-system, and with services in ebbtide-gateway and keda",
        examples=["[regcred]"],
    )
    require_digests: Annotated[bool, Strict()] = Field(
        default=False,
        description="refuse every image without a digest, including the images that Ebbtide brings",
        examples=["true"],
    )
    redis: Image | None = Field(
        default=None,
        description="image of the in-cluster Redis; default: this release's Valkey",
        examples=["registry.example.com/valkey/valkey:8.1"],
    )
    autoscaler: Image | None = Field(
        default=None,
        description="image of the cluster autoscaler, for the cluster's minor version; default: the release "
        "for that version",
        examples=["registry.example.com/autoscaling/cluster-autoscaler:v1.36.1"],
    )
    karpenter: Image | None = Field(
        default=None,
        description="image of Karpenter, for stacks whose groups it provides; default: this release's",
        examples=["registry.example.com/karpenter/controller:1.14.1"],
    )
    ray_operator: Image | None = Field(
        default=None,
        description="image of KubeRay's operator, for stacks with Ray clusters; default: this release's",
        examples=["registry.example.com/kuberay/operator:v1.6.2"],
    )
    device_plugin: Image | None = Field(
        default=None,
        description="image of NVIDIA's device plugin; default: this release's",
        examples=["registry.example.com/nvidia/k8s-device-plugin:v0.17.4"],
    )
    prometheus: Image | None = Field(
        default=None,
        description="image of the bundled Prometheus; default: this release's",
        examples=["registry.example.com/prometheus/prometheus:v3.7.3"],
    )
    alertmanager: Image | None = Field(
        default=None,
        description="image of the bundled Alertmanager; default: this release's",
        examples=["registry.example.com/prometheus/alertmanager:v0.28.1"],
    )
    gpu_exporter: Image | None = Field(
        default=None,
        description="image of NVIDIA's exporter of GPU metrics, for stacks with the bundled Prometheus; "
        "default: this release's",
        examples=["registry.example.com/nvidia/dcgm-exporter:4.4.1"],
    )
    keda: Image | None = Field(
        default=None,
        description="image of KEDA's operator, for services that scale by a metric of Prometheus; default: "
        "this release's",
        examples=["registry.example.com/kedacore/keda:2.21.0"],
    )
    keda_metrics: Image | None = Field(
        default=None,
        description="image of KEDA's metrics server; default: this release's",
        examples=["registry.example.com/kedacore/keda-metrics-apiserver:2.21.0"],
    )
    envoy_gateway: Image | None = Field(
        default=None,
        description="image of Envoy Gateway, for services with a route; default: this release's",
        examples=["registry.example.com/envoyproxy/gateway:v1.9.1"],
    )
    envoy: Image | None = Field(
        default=None,
        description="image of Envoy, the gateway's proxy; default: this release's",
        examples=["registry.example.com/envoyproxy/envoy:distroless-v1.39.1"],
    )
    vpa_recommender: Image | None = Field(
        default=None,
        description="image of the Vertical Pod Autoscaler's recommender, for services with vertical; default: "
        "this release's",
        examples=["registry.example.com/autoscaling/vpa-recommender:1.8.0"],
    )
    vpa_updater: Image | None = Field(
        default=None,
        description="image of the Vertical Pod Autoscaler's updater; default: this release's",
        examples=["registry.example.com/autoscaling/vpa-updater:1.8.0"],
    )
    vpa_admission: Image | None = Field(
        default=None,
        description="image of the Vertical Pod Autoscaler's admission controller; default: this release's",
        examples=["registry.example.com/autoscaling/vpa-admission-controller:1.8.0"],
    )
    vpa_certgen: Image | None = Field(
        default=None,
        description="image that creates the Vertical Pod Autoscaler's certificate; default: this release's",
        examples=["registry.example.com/ingress-nginx/kube-webhook-certgen:v20231011-8b53cabe0"],
    )
