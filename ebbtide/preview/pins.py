"""What would keep flexible nodes through the night, found among the pods as they are rendered.

The judgement is that of `ebbtide why node`, made before there are nodes: the rules are the cluster autoscaler's, and
what this stack's own autoscaler was told to overlook is overlooked. DaemonSets never pin. A worker that has a job pins
its node rightly, so pools are named only where they never go to zero.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ebbtide.preview.eviction_rules import SAFE_TO_EVICT, SAFE_VOLUMES, local_volumes
from ebbtide.preview.pods import COME_AND_GO, NodeGroups, Pods, counted, groups_of, pods_of, stays_on_fixed
from ebbtide.preview.replacing import value_at
from ebbtide.preview.resources import Resource
from ebbtide.settings.model import StackSettings
from ebbtide.vocabulary.labels import NODE_KIND, Category, NodeKind

_SYSTEM = "kube-system"
_PLACED_ADD_ONS: Mapping[str, str] = {
    "aws-ebs-csi-driver": "controller.nodeSelector",
    "coredns": "nodeSelector",
    "metrics-server": "nodeSelector",
}
"""Add-ons with pods beside their DaemonSets, and where their configuration places these: see `components.add_ons`."""

_FIXED_NODES = f"nodeSelector {NODE_KIND}: {NodeKind.FIXED.value}"


@dataclass(frozen=True, slots=True)
class Pin:
    what: str
    blast: str
    fix: str


@dataclass(frozen=True, slots=True)
class _Told:
    """What the autoscaler overlooks; the defaults are its own, as of one that is not rendered here."""

    volumes_pin: bool = True
    system_pods_pin: bool = True


def pins_of(resources: Sequence[Resource], settings: StackSettings | None) -> tuple[Pin, ...]:
    groups = groups_of(resources)
    all_pods = pods_of(resources, settings)
    told = _told(all_pods)
    pins = [
        pin
        for pods in all_pods
        if pods.kind not in COME_AND_GO and not stays_on_fixed(pods, groups, settings)
        for pin in _of_pods(pods, told, groups)
    ]
    return (*pins, *_of_add_ons(resources), *_of_numbers(settings))


def _of_pods(pods: Pods, told: _Told, groups: Mapping[str, NodeGroups]) -> Iterator[Pin]:
    who = f"{pods.kind} {pods.namespace}/{pods.name}"
    stays = f"each of its {pods.most} pods keeps its node all night" if pods.most > 1 else "its node stays all night"
    if pods.category == Category.FIXED and groups:
        yield Pin(
            f"{who} is fixed and runs on flexible nodes: its budget never opens",
            stays,
            "make it flexible, or give it a fixed group that fits it",
        )
    if not pods.category and pods.namespace == _SYSTEM and groups:
        yield Pin(f"{who} is a system pod that may land on flexible nodes", stays, f"give it the {_FIXED_NODES}")
    safe = pods.annotations.get(SAFE_TO_EVICT)
    if safe == "true":
        return
    if safe == "false":
        yield Pin(f"{who} carries {SAFE_TO_EVICT}: false", stays, "take the annotation away; a budget protects it")
    if pods.kind == "Pod":
        yield Pin(f"{who} is a bare pod: nothing would make it anew", stays, "make it a Deployment of one replica")
    if told.system_pods_pin and pods.namespace == _SYSTEM and not pods.budgets:
        yield Pin(f"{who} is a kube-system pod without a budget", stays, "give it a budget with maxUnavailable: 1")
    volumes = local_volumes(pods.as_object, pods.annotations.get(SAFE_VOLUMES, ""))
    if told.volumes_pin and volumes:
        named = ",".join(volume.split(" ", 1)[1] for volume in volumes)
        fix = f"annotate its pods with {SAFE_VOLUMES}: {named}, if the files are scratch"
        yield Pin(f"{who} keeps files on the node: {', '.join(volumes)}", stays, fix)
    if len(pods.budgets) > 1:
        names = ", ".join(budget.name for budget in pods.budgets)
        yield Pin(f"{who} is under several budgets ({names}): every eviction is refused", stays, "leave one of them")


def _of_add_ons(resources: Sequence[Resource]) -> Iterator[Pin]:
    for resource in resources:
        name = str(resource.inputs.get("addonName"))
        if resource.type != "aws:eks/addon:Addon" or name not in _PLACED_ADD_ONS:
            continue
        told: Any = json.loads(str(resource.inputs.get("configurationValues") or "{}"))
        selector = cast("Mapping[str, str]", value_at(told, _PLACED_ADD_ONS[name]) or {})
        if selector.get(NODE_KIND) != NodeKind.FIXED:
            yield Pin(
                f"the add-on {name} may land on flexible nodes",
                "the nodes of its pods stay all night",
                f"set {_PLACED_ADD_ONS[name]} to {NODE_KIND}: {NodeKind.FIXED.value} in its configurationValues",
            )


def _of_numbers(settings: StackSettings | None) -> Iterator[Pin]:
    """What the stack file itself keeps: that is allowed, and is to be seen."""
    if settings is None:
        return
    for name, pool in settings.workers.items():
        if pool.min > 0:
            yield Pin(
                f"pool {name} never goes below {counted(pool.min, 'worker')}, and workers are never moved",
                "their nodes stay all night",
                f"set workers.{name}.min to 0; `morning` has workers ready when people come",
            )
    for name, group in settings.node_groups.items():
        if group.kind is not NodeKind.FIXED and group.min > 0:
            yield Pin(
                f"group {name} never goes below {counted(group.min, 'node')}",
                "they stay all night",
                f"set nodeGroups.{name}.min to 0",
            )


def _told(all_pods: Sequence[Pods]) -> _Told:
    words = [
        str(word)
        for pods in all_pods
        for container in cast("Sequence[Mapping[str, Any]]", pods.spec.get("containers") or ())
        for field in ("command", "args")
        for word in cast("Sequence[object]", container.get(field) or ())
    ]
    return _Told(
        volumes_pin="--skip-nodes-with-local-storage=false" not in words,
        system_pods_pin="--skip-nodes-with-system-pods=false" not in words,
    )
