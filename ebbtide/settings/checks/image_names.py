"""All images of a stack: what the file names, and what Ebbtide brings."""

from collections.abc import Iterator

from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.checks.read import Read, Rule
from ebbtide.settings.file.keys import CLUSTER, CONTROLLER, GROUPS, IMAGES, MONITORING, RAY, REDIS, SERVICES, WORKLOADS
from ebbtide.settings.file.problems import Finding, Location
from ebbtide.settings.fragment.values import containers
from ebbtide.settings.sections.cluster import RayOperatorSource
from ebbtide.settings.sections.controller import CONTROLLER_IMAGE
from ebbtide.settings.sections.images import DIGEST
from ebbtide.settings.sections.monitoring import PrometheusKind
from ebbtide.settings.sections.redis import RedisKind
from ebbtide.settings.sections.workloads import Vertical, WorkloadSettings

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


_SETTLES = (CLUSTER, GROUPS, IMAGES, MONITORING, RAY, REDIS, SERVICES, WORKLOADS)
"""Sections that say what comes along."""


def _brought(read: Read) -> Iterator[str]:
    """The keys of the images that Ebbtide brings to this stack."""
    stack = read.stack
    gpus = any(group.kind is NodeKind.GPU for group in stack.node_groups.values())
    if stack.redis.kind is RedisKind.IN_CLUSTER:
        yield "redis"
    if stack.ray and stack.cluster.ray_operator is RayOperatorSource.BUNDLED:
        yield "rayOperator"
    if stack.monitoring.prometheus is PrometheusKind.BUNDLED:
        yield from ("prometheus", *(["alertmanager"] if stack.monitoring.alerts is not None else []))
        yield from ["gpuExporter"] if gpus else []
    if not read.existing:
        yield from ("autoscaler", *(["devicePlugin"] if gpus else []))
        yield from _of_services(read)


def _of_services(read: Read) -> Iterator[str]:
    services = read.stack.services.values()
    if any(variant.scale.metrics.external for service in services for variant in service.variants.values()):
        yield from ("keda", "kedaMetrics")
    if any(service.route is not None for service in services):
        yield from ("envoyGateway", "envoy")
    pods = (each.pod for each in read.pods)
    if any(isinstance(pod, WorkloadSettings) and pod.vertical is not Vertical.OFF for pod in pods):
        yield from ("vpaRecommender", "vpaUpdater", "vpaAdmission", "vpaCertgen")


def _brought_ones_have_a_digest(read: Read) -> Iterator[Finding]:
    own = {key: getattr(read.stack.images, field) for field, key in BROUGHT.items()}
    for key in sorted({*_brought(read)}) if read.stack.images.require_digests else ():
        if own[key] is None or DIGEST not in own[key]:
            example = own[key] or f"registry.example.com/{key.lower()}:1.0"
            yield _finding((IMAGES, key), repr(own[key]) if own[key] else "this release's image, by tag", example)


def _named_ones_have_a_digest(read: Read) -> Iterator[Finding]:
    for at, image in _named(read) if read.stack.images.require_digests else ():
        if DIGEST not in image:
            yield _finding(at, "this release's image, by tag" if image == CONTROLLER_IMAGE else repr(image), image)


def _named(read: Read) -> Iterator[tuple[Location, str]]:
    if CONTROLLER in read.whole:
        yield (CONTROLLER, "image"), read.stack.controller.image
    if RAY in read.whole:
        yield from (((RAY, name, "image"), cluster.image) for name, cluster in read.stack.ray.items())
    for each in read.pods:
        if each.at[0] != RAY:
            yield (*each.at, "image"), each.pod.image
        for at, container in containers(each.pod.pod):
            if isinstance(further := container.get("image"), str):
                yield (*each.at, "pod", *at, "image"), further


def _given_ones_are_used(read: Read) -> Iterator[Finding]:
    """A key that would do nothing is refused."""
    used = {*_brought(read)}
    for field, key in BROUGHT.items():
        own = getattr(read.stack.images, field)
        if own is not None and key not in used:
            hint = "this stack does not run it"
            yield Finding(code="image.unused", at=(IMAGES, key), wanted="this key left out", found=repr(own), hint=hint)


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
    Rule((IMAGES,), _named_ones_have_a_digest),
    Rule(_SETTLES, _brought_ones_have_a_digest),
    Rule(_SETTLES, _given_ones_are_used),
)
