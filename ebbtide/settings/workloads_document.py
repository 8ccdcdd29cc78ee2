"""What the workload controller is told, from a stack: which Ray clusters there are, and who drives each."""

from collections.abc import Callable, Sequence

from ebbtide.labels import WORKER_NAMESPACE
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.ray import SleepSettings, namespace_of_ray
from ebbtide.vocabulary.labels import NAMESPACE
from ebbtide.vocabulary.workloads import RayPolicy, Sleep, Wake, When, WorkloadsConfig

DASHBOARD_PORT = 8265
"""Of a head of Ray: its API of jobs."""


def head_service(cluster: str) -> str:
    """As KubeRay names it."""
    return f"{cluster}-head-svc.{namespace_of_ray(cluster)}.svc"


def sleep_of(sleep: SleepSettings) -> Sleep:
    """When a Ray cluster sleeps, as the workload controller decides it."""
    wake = frozenset(Wake(reason.value) for reason in sleep.wake)
    return Sleep(when=When(sleep.when.value), after=sleep.after, wake=wake)


def workloads_config(
    settings: StackSettings, token_file: Callable[[str], str], years: Sequence[int] | None = None
) -> WorkloadsConfig:
    """`years` are those whose holidays are listed; None: as the other controller has them."""
    return WorkloadsConfig(
        namespace=NAMESPACE,
        hours=settings.business_hours.hours(years),
        ray=tuple(
            RayPolicy(
                name=name,
                namespace=namespace_of_ray(name),
                head=f"http://{head_service(name)}:{DASHBOARD_PORT}",
                token_file=token_file(name),
                pools=tuple(sorted(pool for pool, it in settings.workers.items() if it.ray == name)),
            )
            for name in settings.ray
        ),
        pool_namespace=WORKER_NAMESPACE,
    )
