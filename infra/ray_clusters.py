"""The Ray clusters of a stack, with their namespaces and KubeRay's operator."""

from collections.abc import Callable, Sequence

import pulumi

from components.cluster.evictions import Evictions, EvictionsArgs
from components.cluster.namespaces import RaySpaces, RaySpacesArgs
from components.ray.cluster import RayCluster, RayClusterArgs
from components.ray.operator import OperatorArgs, RayOperator
from components.ray.spec import HeadState, SharedValues
from components.redis.queues import Redis
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.cluster import RayOperatorSource
from ebbtide.settings.sections.ray import group_name, namespace_of_ray
from infra.site import Site, following


def ray_namespaces(site: Site) -> RaySpaces | None:
    if not site.settings.ray:
        return None
    return RaySpaces("ray-spaces", RaySpacesArgs(stack=site.stack, clusters=site.settings.ray), site.after())


def clusters_with_state(settings: StackSettings) -> Sequence[str]:
    """Return the Ray clusters whose heads store their state in Redis."""
    return [name for name, cluster in settings.ray.items() if cluster.remembers]


def ray_clusters(
    site: Site, spaces: RaySpaces, redis: Redis, new_token: Callable[[], str], options: pulumi.ResourceOptions
) -> Sequence[pulumi.Resource]:
    """Build the Ray clusters after the operator and its kinds, so that a destroy deletes the clusters first."""
    options = _operator(site, spaces, options)
    clusters: list[pulumi.Resource] = []
    for name, settings in site.settings.ray.items():
        namespace = spaces.names[name]
        grace = int(settings.grace.total_seconds())
        graces = {group_name(name, key): grace for key in settings.groups}
        Evictions(f"evictions-of-ray-{name}", EvictionsArgs(namespace=namespace, graces=graces, ray=name), options)
        args = RayClusterArgs(
            name=name,
            namespace=namespace,
            settings=settings,
            shared=_shared_values(site, name, redis),
            token=new_token(),
            readers={"workers": site.stack.worker_namespace, "system": site.stack.namespace},
        )
        after_roles = options
        for pods, pod in settings.pods(name).items():
            after_roles = site.with_role("ray", pods, pod, namespace_of_ray(name), after_roles)
        clusters.append(RayCluster(f"ray-{name}", args, after_roles))
    return clusters


def _shared_values(site: Site, name: str, redis: Redis) -> SharedValues:
    settings = site.settings.ray[name]
    state = HeadState(endpoint=redis.endpoint, authority=redis.authority, host=site.stack.cache_host)
    return SharedValues(
        stack=site.stack,
        node_sets=None if site.on_eks else site.settings.cluster.node_selectors,
        gpu_nodes={key: nodes for key, group in settings.groups.items() if (nodes := site.nodes_of(group))},
        state=state if settings.remembers else None,
    )


def _operator(site: Site, spaces: RaySpaces, options: pulumi.ResourceOptions) -> pulumi.ResourceOptions:
    """Return options that depend on the bundled operator; unchanged if the stack file names an existing operator."""
    if site.settings.cluster.ray_operator is RayOperatorSource.EXISTING:
        return options
    args = OperatorArgs(stack=site.stack, watched=spaces.names, cleans_up=clusters_with_state(site.settings))
    return following(options, RayOperator("ray-operator", args, options))
