"""Where the images come from that Ebbtide itself brings, and with which right every pod pulls.

**One registry for several upstreams.** A mirror keeps them apart by the upstream's host as the first part of the path:
`registry.k8s.io/autoscaling/x:v1` becomes `mirror.example.com/hub/registry.k8s.io/autoscaling/x:v1`. A pull-through
cache of ECR whose repository prefix is the host, a proxy project of Harbor named after it, and `skopeo sync --scoped`
all have that form. Only a prefix is ever added, so a tag and a digest stay what they are. (Sources: AWS CLI reference,
`ecr create-pull-through-cache-rule`, whose prefix takes dots and 30 characters; goharbor.io, "Configure Proxy Cache".)

**What the file names stays as it is.** Workloads, workers and images that the stack file gives are the customer's own
choice of a registry.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ebbtide.settings.sections.images import ImageSettings

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import PodSpecArgsDict

_DOCKER_HUB = "docker.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSource:
    registry: str | None = None
    pull_secrets: tuple[str, ...] = ()
    named: Mapping[str, str] = field(default_factory=dict[str, str])  # what the file has in place of one that we bring

    def of(self, image: str) -> str:
        """Where an image that Ebbtide brings is pulled from."""
        if image in self.named:
            return self.named[image]
        return image if self.registry is None else f"{self.registry}/{_with_host(image)}"

    def replacing(self, own: Mapping[str, str | None]) -> "ImageSource":
        """`own`: by the image that Ebbtide brings, the one that the file names."""
        return replace(self, named={**self.named, **{image: it for image, it in own.items() if it is not None}})

    def chosen(self, own: str | None, default: str) -> str:
        """The image that the file names, as it names it; else the one that Ebbtide brings."""
        return own or self.of(default)

    def pulled(self, pod: "PodSpecArgsDict") -> "PodSpecArgsDict":
        """The pod with its pull secrets, which must exist in the pod's own namespace."""
        if not self.pull_secrets:
            return pod
        return {**pod, "image_pull_secrets": [{"name": name} for name in self.pull_secrets]}


UPSTREAM = ImageSource()
"""Each image from the registry that publishes it, and no pull secret."""


def image_source(settings: ImageSettings) -> ImageSource:
    return ImageSource(registry=settings.registry, pull_secrets=settings.pull_secrets)


def _with_host(image: str) -> str:
    """The full name of an image: without a host, or with a first part that can be none, it is Docker Hub's."""
    first, slash, _ = image.partition("/")
    if not slash:
        return f"{_DOCKER_HUB}/library/{image}"
    is_host = "." in first or ":" in first or first == "localhost"
    return image if is_host else f"{_DOCKER_HUB}/{image}"
