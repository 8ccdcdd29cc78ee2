"""Check the images that the stack file names and those that Ebbtide bundles."""

from collections.abc import Iterator

from ebbtide.settings.checks.parsed import CheckRule, ParsedSections
from ebbtide.settings.file.keys import CLUSTER, CONTROLLER, GROUPS, IMAGES, MONITORING, RAY, REDIS, SERVICES, WORKLOADS
from ebbtide.settings.file.problems import Finding, Location
from ebbtide.settings.fragment.values import containers
from ebbtide.settings.sections.cluster import RayOperatorSource
from ebbtide.settings.sections.controller import CONTROLLER_IMAGE
from ebbtide.settings.sections.images import DIGEST
from ebbtide.settings.sections.monitoring import PrometheusKind
from ebbtide.settings.sections.redis import RedisKind
from ebbtide.settings.sections.workloads import Vertical, WorkloadSettings

BUNDLED = {
    "redis": "redis",
    "autoscaler": "autoscaler",
    "device_plugin": "devicePlugin",
    "karpenter": "karpenter",
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
"""Bundled images: field and key. The controller's image has its key in the controller's section."""

_SETTLES = (CLUSTER, GROUPS, IMAGES, MONITORING, RAY, REDIS, SERVICES, WORKLOADS)
"""Sections that decide which bundled images the stack needs."""


def _bundled(parsed: ParsedSections) -> Iterator[str]:
    """Yield the keys of the bundled images that this stack needs."""
    stack = parsed.stack
    gpus = any(group.has_gpus for group in stack.node_groups.values())
    if stack.redis.kind is RedisKind.IN_CLUSTER:
        yield "redis"
    if stack.ray and stack.cluster.ray_operator is RayOperatorSource.BUNDLED:
        yield "rayOperator"
    if stack.monitoring.prometheus is PrometheusKind.BUNDLED:
        yield from ("prometheus", *(["alertmanager"] if stack.monitoring.alerts is not None else []))
        yield from ["gpuExporter"] if gpus else []
    if not parsed.existing:
        yield from (
            "autoscaler",
            *(["devicePlugin"] if gpus else []),
            *(["karpenter"] if stack.karpenter_groups else []),
        )
        yield from _bundled_for_services(parsed)


def _bundled_for_services(parsed: ParsedSections) -> Iterator[str]:
    services = parsed.stack.services.values()
    if any(variant.scale.metrics.external for service in services for variant in service.variants.values()):
        yield from ("keda", "kedaMetrics")
    if any(service.route is not None for service in services):
        yield from ("envoyGateway", "envoy")
    pods = (placed.pod for placed in parsed.pods)
    if any(isinstance(pod, WorkloadSettings) and pod.vertical is not Vertical.OFF for pod in pods):
        yield from ("vpaRecommender", "vpaUpdater", "vpaAdmission", "vpaCertgen")


def _bundled_images_have_a_digest(parsed: ParsedSections) -> Iterator[Finding]:
    images = {key: getattr(parsed.stack.images, field) for field, key in BUNDLED.items()}
    for key in sorted({*_bundled(parsed)}) if parsed.stack.images.require_digests else ():
        if images[key] is None or DIGEST not in images[key]:
            example = images[key] or f"registry.example.com/{key.lower()}:1.0"
            yield _finding((IMAGES, key), repr(images[key]) if images[key] else "this release's image, by tag", example)


def _images_of_pods_have_a_digest(parsed: ParsedSections) -> Iterator[Finding]:
    for at, image in _images(parsed) if parsed.stack.images.require_digests else ():
        if DIGEST not in image:
            yield _finding(at, "this release's image, by tag" if image == CONTROLLER_IMAGE else repr(image), image)


def _images(parsed: ParsedSections) -> Iterator[tuple[Location, str]]:
    if CONTROLLER in parsed.valid:
        yield (CONTROLLER, "image"), parsed.stack.controller.image
    if RAY in parsed.valid:
        yield from (((RAY, name, "image"), cluster.image) for name, cluster in parsed.stack.ray.items())
    for placed in parsed.pods:
        if placed.at[0] != RAY:
            yield (*placed.at, "image"), placed.pod.image
        for at, container in containers(placed.pod.pod):
            if isinstance(image := container.get("image"), str):
                yield (*placed.at, "pod", *at, "image"), image


def _configured_images_are_used(parsed: ParsedSections) -> Iterator[Finding]:
    """Refuse keys without effect."""
    used = {*_bundled(parsed)}
    for field, key in BUNDLED.items():
        image = getattr(parsed.stack.images, field)
        if image is not None and key not in used:
            hint = "this stack does not run it"
            yield Finding(
                code="image.unused", at=(IMAGES, key), wanted="this key left out", found=repr(image), hint=hint
            )


def _finding(at: Location, found: str, image: str) -> Finding:
    return Finding(
        code="image.no-digest",
        at=at,
        wanted="an image with a digest, as images.requireDigests requires",
        found=found,
        example=f"{image}{DIGEST}…",
        hint="docker buildx imagetools inspect shows the digest of a tag",
    )


RULES = (
    CheckRule((IMAGES,), _images_of_pods_have_a_digest),
    CheckRule(_SETTLES, _bundled_images_have_a_digest),
    CheckRule(_SETTLES, _configured_images_are_used),
)
