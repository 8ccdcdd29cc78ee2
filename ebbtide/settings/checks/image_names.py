"""All images of a stack file, as far as they can be read: what the file names, and what Ebbtide brings."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import BaseModel

from ebbtide.settings.file.pod_entries import RAY, named_entries, raw_pods
from ebbtide.settings.file.problems import Finding, Location, value_at
from ebbtide.settings.file.service_entries import SERVICES
from ebbtide.settings.fragment.values import containers
from ebbtide.settings.sections.checked import readable
from ebbtide.settings.sections.controller import CONTROLLER_IMAGE, ControllerSettings
from ebbtide.settings.sections.images import DIGEST, ImageSettings
from ebbtide.settings.sections.jobs import CronJobSettings, JobSettings
from ebbtide.settings.sections.ray import RaySettings
from ebbtide.settings.sections.serving.services import VariantSettings
from ebbtide.settings.sections.workers import WorkerSettings
from ebbtide.settings.sections.workloads import WorkloadSettings

IMAGES = "ebbtide:images"
_CONTROLLER = "ebbtide:controller"
_NAMING: Mapping[str, type[BaseModel]] = {
    "ebbtide:workloads": WorkloadSettings,
    "ebbtide:workers": WorkerSettings,
    "ebbtide:jobs": JobSettings,
    "ebbtide:cronJobs": CronJobSettings,
    RAY: RaySettings,
}

BROUGHT = {
    "redis": "redis",
    "autoscaler": "autoscaler",
    "device_plugin": "devicePlugin",
    "ray_operator": "rayOperator",
    "prometheus": "prometheus",
    "alertmanager": "alertmanager",
    "gpu_exporter": "gpuExporter",
    "keda": "keda",
    "keda_metrics": "kedaMetrics",
    "envoy_gateway": "envoyGateway",
    "envoy": "envoy",
    "vpa_recommender": "vpaRecommender",
    "vpa_updater": "vpaUpdater",
    "vpa_admission": "vpaAdmission",
    "vpa_certgen": "vpaCertgen",
}
"""What Ebbtide brings, by field and by key. The controller's image has its key in the controller's section."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagesDraft:
    """`brought` has None for an image that the file leaves to Ebbtide; what cannot be read is nowhere."""

    require_digests: bool
    brought: Mapping[str, str | None]
    named: Mapping[Location, str]

    def without_digest(self, rendered: frozenset[str]) -> Iterator[Finding]:
        """`rendered`: the keys of those that Ebbtide brings to this stack."""
        for at, image in self.named.items():
            if DIGEST not in image:
                yield _finding(at, "this release's image, by tag" if image == CONTROLLER_IMAGE else repr(image), image)
        for key in sorted(rendered & set(self.brought)):
            own = self.brought[key]
            if own is None or DIGEST not in own:
                example = own or f"registry.example.com/{key.lower()}:1.0"
                yield _finding((IMAGES, key), repr(own) if own else "this release's image, by tag", example)


def images_draft(config: Mapping[str, object]) -> ImagesDraft:
    read = readable(ImageSettings, config.get(IMAGES, {}))
    return ImagesDraft(
        require_digests=read.get("require_digests") is True,
        brought={key: read[field] for field, key in BROUGHT.items() if field in read},
        named=dict(_named(config)),
    )


def _named(config: Mapping[str, object]) -> Iterator[tuple[Location, str]]:
    controller = readable(ControllerSettings, config.get(_CONTROLLER, {}))
    if "image" in controller:
        yield (_CONTROLLER, "image"), controller["image"]
    for section, model in _NAMING.items():
        for name, entry in named_entries(config.get(section)):
            image = readable(model, entry).get("image")
            if image is not None:
                yield (section, name, "image"), image
    for pod in raw_pods(config, (SERVICES,)):
        image = readable(VariantSettings, pod.raw).get("image")
        if image is not None:
            yield (*pod.at, "image"), image
    for pod in raw_pods(config, (*_NAMING, SERVICES)):
        for at, container in containers(value_at(pod.raw, ("pod",))):
            if isinstance(further := container.get("image"), str):
                yield (*pod.at, "pod", *at, "image"), further


def _finding(at: Location, found: str, image: str) -> Finding:
    return Finding(
        code="image.no-digest",
        at=at,
        wanted="an image named by digest, as images.requireDigests asks for",
        found=found,
        example=f"{image}{DIGEST}…",
        hint="docker buildx imagetools inspect shows the digest of a tag",
    )
