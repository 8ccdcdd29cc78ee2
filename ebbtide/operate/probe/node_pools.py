"""Check that Karpenter's NodePools leave their disruption budgets to Ebbtide, and never end a worker. Pure.

Karpenter ends a node after `expireAfter` whatever its budgets are, and `terminationGracePeriod` deletes pods that no
budget releases.
"""

import re
from collections.abc import Iterator

from controllers.adapters.kube_api import Json
from controllers.workloads.nodes.budgets import conflict, observed
from ebbtide.operate.objects import at, labels_of, rows_at
from ebbtide.operate.probe.facts import Denied, NodePoolWant
from ebbtide.operate.probe.findings import Finding, Probed, State, missing, note, ok
from ebbtide.vocabulary.node_pools import API

OLDEST, NEWEST = (1, 13), (1, 14)
_AUTO_MODE = "eks.amazonaws.com"


def node_pools(probed: Probed) -> Iterator[Finding]:
    wants, facts = probed.wants.node_pools, probed.facts
    if not wants:
        return
    if API not in facts.apis:
        yield missing("karpenter", f"no {API}, which cluster.nodePools needs; install Karpenter, or remove nodePools")
        return
    yield _version(facts.karpenter)
    for want in wants:
        answer, subject = facts.node_pools.get(want.name), f"nodepool {want.name}"
        if isinstance(answer, Denied):
            yield note(subject, "cannot be read: you need the right to get nodepools")
        elif answer is None:
            yield missing(subject, f"not there; create it, or change cluster.nodePools.{want.node_set}")
        else:
            faults = [*_faults(want, answer)]
            yield from faults or [ok(subject, "its disruption budgets are free for Ebbtide")]


def _version(deployments: Json | Denied | None) -> Finding:
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


def _faults(want: NodePoolWant, item: Json) -> Iterator[Finding]:
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


def _endings(subject: str, node: Json) -> Iterator[Finding]:
    """Yield the settings that end nodes with busy workers. Auto Mode does not allow their nodes to live forever."""
    auto = at(node, "nodeClassRef", "group") == _AUTO_MODE
    state = State.NOTE if auto else State.MISSING
    advice = "; Auto Mode requires an end after at most 21 days" if auto else ""
    if (expiry := node.get("expireAfter", "720h")) != "Never":
        said = f"wanted Never for nodes of workers, found {expiry}: they end then, whatever runs there"
        yield Finding(state, f"{subject} expireAfter", f"{said}{advice}")
    if grace := node.get("terminationGracePeriod"):
        said = f"wanted none for nodes of workers, found {grace}: pods are deleted then, whatever their budgets"
        yield Finding(state, f"{subject} terminationGracePeriod", f"{said}{advice}")
