"""The namespaces that each Secret of a stack file is written to."""

from collections.abc import Collection, Mapping

from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings.every_pod import every_pod
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.ray import namespace_of_ray
from ebbtide.settings.sections.serving.gateway import GATEWAY_NAMESPACE, KEDA_NAMESPACE
from ebbtide.settings.serving_needs import serving_needs
from ebbtide.vocabulary.labels import NAMESPACE


def secrets_by_namespace(settings: StackSettings) -> Mapping[str, Collection[str]]:
    """Return the stack's own Secrets that pods read, by namespace. A Secret without a reader goes to the workloads."""
    redis, monitoring = settings.redis, settings.monitoring
    everywhere = {*settings.images.pull_secrets, *([redis.tls.secret] if redis.tls else [])}
    places: dict[str, set[str]] = {NAMESPACE: set(everywhere), WORKER_NAMESPACE: set(everywhere)}
    for _, namespace, pod in every_pod(settings):
        referenced = {secret for _, secret, _ in pod.secret_references()}
        places[namespace] = places.get(namespace, set(settings.images.pull_secrets)) | referenced
    if redis.tls is not None:
        for name in (name for name, cluster in settings.ray.items() if cluster.remembers):
            places.setdefault(namespace_of_ray(name), set()).add(redis.tls.secret)
    places[NAMESPACE] |= {secret for _, secret, _ in monitoring.secret_references()}
    places[NAMESPACE] |= {redis.controller.secret} if redis.controller else set[str]()
    of_serving = serving_secrets(settings, GATEWAY_NAMESPACE) | serving_secrets(settings, KEDA_NAMESPACE)
    if settings.cluster.context is not None:  # on EKS the gateway and KEDA have their own namespaces
        places[NAMESPACE] |= of_serving
    places[NAMESPACE] |= settings.secrets.keys() - of_serving - set().union(*places.values())
    return {namespace: names & settings.secrets.keys() for namespace, names in places.items()}


def serving_secrets(settings: StackSettings, namespace: str) -> set[str]:
    """Return the Secrets that the gateway or KEDA reads, by its namespace on EKS."""
    needs, tls, access = serving_needs(settings), settings.serving.tls, settings.serving.prometheus_access
    if namespace == GATEWAY_NAMESPACE:
        return {tls} if tls is not None and needs.gateway else set()
    return access.secrets if access is not None and needs.keda else set()
