"""Check that a NodePool's nodes suit the pods of their set, as `ebbtide check` does for a node group. Pure.

`weight` only changes the order of NodePools; `node_pools` checks `terminationGracePeriod`, `expireAfter` and the
budgets. Sources: kubernetes-sigs/karpenter 1.14.1, `pkg/apis/v1/nodepool.go`,
`pkg/controllers/state/statenode.go`, `pkg/controllers/static`, and docs/evidence/karpenter.md.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from controllers.adapters.kube_api import Json
from ebbtide.kube.taints import Taint, taint_of
from ebbtide.operate.objects import Document, at, rows_at, words_at
from ebbtide.operate.probe.facts import NodePoolWant
from ebbtide.operate.probe.findings import Probed, ProbeFinding, State, missing, note
from ebbtide.operate.probe.nodes import tolerates
from ebbtide.operate.probe.wants import PodWant
from ebbtide.operate.why.node_pins import DO_NOT_DISRUPT, NODE_POOL
from ebbtide.prices import InstanceType, UnknownInstanceType, instance_type
from ebbtide.provisioning_labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, Architecture, NodeKind
from ebbtide.text.quantities import cpu_text, memory_text
from ebbtide.vocabulary.labels import GPU_RESOURCE

_OS = "kubernetes.io/os"
_AMD64, _ARM64 = Architecture.AMD64.value, Architecture.ARM64.value
_PROVIDERS = ("karpenter.k8s.aws/", "eks.amazonaws.com/")
_ARM_FAMILY = re.compile(r"a1|[a-z]+\d+g[a-z]*|p6e-gb\d+")  # AWS names: a `g` after the generation means Graviton
_MANUFACTURERS = {"aws": _ARM64, "intel": _AMD64, "amd": _AMD64}
_TAKEN_OFF = "/agent-not-ready"
"""Suffix of startup taints that the DaemonSets of Cilium and of the EBS, EFS and FSx CSI drivers remove."""
_KNOWN = (
    *(ARCH, _OS, INSTANCE_TYPE, CAPACITY_TYPE, "topology.kubernetes.io/zone", "topology.kubernetes.io/region"),
    *("topology.k8s.aws/zone-id", *_PROVIDERS),
)
"""Prefixes of labels that Karpenter sets on each node by itself."""


@dataclass(frozen=True, slots=True)
class Requirements:
    """`spec.template.spec.requirements`: the allowed values of a node's labels."""

    rows: Sequence[Document]

    def of(self, key: str) -> list[Document]:
        return [row for row in self.rows if row.get("key") == key]

    def allow(self, key: str, value: str) -> bool:
        return all(_allows(row, value) for row in self.of(key))

    def listed(self, key: str) -> list[str] | None:
        """The values of the first `In` list that every requirement allows; None without such a list."""
        lists: list[list[str]] = [row.get("values") or [] for row in self.of(key) if row.get("operator") == "In"]
        return [value for value in lists[0] if self.allow(key, value)] if lists else None

    def of_provider(self, name: str) -> Iterator[str]:
        """Yield the keys of the provider label `name` that have a requirement."""
        yield from (key for key in (provider + name for provider in _PROVIDERS) if self.of(key))

    @property
    def architectures(self) -> list[str]:
        """The processor architectures that every requirement allows, sorted."""
        found = {arch for arch in (_AMD64, _ARM64) if self.allow(ARCH, arch)}
        for key in (INSTANCE_TYPE, *self.of_provider("instance-family")):
            if (names := self.listed(key)) is not None:
                found &= {architecture_of(name) for name in names}
        for key in self.of_provider("instance-cpu-manufacturer"):
            found &= {arch for name, arch in _MANUFACTURERS.items() if self.allow(key, name)}
        return sorted(found)

    def most(self, key: str) -> int | None:
        """The upper bound of a numeric label; 0 if a node may not have the label, None without a bound."""
        return min((bound for row in self.of(key) if (bound := _upper(row)) is not None), default=None)

    @property
    def types(self) -> list[InstanceType] | None:
        """The listed instance types; None without a list, or if one of them is unknown."""
        try:
            names = self.listed(INSTANCE_TYPE)
            return None if names is None else [instance_type(name) for name in names]
        except UnknownInstanceType:
            return None


def architecture_of(name: str) -> str:
    """Return the architecture of an AWS instance type or family, by its name."""
    return _ARM64 if _ARM_FAMILY.fullmatch(name.partition(".")[0]) else _AMD64


def requirements_of(pool: Json) -> Requirements:
    return Requirements(rows_at(pool, "spec", "template", "spec", "requirements"))


def _allows(row: Document, value: str) -> bool:
    values = [f"{each}" for each in row.get("values") or ()]
    match row.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "DoesNotExist":
            return False
        case "Gt" | "Lt" | "Gte" | "Lte":
            return not value.isdecimal() or _compares(row["operator"], int(value), int(values[0]))
        case _:
            return True


def _upper(row: Document) -> int | None:
    values = [int(each) for each in map(str, row.get("values") or ()) if each.isdecimal()]
    match row.get("operator"):
        case "In" | "Lte":
            return max(values, default=None)
        case "Lt":
            return values[0] - 1 if values else None
        case "DoesNotExist":
            return 0
        case _:
            return None


def _compares(operator: str, value: int, bound: int) -> bool:
    return {"Gt": value > bound, "Lt": value < bound, "Gte": value >= bound, "Lte": value <= bound}[operator]


def template_faults(probed: Probed, want: NodePoolWant, pool: Json, others: Sequence[Json]) -> Iterator[ProbeFinding]:
    """Yield what keeps pods off the nodes of `pool`. `others` are the readable other NodePools of its set."""
    subject, of_set = f"nodepool {want.name}", probed.wants.pods.get(want.node_set, ())
    pods = _dependent(of_set, pool, others)
    yield from _not_launching(subject, pool)
    yield from _labels(subject, want, pool, (probed.wants.nodes or {}).get(want.node_set, {}))
    if words_at(pool, "spec", "template", "metadata", "annotations").get(DO_NOT_DISRUPT) == "true":
        said = "true on each node, so none is ever removed, not even an empty one; remove it from template.metadata"
        yield note(f"{subject} {DO_NOT_DISRUPT}", said)
    yield from _taints(subject, want, pool, pods)
    yield from _mixed(subject, requirements_of(pool), of_set)
    yield from _requirements(subject, want, requirements_of(pool), pods)
    limits: Mapping[str, object] = at(pool, "spec", "limits") or {}
    if "nodes" in limits and "cpu" not in limits:
        yield note(
            f"{subject} limits.nodes",
            f"{limits['nodes']} without limits.cpu: Karpenter does not count the nodes that it plans in one batch, so "
            "a burst of pods exceeds it; write limits.cpu, too",
        )


def _dependent(pods: Sequence[PodWant], pool: Json, others: Sequence[Json]) -> Sequence[PodWant]:
    """Return the pods that no other NodePool of the set accepts; all of them if this one accepts none."""
    if not any(_takes(pool, pod) for pod in pods):
        return pods
    return [pod for pod in pods if not any(_takes(other, pod) for other in others)]


def _takes(pool: Json, pod: PodWant) -> bool:
    requirements = requirements_of(pool)
    types = requirements.types
    return (
        all(tolerates(pod, taint) for taint in _hard_taints(pool))
        and (pod.arch is None or pod.arch in requirements.architectures)
        and (types is None or any(_holds(kind, pod) for kind in types))
        and not any(_exceeded(requirements, pod))
    )


def _hard_taints(pool: Json) -> list[Taint]:
    rows = rows_at(pool, "spec", "template", "spec", "taints")
    return [taint for taint in map(taint_of, rows) if taint.repels]


def _not_launching(subject: str, pool: Json) -> Iterator[ProbeFinding]:
    if "deletionTimestamp" in pool["metadata"]:
        yield missing(subject, "is being deleted with its nodes; create it again, or change cluster.nodePools")
    if fault := unready(pool):
        yield missing(f"{subject} Ready", f"{fault}: Karpenter launches no node; kubectl describe nodepool says more")
    if (replicas := at(pool, "spec", "replicas")) is not None:
        yield missing(
            f"{subject} replicas",
            f"wanted none, found {replicas}: it keeps this number of nodes day and night and launches none for a pod; "
            "create a NodePool without replicas, since the field cannot be removed",
        )


def unready(item: Json) -> str:
    """The message of the condition `Ready`, if it is false; empty otherwise."""
    false = [row for row in rows_at(item, "status", "conditions") if row.get("status") == "False"]
    ready = next((row for row in false if row.get("type") == "Ready"), None)
    return "" if ready is None else str(ready.get("message") or ready.get("reason") or "not ready")


def _labels(subject: str, want: NodePoolWant, pool: Json, selector: Mapping[str, str]) -> Iterator[ProbeFinding]:
    labels = words_at(pool, "spec", "template", "metadata", "labels")
    requirements = requirements_of(pool)
    for key, value in selector.items():
        if key == NODE_POOL:
            found, fits = want.name, value == want.name
        elif key in labels:
            found, fits = labels[key], labels[key] == value
        else:
            rows = requirements.of(key)
            found = ", ".join(requirements.listed(key) or ()) or ("a requirement without it" if rows else "none")
            fits = requirements.allow(key, value) and (bool(rows) or key.startswith(_KNOWN))
        if not fits:
            yield missing(
                f"{subject} label {key}",
                f"wanted {value}, which the pods of {want.node_set} select, found {found}: Karpenter launches none "
                f"of its nodes for them; write {key}: {value} into spec.template.metadata.labels",
            )


def _taints(subject: str, want: NodePoolWant, pool: Json, pods: Sequence[PodWant]) -> Iterator[ProbeFinding]:
    for taint in _hard_taints(pool):
        if kept_off := [pod for pod in pods if not tolerates(pod, taint)]:
            names = ", ".join(pod.name for pod in kept_off[:3]) + (" and others" if len(kept_off) > 3 else "")
            yield missing(
                f"{subject} taint {taint.key}",
                f"wanted only taints that pods of {want.node_set} tolerate, found {taint}: {names} get no node of it; "
                f"remove the taint, or take the NodePool out of cluster.nodePools.{want.node_set}",
            )
    for row in rows_at(pool, "spec", "template", "spec", "startupTaints"):
        key = row.get("key", "")
        if key.endswith(_TAKEN_OFF):
            continue
        yield note(
            f"{subject} startupTaint {key}",
            "a node accepts no pod, and Karpenter removes no such node, until something removes the taint: make sure "
            "that a DaemonSet does, or delete the taint from the NodePool",
        )


def _requirements(
    subject: str, want: NodePoolWant, requirements: Requirements, pods: Sequence[PodWant]
) -> Iterator[ProbeFinding]:
    yield from _architectures(subject, requirements, pods)
    if not requirements.allow(_OS, "linux"):
        yield missing(f"{subject} {_OS}", "wanted linux, found a requirement without it: no pod of Ebbtide starts")
    if want.node_set != NodeKind.SPOT.value and requirements.allow(CAPACITY_TYPE, "spot"):
        jobs = "the jobs on it end" if want.workers else "its pods move"
        yield ProbeFinding(
            State.MISSING if want.workers else State.NOTE,
            f"{subject} {CAPACITY_TYPE}",
            f"wanted on-demand, found {', '.join(requirements.listed(CAPACITY_TYPE) or ()) or 'no requirement'}: AWS "
            f"may take a spot node back at any time, and {jobs}; write In [on-demand], or use the set spot",
        )
    for row in requirements.rows:
        if (least := row.get("minValues")) is not None:
            values = row.get("values") or ()
            few = row.get("operator") == "In" and len(values) < least
            yield ProbeFinding(
                State.MISSING if few else State.NOTE,
                f"{subject} minValues {row.get('key')}",
                f"{least}{f' of {len(values)} listed' if few else ''}: Karpenter launches no node while fewer are "
                "available (MIN_VALUES_POLICY Strict); remove minValues, or list more values",
            )
    yield from _too_small(subject, want, requirements, pods)


def _architectures(subject: str, requirements: Requirements, pods: Sequence[PodWant]) -> Iterator[ProbeFinding]:
    found = requirements.architectures
    lacking = [pod for pod in pods if pod.arch is not None and pod.arch not in found]
    if lacking:
        yield missing(
            f"{subject} {ARCH}",
            f"wanted {lacking[0].arch} for {lacking[0].name}, found {', '.join(found) or 'none'}: its pods get no "
            f"node; write In [{lacking[0].arch}]",
        )


def _mixed(subject: str, requirements: Requirements, pods: Sequence[PodWant]) -> Iterator[ProbeFinding]:
    found, unnamed = requirements.architectures, [pod.name for pod in pods if pod.arch is None and not pod.any_arch]
    if len(found) > 1 and unnamed:
        yield note(
            f"{subject} {ARCH}",
            f"wanted one, found {' and '.join(found)}: an image for one of them does not start on nodes of the other, "
            f"and {unnamed[0]} has no arch; write In [{found[0]}], or arch: any for an image that is built for both",
        )


def _too_small(
    subject: str, want: NodePoolWant, requirements: Requirements, pods: Sequence[PodWant]
) -> Iterator[ProbeFinding]:
    types = requirements.types
    for pod in pods if types is not None else ():
        if not any(_holds(kind, pod) for kind in types or ()):
            gpus = f", {pod.gpu} {pod.gpu_resource}" if pod.gpu else ""
            yield missing(
                f"{subject} {INSTANCE_TYPE}",
                f"wanted a type with {cpu_text(pod.cpu)} CPU, {memory_text(pod.memory)}{gpus} for {pod.name}, found "
                f"{', '.join(kind.name for kind in types or ()) or 'none'}: its pods get no node of it; list a larger "
                f"one, or take the NodePool out of cluster.nodePools.{want.node_set}",
            )
            return
    for pod in pods:
        for key, wanted, most in _exceeded(requirements, pod):
            yield missing(
                f"{subject} {key}",
                f"wanted at least {wanted} for {pod.name}, found at most {most}: its pods get no node of it; allow "
                f"more, or take the NodePool out of cluster.nodePools.{want.node_set}",
            )
            return


def _exceeded(requirements: Requirements, pod: PodWant) -> Iterator[tuple[str, int, int]]:
    """Yield each size label whose upper bound is too small for the pod: its key, the pod's need, and the bound."""
    gpus = pod.gpu if pod.gpu_resource == GPU_RESOURCE else 0
    sizes = {"instance-cpu": -(-pod.cpu // 1000), "instance-memory": pod.memory, "instance-gpu-count": gpus}
    for name, wanted in sizes.items():
        for key in requirements.of_provider(name):
            most = requirements.most(key)
            if most is not None and most < wanted:
                yield key, wanted, most


def _holds(kind: InstanceType, pod: PodWant) -> bool:
    gpus = kind.gpu if pod.gpu_resource in (GPU_RESOURCE, kind.device) or not kind.device else 0
    return pod.cpu <= kind.allocatable_cpu and pod.memory <= kind.allocatable_memory and pod.gpu <= gpus
