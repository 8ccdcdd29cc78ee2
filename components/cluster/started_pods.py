"""Admission of pods that a workload starts, so that they keep the promises of the stack file.

Such pods come from a program that is unaware of Ebbtide, so the API server enforces four rules:

- **Labels**: the category `worker`, which keeps the pods off the nodes of fixed pods, and the name that their closed
  budget selects.
- **Requests**, which give the scheduler and the autoscaler the pods' size.
- **Nodes** that may be removed, so that no started pod takes the place of a fixed pod on a fixed node.
- **No priority**: a pending pod would preempt workers.

Every client that may create a pod can set any label, including the label of the workload's own pods. A bare pod under
their budget would count as healthy but not as expected, so each such pod would allow one more eviction. The label is
therefore reserved for pods of a ReplicaSet or StatefulSet, and refused on pods that the workload writes. The workload's
rights include neither kind (`ebbtide.settings.sections.pods.kubernetes`), so none of its objects can own such a pod.

Updates are checked too, since a client that may patch a pod could remove a label. The kubelet's updates are not: they
go to the subresource `status`. The expressions are CEL; if one cannot be evaluated, the pod is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

from components.admission_policy import enforce, on
from ebbtide.settings.sections.pods.kubernetes import started_by
from ebbtide.vocabulary.labels import CATEGORY, WORKLOAD, Category

if TYPE_CHECKING:
    from pulumi_kubernetes.admissionregistration.v1 import ValidationArgsDict

_LABELS = "object.metadata.labels"
_OWNERS = "object.metadata.ownerReferences"


@dataclass(frozen=True, kw_only=True)
class StartedPodsArgs:
    workload: str
    namespace: pulumi.Input[str]
    nodes: Sequence[Mapping[str, str]] = ()
    """Node selectors, one of which a started pod must have; if empty, it needs none."""


class StartedPods(pulumi.ComponentResource):
    def __init__(self, name: str, args: StartedPodsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:StartedPods", name, None, opts)
        author = pulumi.Output.concat("'system:serviceaccount:", args.namespace, f":{args.workload}'")
        enforce(
            (f"{name}-policy", f"{name}-binding"),
            f"ebbtide-started-by-{args.workload}",
            on("", "pods", ["CREATE", "UPDATE"], args.namespace),
            validations(args.workload, args.nodes),
            variables=[
                {"name": "own", "expression": _labelled(WORKLOAD, args.workload)},
                {"name": "author", "expression": pulumi.Output.concat("request.userInfo.username == ", author)},
            ],
            parent=self,
        )
        self.register_outputs({})


def validations(workload: str, nodes: Sequence[Mapping[str, str]]) -> "list[ValidationArgsDict]":
    """Return the rules for the workload's own pods (of its Deployment or StatefulSet) and for pods that it starts."""
    pods = started_by(workload)
    rules = {
        f"!variables.own || (!variables.author && {_LASTING})": (
            f"the label {WORKLOAD}: {workload} is for the pods of its own Deployment or StatefulSet"
        ),
        _started(f"{_labelled(WORKLOAD, pods)} && {_labelled(CATEGORY, Category.WORKER.value)}"): (
            f"a pod that {workload} starts needs the labels {WORKLOAD}: {pods} and {CATEGORY}: {Category.WORKER.value}"
        ),
        _started(_REQUESTS): "each container needs requests for cpu and memory",
        _started(_NO_PRIORITY): "no priority above 0, but with preemptionPolicy: Never",
    }
    if nodes:
        choices = " or ".join(", ".join(f"{key}: {value}" for key, value in labels.items()) for labels in nodes)
        rules[_started(_chooses(nodes))] = f"a nodeSelector is needed with {choices}"
    return [
        {"expression": expression, "message": f"Ebbtide: {message}", "reason": "Forbidden"}
        for expression, message in rules.items()
    ]


def _started(expression: str) -> str:
    return f"variables.own || ({expression})"


def _labelled(key: str, value: str) -> str:
    return f"has({_LABELS}) && '{key}' in {_LABELS} && {_LABELS}['{key}'] == '{value}'"


def _chooses(nodes: Sequence[Mapping[str, str]]) -> str:
    chosen = "object.spec.nodeSelector"
    sets = [
        " && ".join(f"'{key}' in {chosen} && {chosen}['{key}'] == '{value}'" for key, value in labels.items())
        for labels in nodes
    ]
    return f"has({chosen}) && ({' || '.join(f'({labels})' for labels in sets)})"


_LASTING = (
    f"has({_OWNERS}) && {_OWNERS}.exists(o, has(o.controller) && o.controller && o.apiVersion == 'apps/v1' "
    "&& o.kind in ['ReplicaSet', 'StatefulSet'])"
)
_REQUESTS = (
    "object.spec.containers.all(c, has(c.resources) && has(c.resources.requests) "
    "&& 'cpu' in c.resources.requests && 'memory' in c.resources.requests)"
)
_NO_PRIORITY = (
    "!has(object.spec.priority) || object.spec.priority <= 0 "
    "|| (has(object.spec.preemptionPolicy) && object.spec.preemptionPolicy == 'Never')"
)
