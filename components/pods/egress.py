"""The proxy, its exceptions, and the certificate authorities of pods in a closed network.

**Exceptions from the proxy:** the cluster's names; the API server, by the address that the kubelet sets in each pod, so
that the Service CIDR need not be known; private addresses, including the VPC; and the node's services that provide
credentials (instance metadata and EKS Pod Identity): a proxy would return its own credentials, or none.

**Names are not addresses.** A range in this list is compared only with literal addresses; a request to a name that
resolves into the VPC goes through the proxy. So AWS services with an endpoint in the stack's VPC are listed by name, if
pods call them; nodes do not read these variables.

**Both spellings.** Most programs read the variables in upper case; curl and programs based on it read `http_proxy` only
in lower case, since a request header could otherwise set it.

**The bundle is a mounted ConfigMap,** so a new certificate reaches running pods within about a minute, without a
restart. It is mounted as a directory: a single file (`subPath`) would keep its old content.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pulumi
from pulumi_kubernetes.core.v1 import ConfigMap

from components.pods.container import each_container
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.cluster import ClusterKind
from ebbtide.settings.sections.network import FOR_QUEUES
from ebbtide.text.addresses import PRIVATE, SHARED

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import (
        ContainerArgsDict,
        EnvVarArgsDict,
        PodSpecArgsDict,
        VolumeArgsDict,
        VolumeMountArgsDict,
    )

BUNDLE = "ebbtide-ca-bundle"

NEVER_PROXIED = (
    "localhost",
    "127.0.0.1",
    "169.254.169.254",
    "169.254.170.23",
    "fd00:ec2::23",
    ".svc",
    ".cluster.local",
    *PRIVATE,
    SHARED,
    "$(KUBERNETES_SERVICE_HOST)",
)
"""Kubernetes expands the last entry to the API server's address when it starts a container."""

_CALLED_BY_PODS = ("ec2", "eks", "sts", "autoscaling", "logs", "s3")
_FILE = "bundle.pem"
_DIRECTORY = "/etc/ebbtide-ca"
_PATH = f"{_DIRECTORY}/{_FILE}"
# OpenSSL and Go; Python's requests; the AWS clients; curl; Node.
_TRUST = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")


@dataclass(frozen=True, slots=True, kw_only=True)
class Egress:
    """Proxies and certificate bundle. `no_proxy` lists exceptions from the proxy, in addition to `NEVER_PROXIED`."""

    http_proxy: str | None = None
    https_proxy: str | None = None
    no_proxy: tuple[str, ...] = ()
    ca_bundle: str | None = None

    def through(self, pod: "PodSpecArgsDict") -> "PodSpecArgsDict":
        """Return the pod with proxy and certificate bundle, for pods that call addresses outside the cluster."""
        return _with(self.trusting(pod), self._proxy_variables(), [])

    def trusting(self, pod: "PodSpecArgsDict") -> "PodSpecArgsDict":
        """Return the pod with the bundle but no proxy, for pods that call the API server and Redis."""
        if self.ca_bundle is None:
            return pod
        mounts: list[VolumeMountArgsDict] = [{"name": BUNDLE, "mount_path": _DIRECTORY, "read_only": True}]
        trusting = _with(pod, [{"name": name, "value": _PATH} for name in _TRUST], mounts)
        volumes = cast("Sequence[VolumeArgsDict]", pod.get("volumes") or ())
        return {**trusting, "volumes": [*volumes, {"name": BUNDLE, "config_map": {"name": BUNDLE}}]}

    def _proxy_variables(self) -> "list[EnvVarArgsDict]":
        proxies = {"HTTP_PROXY": self.http_proxy, "HTTPS_PROXY": self.https_proxy}
        values = {name: value for name, value in proxies.items() if value is not None}
        if values:
            values["NO_PROXY"] = ",".join(dict.fromkeys((*NEVER_PROXIED, *self.no_proxy)))
        return [
            {"name": spelling, "value": value} for name, value in values.items() for spelling in (name, name.lower())
        ]


OPEN = Egress()
"""No proxy; images trust their own certificate authorities."""


def egress_of(settings: StackSettings) -> Egress:
    egress = settings.egress
    return Egress(
        http_proxy=egress.http_proxy,
        https_proxy=egress.https_proxy,
        no_proxy=(*_with_endpoints(settings), *egress.no_proxy),
        ca_bundle=egress.ca_bundle,
    )


def _with_endpoints(settings: StackSettings) -> tuple[str, ...]:
    """Return the host names of AWS services with an endpoint. A name covers subdomains, so S3's covers buckets."""
    is_ours = settings.cluster.kind is ClusterKind.EKS and settings.network.vpc is None
    if not (is_ours and settings.network.endpoints):
        return ()
    services = (*_CALLED_BY_PODS, *(FOR_QUEUES if settings.pools_on_sqs else ()))
    return tuple(f"{service}.{settings.region}.amazonaws.com" for service in services)


def ca_bundle(
    name: str, egress: Egress, namespace: pulumi.Input[str], *, parent: pulumi.Resource
) -> list[pulumi.Resource]:
    """Create the ConfigMap that `Egress` mounts, if the file has a bundle."""
    if egress.ca_bundle is None:
        return []
    return [
        ConfigMap(
            name,
            metadata={"name": BUNDLE, "namespace": namespace},
            data={_FILE: egress.ca_bundle},
            opts=pulumi.ResourceOptions(parent=parent),
        )
    ]


def _with(
    pod: "PodSpecArgsDict", variables: "list[EnvVarArgsDict]", mounts: "list[VolumeMountArgsDict]"
) -> "PodSpecArgsDict":
    """Return the pod with further variables and mounts in each container and init container."""
    return each_container(pod, lambda container: _container_with(container, variables, mounts))


def _container_with(
    container: "ContainerArgsDict", variables: "list[EnvVarArgsDict]", mounts: "list[VolumeMountArgsDict]"
) -> "ContainerArgsDict":
    env = cast("Sequence[EnvVarArgsDict]", container.get("env") or ())
    volume_mounts = cast("Sequence[VolumeMountArgsDict]", container.get("volume_mounts") or ())
    extended: ContainerArgsDict = {**container}
    names = {variable["name"] for variable in env}  # the file's values take precedence
    missing = [variable for variable in variables if variable["name"] not in names]
    if missing:
        extended["env"] = [*env, *missing]
    if mounts:
        extended["volume_mounts"] = [*volume_mounts, *mounts]
    return extended
