"""Give running pods the two labels that the policy gives new ones, with the operator's own rights.

Each patch carries the resourceVersion of the pod that was judged, so the API server refuses the patch if the pod has
changed since. The node selector and affinity of a running pod cannot be changed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from controllers.adapters.kube_api import ApiError, KubeApi
from ebbtide.operate.adopt.proposals import rule_of
from ebbtide.operate.adopt.workloads import has_ended, is_optional
from ebbtide.operate.api import MANAGER, items
from ebbtide.operate.objects import labels_of
from ebbtide.operate.why.node_pins import pod_name
from ebbtide.recording.drainable import Item
from ebbtide.settings.sections.adopted import AdoptedSettings
from ebbtide.text.one_line import collapsed
from ebbtide.vocabulary.labels import CATEGORY, WORKLOAD

_HOPELESS = (0, 401)  # no server or no login: every other patch would fail too


@dataclass(frozen=True, slots=True)
class Labelling:
    """A pod and the labels that it lacks."""

    pod: Item
    labels: Mapping[str, str]

    def __str__(self) -> str:
        return f"{pod_name(self.pod)}: {', '.join(f'{key}={value}' for key, value in self.labels.items())}"


def labellings(api: KubeApi, rules: Mapping[str, AdoptedSettings], namespaces: Sequence[str]) -> list[Labelling]:
    """Return the running pods that a rule selects and that lack its labels or have a former rule's labels.

    Raises `ApiError`.
    """
    pods = [pod for namespace in namespaces for pod in items(api, f"/api/v1/namespaces/{namespace}/pods")]
    return [found for pod in pods if (found := labelling_of(pod, rules)) is not None]


def labelling_of(pod: Item, rules: Mapping[str, AdoptedSettings]) -> Labelling | None:
    """Return the labels to set on a pod; None if it has ended or is terminating, has them, or no rule selects it."""
    name = None if has_ended(pod) or not is_optional(pod) else rule_of(pod, rules)
    if name is None:
        return None
    labels = {CATEGORY: rules[name].category.value, WORKLOAD: name}
    return None if labels.items() <= labels_of(pod).items() else Labelling(pod, labels)


def label(api: KubeApi, wanted: Sequence[Labelling]) -> Iterator[tuple[Labelling, str]]:
    """Label pods one by one; yield each with an error message, which is empty on success.

    Ends early if the server cannot be reached or refuses the login.
    """
    for each in wanted:
        try:
            meta = each.pod["metadata"]
            patch = {"metadata": {"resourceVersion": meta["resourceVersion"], "labels": dict(each.labels)}}
            path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
            api.patch(path, patch, fieldManager=MANAGER)
        except ApiError as error:
            yield each, collapsed(error)
            if error.status in _HOPELESS:
                return
        else:
            yield each, ""
