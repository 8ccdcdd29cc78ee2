"""Moves between groups of different provisioners: what each step does, and what nodes of both groups cost meanwhile.

The steps: a group of the other provisioner is added, pools name it and services select its nodes, the old one is
removed. Nothing is interrupted. A group whose provisioner changes in place loses its nodes in the same `up`.
Source: docs/how-to/karpenter-own.md.
"""

from collections.abc import Collection, Iterator
from contextlib import suppress

from ebbtide.findings import Severity
from ebbtide.preview.dangers.compared import Compared, counted, listed
from ebbtide.preview.dangers.kinds import danger_kind
from ebbtide.preview.document import Danger
from ebbtide.prices import NoPrice, on_demand
from ebbtide.provisioning_labels import Provisioner
from ebbtide.settings.capacity.packing import alike_nodes_needed, pod_requests
from ebbtide.settings.capacity.placement import node_of, with_adopted_pools
from ebbtide.settings.model import StackSettings
from ebbtide.text.durations import format_duration
from ebbtide.text.money import dollars
from ebbtide.text.pages import page_command

PROVISIONER_MOVES = danger_kind(
    "provisioner-moves", "a group is added beside one of another provisioner", Severity.NOTE
)

_PAGE = page_command("karpenter-own#change-the-provisioner-of-a-group")
_NAMES = {Provisioner.KARPENTER: "Karpenter", Provisioner.CLUSTER_AUTOSCALER: "the cluster autoscaler"}


def provisioner_dangers(compared: Compared) -> Iterator[Danger]:
    """Yield the first step: a new group beside one of the same kind with another provisioner."""
    old, new = compared.before.settings, compared.after.settings
    for name, group in new.node_groups.items():
        beside = [other for other in _rivals(new, name) if other in old.node_groups]
        if name not in old.node_groups and beside:
            yield PROVISIONER_MOVES.danger(
                subjects=(name,),
                text=f"adds group {name} of {_NAMES[group.provisioner]} beside {listed(beside)}: the first step of a "
                "move; no pod moves and no node goes",
                impact="no node until a pod needs one; a pending service may get one in each group, and the spare "
                "one goes when it is empty",
                remedy=f"next: nodeGroup: {name} in the pools of {listed(beside)}, and its label in flexible workloads "
                f"({_PAGE})",
            )


def changed_in_place(compared: Compared, name: str) -> str:
    """Return the provisioner that an existing group changes to; empty if it does not change."""
    old, new = (side.settings.node_groups.get(name) for side in (compared.before, compared.after))
    return "" if old is None or new is None or old.provisioner is new.provisioner else new.provisioner.value


def in_place_fix(name: str, provisioner: str, ends: str) -> str:
    """`ends`: what happens to the pods of the old nodes."""
    return (
        f"keep {name}, and add a group with provisioner: {provisioner} beside it: three steps interrupt nothing "
        f"({_PAGE}). In one step {ends}"
    )


def last_step(compared: Compared, name: str) -> str:
    """Return how to remove a group whose successor has another provisioner; empty if it has none."""
    old, new = compared.before.settings, compared.after.settings
    if name not in old.node_groups or name in new.node_groups:
        return ""
    successors = [other for other in _rivals(old, name) if other in new.node_groups]
    return (
        f"the last step of a move to {listed(successors)}: do it outside business hours, when no worker is left on "
        f"{name}. Services then move one by one, within their open budgets, and both groups have nodes for minutes"
        if successors
        else ""
    )


def overlap(compared: Compared, before: str, after: str, names: Collection[str]) -> str:
    """Return the cost of the second step, a move to group `after` with another provisioner; empty for other moves."""
    old, new = compared.before.settings, compared.after.settings
    group, successor = old.node_groups.get(before), new.node_groups.get(after)
    if group is None or successor is None or group.provisioner is successor.provisioner:
        return ""
    pods = [(pod.size, pod.most) for pod in pod_requests(old) if pod.name in names]
    nodes = min(group.max, alike_nodes_needed(node_of(group), pods))
    pools = with_adopted_pools(old).workers
    longest = max((pools[name].longest_job for name in names if name in pools), default=None)
    until = "its jobs end" if longest is None else f"{format_duration(longest)} (longestJob)"
    price = None
    if longest is not None:
        with suppress(NoPrice):
            dearest = max(on_demand(old.region, kind) for kind in group.types)
            price = dearest * nodes * longest.total_seconds() / 3600
    cost = "" if price is None else f", {dollars(price)} at most"
    return (
        f"none needed: no job is interrupted. Workers on {before} end their jobs first, so up to "
        f"{counted(nodes, 'node')} of {before} run beside those of {after} for up to {until}{cost}; they go when they "
        f"are empty. Then remove {before} ({_PAGE})"
    )


def _rivals(settings: StackSettings, name: str) -> list[str]:
    """The groups of the same kind with another provisioner."""
    group = settings.node_groups[name]
    return [
        other
        for other, rival in settings.node_groups.items()
        if rival.kind is group.kind and rival.provisioner is not group.provisioner
    ]
