"""Warn about images that may not start on the processors of their nodes.

No stack file says what an image was built for, except by `arch`.
"""

from collections.abc import Collection, Iterator
from itertools import product

from ebbtide.provisioning_labels import Architecture
from ebbtide.settings.capacity.node_sets import with_node_sets
from ebbtide.settings.capacity.placed import PlacedPod, placed_pods
from ebbtide.settings.capacity.placement import architecture, fits, node_of
from ebbtide.settings.file.problems import Caution
from ebbtide.settings.fragment.values import containers
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.pods.pod import PodSettings
from ebbtide.text.counts import first_names


def architecture_cautions(settings: StackSettings) -> Iterator[Caution]:
    """Warn about each image whose nodes do not have the architecture that the file states for it.

    An image without `arch` is taken for an amd64 image; `arch: any` on one of its pods declares it multi-arch.
    """
    stack = with_node_sets(settings)
    places: dict[str, dict[Architecture, list[PlacedPod]]] = {}  # of each image, by processor
    for placed in placed_pods(stack):
        for image, processor in product(_images(placed.pod), _architectures(placed, stack)):
            places.setdefault(image, {}).setdefault(processor, []).append(placed)
    for image, pods_on in places.items():
        pods = [placed for on_one in pods_on.values() for placed in on_one]
        stated = {placed.pod.arch for placed in pods}
        if Architecture.ANY in stated or {*pods_on} == {Architecture.AMD64}:
            continue
        where = " and ".join(
            f"{processor} nodes ({first_names([placed.path for placed in pods_on[processor]])})"
            for processor in sorted(pods_on)
        )
        path = f"{pods[0].path}.arch"
        if len(pods_on) > 1:
            text = f"{image} runs on {where}, so it must be multi-arch: write arch: any on one of these pods if it is"
            yield Caution("image.multi-arch", path, text)
        elif Architecture.ARM64 not in stated:
            text = (
                f"{image} runs on {where}, where an amd64 image does not start: write arch: arm64, "
                "or arch: any for a multi-arch image"
            )
            yield Caution("image.multi-arch", path, text)


def _images(pod: PodSettings) -> Iterator[str]:
    """Yield the images of a pod's containers. Images of adopted pods are unknown."""
    added = [container.get("image") for _, container in containers(pod.pod)]
    yield from dict.fromkeys(image for image in (pod.image, *added) if isinstance(image, str) and image)


def _architectures(placed: PlacedPod, stack: StackSettings) -> Collection[Architecture]:
    """Return the architectures of the nodes that the pod may use."""
    groups = [stack.node_groups[name] for name in placed.groups(stack.node_groups) if name in stack.node_groups]
    return {architecture(group) for group in groups if fits(placed.size, node_of(group))}
