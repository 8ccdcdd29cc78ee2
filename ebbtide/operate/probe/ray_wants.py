"""What the Ray clusters of a stack ask of a cluster."""

from collections.abc import Iterator, Sequence

from ebbtide.operate.probe.facts import ObjectWant, RayWant
from ebbtide.operate.probe.rights import rights_of_accounts
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.recording.resources import Resource
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.cluster import RayOperatorSource
from ebbtide.settings.sections.ray import RAY_OPERATOR, TOKEN_KEY, head_name, namespace_of_ray, token_secret
from ebbtide.vocabulary.labels import NAMESPACE, WORKLOADS


def ray_wants(settings: StackSettings, resources: Sequence[Resource]) -> Iterator[RayWant]:
    bundled = settings.cluster.ray_operator is RayOperatorSource.BUNDLED
    for name, ray in settings.ray.items():
        here = namespace_of_ray(name)
        head = ray.head.service_account or head_name(name)
        names = {
            (NAMESPACE, RAY_OPERATOR): "operator",
            (here, head): "autoscaler",
            (NAMESPACE, WORKLOADS): "workload controller",
        }
        granted = rights_of_accounts(resources, here)
        yield RayWant(
            cluster=name,
            namespace=here,
            tokens=tuple(
                ObjectWant("Secret", space, token_secret(name), (TOKEN_KEY,))
                for space in (here, WORKER_NAMESPACE, NAMESPACE)
            ),
            accounts={
                f"system:serviceaccount:{space}:{account}": (called, granted[space, account])
                for (space, account), called in names.items()
                if (space, account) in granted
            },
            brings_operator=bundled,
        )
