"""Check that Karpenter's NodePools leave their disruption budgets to Ebbtide, never end a worker, and have nodes that
suit their pods. Pure.

Karpenter ends a node after `expireAfter` whatever its budgets are, and `terminationGracePeriod` deletes pods that no
budget releases.
"""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from components.cluster.karpenter.pools import class_name
from controllers.adapters.kube_api import Json
from controllers.workloads.nodes.budgets import conflict, observed
from ebbtide.operate.objects import at, labels_of, quantity, rows_at
from ebbtide.operate.probe.facts import Denied, NodePoolWant, ec2_class
from ebbtide.operate.probe.findings import Probed, ProbeFinding, State, missing, note, ok
from ebbtide.operate.probe.node_classes import class_faults
from ebbtide.operate.probe.node_templates import requirements_of, template_faults
from ebbtide.prices import InstanceType
from ebbtide.provisioning_labels import CUSTOMER
from ebbtide.vocabulary.labels import GPU_RESOURCE
from ebbtide.vocabulary.node_pools import API

OLDEST, NEWEST = (1, 13), (1, 14)
_POLICY = "PREFERENCE_POLICY"
_AUTO_MODE = "eks.amazonaws.com"


def node_pools(probed: Probed) -> Iterator[ProbeFinding]:
    facts = probed.facts
    yield from _taken_names(probed)
    wants = [want for want in probed.wants.node_pools if want.node_set]
    if not wants:
        return
    if API not in facts.apis:
        yield missing("karpenter", f"no {API}, which cluster.nodePools needs; install Karpenter, or remove nodePools")
        return
    yield _version(facts.karpenter)
    yield from _preferences(facts.karpenter)
    yield from _limits(probed, wants)
    for want in wants:
        answer, subject = facts.node_pools.get(want.name), f"nodepool {want.name}"
        if isinstance(answer, Denied):
            yield note(subject, "cannot be read: you need the right to get nodepools")
        elif answer is None:
            yield missing(subject, f"not there; create it, or change cluster.nodePools.{want.node_set}")
        else:
            names = {other.name for other in wants if other.node_set == want.node_set} - {want.name}
            others = [other for name in names if isinstance(other := facts.node_pools.get(name), dict)]
            faults = [*_faults(want, answer), *template_faults(probed, want, answer, others)]
            if name := ec2_class(answer):
                shape = probed.wants.shapes.get(want.node_set)
                faults += class_faults(want, name, facts.pool_classes.get(name), shape)
            yield from faults or [ok(subject, f"its budgets are free for Ebbtide, and its nodes suit {want.node_set}")]


def _taken_names(probed: Probed) -> Iterator[ProbeFinding]:
    """Yield foreign objects that have the names of the stack's own."""
    facts, customer = probed.facts, probed.wants.customer
    for want in probed.wants.node_pools:
        if want.node_set:
            continue
        named = {
            f"nodepool {want.name}": facts.node_pools.get(want.name),
            f"ec2nodeclass {class_name(want.name)}": facts.node_classes.get(want.name),
        }
        for subject, answer in named.items():
            if isinstance(answer, dict) and labels_of(answer).get(CUSTOMER) != customer:
                yield missing(
                    subject,
                    f"it is there without the label {CUSTOMER}: {customer}, so it belongs to somebody else; rename the "
                    f"group {want.name}, or remove the object",
                )


def _preferences(deployments: Json | Denied | None) -> Iterator[ProbeFinding]:
    for item in rows_at(deployments, "items") if isinstance(deployments, dict) else ():
        containers = rows_at(item, "spec", "template", "spec", "containers")
        values = [env.get("value") for each in containers for env in rows_at(each, "env") if env.get("name") == _POLICY]
        if containers and values != ["Ignore"]:
            found = ", ".join(map(str, values)) or "none, which means Respect"
            yield note(
                "karpenter preferences",
                f"wanted {_POLICY}=Ignore, found {found}: pods that prefer to be apart get a node each, which stays",
            )


def _limits(probed: Probed, wants: Sequence[NodePoolWant]) -> Iterator[ProbeFinding]:
    """Compare the limits of each set's NodePools with the requests of all pods that may run there.

    A NodePool without a limit is unbounded.
    """
    for node_set in dict.fromkeys(want.node_set for want in wants):
        pools = {want.name: probed.facts.node_pools.get(want.name) for want in wants if want.node_set == node_set}
        pods = probed.wants.pods.get(node_set, ())
        needs = {
            "cpu": (Decimal(sum(pod.cpu * pod.most for pod in pods)) / 1000, "CPU"),
            "memory": (Decimal(sum(pod.memory * pod.most for pod in pods)) * 2**20, "bytes of memory"),
            GPU_RESOURCE: (Decimal(sum(pod.gpu * pod.most for pod in pods)), "GPUs"),
        }
        for resource, (needed, unit) in needs.items():
            limits = [_limit(pool, resource) for pool in pools.values()]
            known = [limit for limit in limits if limit is not None]
            if len(known) == len(limits) and (most := sum(known, Decimal(0))) < needed:
                yield note(
                    f"nodepools {', '.join(pools)} limits",
                    f"wanted {resource} for {needed:f} {unit}, the most that pods of {node_set} may request, "
                    f"found {most:f}: jobs will wait although their pool may still grow",
                )


def _limit(pool: Json | Denied | None, resource: str) -> Decimal | None:
    """Return a NodePool's maximum: its limit, or `nodes` times its largest type if that is less. None if unbounded."""
    if not isinstance(pool, dict):
        return None
    limits: Json = at(pool, "spec", "limits") or {}
    most = [quantity(limits[resource])] if resource in limits else []
    if "nodes" in limits and (types := requirements_of(pool).types):
        most.append(quantity(limits["nodes"]) * max(_capacity(kind)[resource] for kind in types))
    return min(most, default=None)


def _capacity(kind: InstanceType) -> dict[str, int]:
    return {"cpu": kind.vcpu, "memory": kind.memory_mib * 2**20, GPU_RESOURCE: kind.gpu}


def _version(deployments: Json | Denied | None) -> ProbeFinding:
    items = rows_at(deployments, "items") if isinstance(deployments, dict) else []
    texts = [labels_of(item).get("app.kubernetes.io/version", "") for item in items]
    matches = [match for text in texts if (match := re.match(r"v?(\d+)\.(\d+)", text))]
    if not matches:
        return note(
            "karpenter", f"its version cannot be read; Ebbtide is tested with {_text(OLDEST)} to {_text(NEWEST)}"
        )
    version = int(matches[0][1]), int(matches[0][2])
    if version < OLDEST:
        return missing("karpenter", f"{_text(version)}; upgrade to {_text(OLDEST)} or later")
    if version > NEWEST:
        return note("karpenter", f"{_text(version)}; Ebbtide is tested up to {_text(NEWEST)}")
    return ok("karpenter", _text(version))


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _faults(want: NodePoolWant, item: Json) -> Iterator[ProbeFinding]:
    subject, seen = f"nodepool {want.name}", observed(item)
    if seen.owners and not seen.is_default:
        yield missing(f"{subject} budgets", conflict(seen).removeprefix("holding: "))
    if want.workers:
        yield from _endings(subject, at(item, "spec", "template", "spec") or {})
    disruption: Json = at(item, "spec", "disruption") or {}
    if disruption.get("consolidateAfter") == "Never":
        yield note(f"{subject} consolidateAfter", "Never, so nodes stay, empty ones too; write for example 0s")
    if disruption.get("consolidationPolicy") == "WhenEmpty":
        said = "WhenEmpty, so nodes with pods stay all night; write WhenEmptyOrUnderutilized"
        yield note(f"{subject} consolidationPolicy", said)
    if disruption.get("consolidationPolicy") == "Balanced":
        said = (
            "Balanced, so nodes whose move saves little stay at night; Ebbtide is tested with WhenEmptyOrUnderutilized"
        )
        yield note(f"{subject} consolidationPolicy", said)


def _endings(subject: str, node: Json) -> Iterator[ProbeFinding]:
    """Yield the settings that end nodes with busy workers. Auto Mode does not allow a node to live forever."""
    auto = at(node, "nodeClassRef", "group") == _AUTO_MODE
    state = State.NOTE if auto else State.MISSING
    advice = "; Auto Mode requires an end after at most 21 days" if auto else ""
    if (expiry := node.get("expireAfter", "720h")) != "Never":
        said = f"wanted Never for nodes of workers, found {expiry}: they end then, whatever runs there"
        yield ProbeFinding(state, f"{subject} expireAfter", f"{said}{advice}")
    if grace := node.get("terminationGracePeriod"):
        said = f"wanted none for nodes of workers, found {grace}: pods are deleted then, whatever their budgets"
        yield ProbeFinding(state, f"{subject} terminationGracePeriod", f"{said}{advice}")
