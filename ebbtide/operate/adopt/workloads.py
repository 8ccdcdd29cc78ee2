"""Group the pods of a namespace into workloads. Pure.

The pods of one scaled owner are one workload. Owners of pods that run tasks are short-lived, so these pods are grouped
by labels: pods of known programs by the program's own label, other pods by labels that identify them. Only lasting
labels are used: not hashes, versions, runs, users or names of single objects.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ebbtide.operate.adopt.facts import OF_A_NODE, AdoptFacts, PodOwner, template_labels
from ebbtide.operate.adopt.programs import KnownProgram, lasting_value, program_of
from ebbtide.operate.objects import at, labels_of
from ebbtide.operate.owners import controller_of
from ebbtide.operate.why.node_pins import pod_name
from ebbtide.recording.drainable import Item
from ebbtide.settings.sections.adopted import OF_THE_NODE
from ebbtide.vocabulary.labels import ADOPT, PREFIX, WORKLOAD

_SCALED = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController")

PREFERRED = (
    *("app.kubernetes.io/name", "app.kubernetes.io/component", "app.kubernetes.io/instance"),
    *("app", "component", "k8s-app", "release"),
)
"""Labels that charts and operators give to all pods of a workload, the most telling first."""
_NAMES_OF_PROGRAMS = ("app.kubernetes.io/name", "app.kubernetes.io/component", "app", "component", "k8s-app")
"""Their values may equal an object's name: a bare pod is often named after its program."""
_WEAK = ("app.kubernetes.io/managed-by", "app.kubernetes.io/part-of", "heritage", "role")

_CHANGING = re.compile(
    r"(^|[-_./])(hash|uid|uuid|checksum|revision|generation|timestamp|pod-name|index|replicas|job-key|job-name"
    r"|jobset-name|group-key|pod-group-name|prebuilt-workload-name|instanceName|instanceRole|restart-attempt|version|chart"
    r"|sha|commit|digest|tag|build([-_](id|number))?|dag[-_]id|task[-_]id|node-id|try[-_]number|map[-_]index"
    r"|airflow-worker|(execution|logical)[-_]date|run[-_]?(id|name)|submission-id|execution-id|exec-id"
    r"|exec-resourceprofile-id|app-selector|exec-inactive|user|username|servername|creator|(created|deployed)-by|session([-_]id)?"
    r"|trial|experiment|taskRun|pipelineRun|pipelineTask)$"
    r"|^(spark-app-name|sparkoperator\.k8s\.io/app-name|workflows\.argoproj\.io/(workflow|[a-z-]*creator[a-z-]*)"
    r"|airflow_kpo_in_cluster|dask\.org/(cluster|worker|workergroup)-name|tekton\.dev/(pipeline|task)"
    r"|prefect\.io/(flow|deployment)-.*|shard-key|task-name|workflow-name|(job|project)\.runner\.gitlab\.com/.*|pod"
    r"|serving\.knative\.dev/configurationGeneration|skypilot-cluster(-name)?)$"
)
"""Label keys whose values differ between objects, runs, users or versions."""
_KNATIVES_REVISION = "serving.knative.dev/revision"
"""Knative sets `app` to this label's value, too."""
_UUID = r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}"
_OF_ONE_RUN = re.compile(rf"{_UUID}|(?<![0-9a-z])(?=[a-f]*[0-9])[0-9a-f]{{12,}}(?![0-9a-z])|20\d\d-[01]\d-[0-3]\d")
_VERSION = re.compile(r"v?\d+(\.\d+)+([-+_.].*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptableWorkload:
    """Pods that one rule may select."""

    namespace: str
    kind: str  # of the owner; "Pod" without one
    name: str
    owner: PodOwner | None
    is_task: bool
    pods: tuple[Item, ...]  # running or waiting
    ended: tuple[Item, ...]  # ended or terminating
    labels: Mapping[str, str]  # lasting ones that all its pods have
    changing: tuple[str, ...]  # keys that all its pods have, whose values do not last
    program: KnownProgram | None  # that creates the pods

    def __str__(self) -> str:
        kind = "bare pods" if self.kind == "Pod" else self.kind
        return f"{self.namespace}/{kind}{'' if (kind, self.name) == ('bare pods', 'pods') else f' {self.name}'}"

    @property
    def members(self) -> tuple[Item, ...]:
        return self.pods + self.ended


def is_of_a_node(pod: Item) -> bool:
    """True for pods of DaemonSets and mirror pods, which the policy leaves alone."""
    return controller_of(pod).kind in OF_A_NODE


def has_ended(pod: Item) -> bool:
    """True if the pod has ended or is terminating."""
    return at(pod, "status", "phase") in ("Succeeded", "Failed") or at(pod, "metadata", "deletionTimestamp") is not None


def is_optional(pod: Item) -> bool:
    """True if rules may apply to the pod."""
    return not is_of_a_node(pod) and labels_of(pod).get(ADOPT) != "no"


def rank(key: str) -> tuple[int, str]:
    """Order labels by how well they name a workload, the best first."""
    if key in PREFERRED:
        return PREFERRED.index(key), key
    return len(PREFERRED) + (key in _WEAK), key


def workloads_of(facts: AdoptFacts) -> list[AdoptableWorkload]:
    """Return the workloads of all namespaces that no rule selects yet, by namespace and name."""
    groups: dict[tuple[str, ...], list[Item]] = {}
    for pod in facts.pods:
        if is_optional(pod) and WORKLOAD not in labels_of(pod):
            groups.setdefault(_group(pod, facts.owners.get(pod_name(pod))), []).append(pod)
    found = [_workload(pods, facts.owners.get(pod_name(pods[0]))) for pods in groups.values()]
    # Ended pods show which tasks exist; a service's ended pods are leftovers.
    present = (each for each in found if each.is_task or each.pods)
    return sorted(present, key=lambda each: (each.namespace, each.name, each.kind))


def _is_task(pod: Item, owner: PodOwner | None) -> bool:
    if program_of(labels_of(pod)) is not None:
        return True
    restarts = (at(pod, "spec", "restartPolicy") or "Always") == "Always"
    return owner is None or owner.kind in ("Job", "CronJob", "Pod") or not (owner.has_scale or restarts)


def _group(pod: Item, owner: PodOwner | None) -> tuple[str, ...]:
    namespace, labels = pod["metadata"]["namespace"], labels_of(pod)
    if program := program_of(labels):
        return namespace, program.key, "" if program.kind else lasting_value(program, labels)
    if owner is None or _is_task(pod, owner):
        return namespace, "" if owner is None else owner.kind, *_identity(pod, owner)
    # One custom resource may have pods of several kinds, which differ by their labels.
    return namespace, owner.kind, owner.name, *(() if owner.kind in _SCALED else _identity(pod, owner))


def _identity(pod: Item, owner: PodOwner | None) -> tuple[str, ...]:
    labels = _lasting(pod, owner)
    return tuple(f"{key}={labels[key]}" for key in PREFERRED if key in labels)


def _lasting(pod: Item, owner: PodOwner | None) -> dict[str, str]:
    labels, program = labels_of(pod), program_of(labels_of(pod))
    if program is not None and not program.kind:
        others = {key: labels[key] for key in program.also if key in labels}
        return {program.key: lasting_value(program, labels), **others}
    objects = {pod["metadata"]["name"], controller_of(pod).name}
    if owner is not None and not _is_task(pod, owner):
        objects.discard(owner.name)
    names = () if program is not None else _NAMES_OF_PROGRAMS  # a user's pod is not named after a program
    revision = labels.get(_KNATIVES_REVISION)
    return {
        key: value
        for key, value in labels.items()
        if is_lasting(key, value) and value != revision and (value not in objects or key in names)
    }


def is_lasting(key: str, value: str) -> bool:
    """Return False for labels of Ebbtide and of nodes, and for those that identify one object, run, user or version."""
    return (
        not key.startswith((PREFIX, OF_THE_NODE))
        and _CHANGING.search(key) is None
        and _OF_ONE_RUN.search(value) is None
        and (key in PREFERRED or _VERSION.fullmatch(value) is None)
    )


def _workload(pods: Sequence[Item], owner: PodOwner | None) -> AdoptableWorkload:
    labels = common(_lasting(pod, owner) for pod in pods)
    program = program_of(labels_of(pods[0]))
    written = template_labels(owner)
    if written is not None:  # labels added by controllers and webhooks are not the team's
        labels = {key: value for key, value in labels.items() if written.get(key) == value}
    is_task = _is_task(pods[0], owner)
    kind = (program and program.kind) or ("Pod" if owner is None else owner.kind)
    shared = set[str].intersection(*(set(labels_of(pod)) for pod in pods), *([] if written is None else [set(written)]))
    return AdoptableWorkload(
        namespace=pods[0]["metadata"]["namespace"],
        kind=kind,
        name=_task_name(labels, kind, program) if owner is None or is_task else owner.name,
        owner=owner,
        is_task=is_task,
        pods=tuple(pod for pod in pods if not has_ended(pod)),
        ended=tuple(filter(has_ended, pods)),
        labels=labels,
        changing=tuple(sorted(key for key in shared - labels.keys() if not key.startswith((PREFIX, OF_THE_NODE)))),
        program=program,
    )


def _task_name(labels: Mapping[str, str], kind: str, program: KnownProgram | None) -> str:
    if program is not None:
        return program.rule.format(labels.get(program.key, ""))
    names = [labels[key] for key in ("app.kubernetes.io/component", "component", *PREFERRED) if key in labels]
    return next(iter(names), f"{kind.lower()}s")


def common(several: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the labels that all mappings share, with equal values."""
    first, *others = several
    return {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
