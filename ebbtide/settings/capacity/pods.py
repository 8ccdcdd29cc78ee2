"""Objects that the pods of a stack need in the cluster: Secrets by namespace, other objects, parts for serving."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings.declared import declared_pods
from ebbtide.settings.fragment.values import inside, mapping
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.entrance import TLS_PORT, Expose
from ebbtide.settings.sections.monitoring import PrometheusKind
from ebbtide.settings.sections.pods.pod import PodSettings
from ebbtide.settings.sections.ray import namespace_of_ray
from ebbtide.settings.sections.redis import REDIS_SECRET
from ebbtide.settings.sections.serving.gateway import GATEWAY_NAMESPACE, HTTP_PORT, KEDA_NAMESPACE
from ebbtide.settings.sections.workloads import Vertical
from ebbtide.vocabulary.labels import NAMESPACE


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingNeeds:
    gateway: bool  # something has a route
    keda: bool  # something scales by a metric of Prometheus
    resource_metrics: bool  # something scales by CPU or memory
    vertical: bool  # something's requests are set by the Vertical Pod Autoscaler

    @property
    def any(self) -> bool:
        return self.gateway or self.keda or self.resource_metrics or self.vertical


def serving_needs(settings: StackSettings) -> ServingNeeds:
    services = settings.services.values()
    scales = [variant.scale for service in services for variant in service.variants.values()]
    metrics = [scale.metrics for scale in scales if scale.grows]
    vertical = any(workload.vertical is not Vertical.OFF for workload in settings.all_workloads.values())
    return ServingNeeds(
        gateway=any(service.route is not None for service in services),
        keda=any(targets.external for targets in metrics),
        resource_metrics=vertical or any(targets.of_pods for targets in metrics),
        vertical=vertical,
    )


def gateway_entrance(settings: StackSettings) -> Expose | None:
    """Return the load balancer in front of the gateway, or None without routes.

    On an existing cluster the gateway has its own.
    """
    if settings.cluster.context is not None or not serving_needs(settings).gateway:
        return None
    serving = settings.serving
    return Expose.model_construct(
        public=serving.public,
        certificate=serving.certificate,
        sources=serving.sources,
        listen=HTTP_PORT if serving.certificate is None and serving.tls is None else TLS_PORT,
    )


SYSTEM_NAMESPACE = "kube-system"


def pull_secret_namespaces(settings: StackSettings) -> tuple[str, ...]:
    """Return the namespaces that need every secret of `images.pullSecrets`: all in which Ebbtide renders pods."""
    spaces = dict.fromkeys([NAMESPACE, WORKER_NAMESPACE, *(pod.namespace for pod in declared_pods(settings))])
    if settings.cluster.context is None:
        needs = serving_needs(settings)
        spaces |= dict.fromkeys([SYSTEM_NAMESPACE, *([KEDA_NAMESPACE] if needs.keda else [])])
        spaces |= dict.fromkeys([GATEWAY_NAMESPACE] if needs.gateway else [])
    return tuple(spaces)


CONFIG_MAP, CLAIM = "ConfigMap", "PersistentVolumeClaim"

_CONFIG_MAP_KEYS = ("configMapKeyRef", "configMapRef", "configMap")


class Named(NamedTuple):
    kind: str
    name: str
    key: str | None = None  # of its data; None for all or none of them


def referenced_objects(pod: PodSettings) -> tuple[Named, ...]:
    """Return the objects that the pod names, each once."""
    return tuple(dict.fromkeys((*_named_by_short_keys(pod), *_named_by_fragment(pod.pod))))


def needs_external_objects(pod: PodSettings, secrets: Collection[str]) -> bool:
    """True if the pod cannot start before objects outside the stack exist. `secrets` are the stack's own.

    The certificate of an Ingress delays no pod, nor does the token of a hub.
    """
    secret_names = {name for name, _ in pod.own_secrets()}
    return bool(secret_names - {*secrets, REDIS_SECRET} or referenced_objects(pod)) or pod.service_account is not None


def _named_by_short_keys(pod: PodSettings) -> Iterator[Named]:
    for variable in pod.env.values():
        if variable.config_map is not None:
            yield Named(CONFIG_MAP, variable.config_map, variable.key)
    for source in pod.env_from:
        if source.config_map is not None:
            yield Named(CONFIG_MAP, source.config_map)
    for volume in pod.volumes.values():
        if volume.config_map is not None:
            yield Named(CONFIG_MAP, volume.config_map)
        if volume.claim is not None:
            yield Named(CLAIM, volume.claim)


def _named_by_fragment(fragment: object) -> Iterator[Named]:
    """Yield the objects that a fragment names, except those that may be missing (`optional: true`)."""
    for _, key, value in inside(fragment):
        reference = mapping(value)
        name, claim, within = reference.get("name"), reference.get("claimName"), reference.get("key")
        if key in _CONFIG_MAP_KEYS and isinstance(name, str) and reference.get("optional") is not True:
            yield Named(CONFIG_MAP, name, within if isinstance(within, str) else None)
        elif key == "persistentVolumeClaim" and isinstance(claim, str):
            yield Named(CLAIM, claim)


def secrets_by_namespace(settings: StackSettings) -> Mapping[str, Collection[str]]:
    """Return the stack's own Secrets that pods read, by namespace; unread ones go to the workloads' namespace."""
    redis, monitoring = settings.redis, settings.monitoring
    everywhere = {*settings.images.pull_secrets, *([redis.tls.secret] if redis.tls else [])}
    places: dict[str, set[str]] = {NAMESPACE: set(everywhere), WORKER_NAMESPACE: set(everywhere)}
    for declared in declared_pods(settings):
        referenced = {secret for _, secret, _ in declared.pod.secret_references()}
        places[declared.namespace] = places.get(declared.namespace, set(settings.images.pull_secrets)) | referenced
    if redis.tls is not None:
        for name in (name for name, cluster in settings.ray.items() if cluster.remembers):
            places.setdefault(namespace_of_ray(name), set()).add(redis.tls.secret)
    places[NAMESPACE] |= {secret for _, secret, _ in monitoring.secret_references()}
    places[NAMESPACE] |= {redis.controller.secret} if redis.controller else set[str]()
    brokers = settings.brokers.values()
    places[NAMESPACE] |= {broker.controller.secret for broker in brokers if broker.controller}
    places[WORKER_NAMESPACE] |= {broker.workers.secret for broker in brokers if broker.workers}
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


def idle_prometheus(settings: StackSettings) -> str:
    """Return the URL of the Prometheus that shows what is idle; empty if there is none or it needs credentials."""
    monitoring, serving = settings.monitoring, settings.serving
    if monitoring.prometheus is PrometheusKind.BUNDLED or serving.prometheus is None:
        return monitoring.address or ""
    return serving.prometheus if serving.prometheus_access is None else ""


def ingress_wants(settings: StackSettings) -> tuple[str | None, ...]:
    """Return the ingress classes that the stack's Ingresses name, each once; None is the cluster's default class."""
    ingresses = [workload.ingress for workload in settings.workloads.values()]
    return tuple(dict.fromkeys(ingress.class_ for ingress in ingresses if ingress is not None))
