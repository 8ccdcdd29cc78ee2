"""The pods that a stack declares, whatever its section. `ebbtide.settings.file.keys` lists the sections with pods."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings.file.document import OURS
from ebbtide.settings.file.entries import pod_entries
from ebbtide.settings.file.keys import FIELDS, PODS
from ebbtide.settings.file.problems import Location
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.adopted import AdoptedSettings
from ebbtide.settings.sections.owned import Owned
from ebbtide.settings.sections.pods.kubernetes import own_namespace
from ebbtide.settings.sections.pods.pod import PodSettings, ScrapedPodSettings
from ebbtide.settings.sections.ray import RayHead, RayPod, namespace_of_ray
from ebbtide.settings.sections.serving.services import VariantSettings
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.vocabulary.labels import NAMESPACE, Category


@dataclass(frozen=True, kw_only=True)
class DeclaredPod:
    at: Location  # in the file
    name: str  # of its account and its budget
    namespace: str
    category: Category
    pod: PodSettings

    @property
    def path(self) -> str:
        """Return the location in the form of messages: `workloads.api`."""
        section, *keys = map(str, self.at)
        return ".".join((section.removeprefix(OURS), *(keys if keys[-1] else keys[:1])))


def declared_pods(stack: StackSettings, sections: Iterable[str] = PODS) -> Iterator[DeclaredPod]:
    """Yield the pods of sections that are valid. Adopted pods are described as workloads."""
    entries_of = {section: getattr(stack, FIELDS[section]) for section in sections}
    for at, name, settings in pod_entries(entries_of, entries_of):
        pod = _as_pod(settings, str(at[1]), stack)
        namespace = settings.namespace if isinstance(settings, AdoptedSettings) else namespace_of(str(at[1]), pod)
        yield DeclaredPod(at=at, name=name, namespace=namespace, category=_category(pod), pod=pod)


def _as_pod(settings: object, entry: str, stack: StackSettings) -> PodSettings:
    match settings:
        case VariantSettings():
            return settings.workload(entry, stack.services[entry])
        case AdoptedSettings():
            return settings.modelled()
        case PodSettings():
            return settings
        case _:
            raise TypeError(type(settings))


def namespace_of(entry: str, pod: PodSettings) -> str:
    match pod:
        case WorkloadSettings():
            return own_namespace(entry) if pod.starts_pods else NAMESPACE
        case RayPod():
            return namespace_of_ray(entry)
        case _:
            return WORKER_NAMESPACE


def _category(pod: PodSettings) -> Category:
    match pod:
        case WorkloadSettings():
            return pod.category
        case RayHead():
            return Category.FIXED
        case _:
            return Category.WORKER


def rolling_pods(stack: StackSettings) -> Iterator[DeclaredPod]:
    """Yield the pods that run until they are stopped. A job's next pod takes new settings when it starts."""
    return (pod for pod in declared_pods(stack) if isinstance(pod.pod, ScrapedPodSettings))


def owned_entries(stack: StackSettings) -> Iterator[tuple[str, tuple[str, ...], Owned]]:
    """Yield each entry that may have an owner: its path, its name and the further names of its pods, and its keys."""
    for pod in declared_pods(stack):
        if isinstance(pod.pod, Owned):
            yield pod.path, (pod.name,), pod.pod
    for name, rule in stack.adopted.items():
        yield f"adopted.{name}", (name,), rule
    for name, cluster in stack.ray.items():
        yield f"ray.{name}", (name, *cluster.pods(name)), cluster
