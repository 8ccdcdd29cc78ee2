"""Existing clusters: which keys apply to them, which to EKS, and the nodes of their pods.

Keys without effect are refused: the author of `version` next to `kind: existing` expects an upgrade. Only the presence
of a key counts, so the raw file is checked.

Nodes of an existing cluster have their owner's labels. `nodeSelectors` names sets of nodes by them: `fixed`, `flexible`
and `gpu` are the defaults of pods of that kind, other names are for a pool's `nodeGroup`. Pods without a set may use
any node; then only the anti-affinity of fixed pods separates the categories.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, TypeAlias, cast

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.file.problems import Finding, Location, all_of, did_you_mean, show, value_at, wanted
from ebbtide.settings.sections.grammar import needed_with, text

CLUSTER = "ebbtide:cluster"
REDIS = "ebbtide:redis"
EXISTING = "existing"

ON_EXISTING = ("context", "clusterId", "nodeSelectors", "nodeShapes", "nodePools", "rayOperator")
"""Keys of the cluster's section for existing clusters only."""

_MADE_BY_OTHERS: Mapping[str, str] = {
    "ebbtide:network": "its network exists too",
    "ebbtide:nodeGroups": "its nodes exist too; cluster.nodeSelectors and cluster.nodeShapes describe them",
}
_COSTS, _OF_COSTS = "ebbtide:costs", ("labels",)
_NOT_HERE = "no such key, since the cluster exists"

LABEL_PREFIX = r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?"
LABEL_NAME = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_CONTEXT = r"^\S{1,253}$"
_NODE_POOL = r"^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$"
_UID = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"


def parse_labels(value: object) -> dict[str, str]:
    """Return labels that a node must have, or raise one error with all faults."""
    if not isinstance(value, Mapping) or not value:
        raise wanted("node-labels.type", "the labels of the nodes", example="{ node-role.example.com/pool: batch }")
    labels = {str(key): text for key, text in cast("Mapping[object, object]", value).items()}
    if faults := [fault for label in labels.items() for fault in _label_faults(*label)]:
        raise all_of(faults)
    return cast("dict[str, str]", labels)


def _label_faults(key: str, value: object) -> Iterator[PydanticCustomError]:
    if re.fullmatch(LABEL_PREFIX + LABEL_NAME, key) is None:
        yield wanted(
            "node-labels.key",
            "a label's key as Kubernetes writes it",
            found=f"the key {show(key)}",
            example="pool",
            at=key,
        )
    if not isinstance(value, str):
        is_plain = isinstance(value, bool | int | float)
        yield wanted("type.text", "text", found=show(value), hint="quote it" if is_plain else "", at=key)
    elif re.fullmatch(f"({LABEL_NAME})?", value) is None:
        yield wanted(
            "node-labels.value", "a label's value as Kubernetes writes it", found=show(value), example="batch", at=key
        )


_CONTEXTS = "kubectl config get-contexts lists them"


NodeLabels: TypeAlias = Annotated[
    dict[str, str],
    BeforeValidator(parse_labels),
    WithJsonSchema(
        {
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"pattern": f"^{LABEL_PREFIX}{LABEL_NAME}$"},
            "additionalProperties": {"type": "string", "pattern": f"^({LABEL_NAME})?$"},
        }
    ),
]
ContextName: TypeAlias = Annotated[
    str,
    *text(
        _CONTEXT,
        "context.form",
        "the name of a context of your kubeconfig",
        "onprem-gpu",
        hint=_CONTEXTS,
        unless=r".*[\x00-\x1f].*",
    ),
]
"""Clouds use colons, slashes and @ in it."""
NodePoolName: TypeAlias = Annotated[
    str,
    *text(
        _NODE_POOL,
        "node-pools.name",
        "the name of a NodePool: at most 63 lower-case letters, digits, hyphens and dots",
        "general",
    ),
]
"""It is also a label's value: Karpenter labels a node with its NodePool."""
ClusterId: TypeAlias = Annotated[
    str,
    *text(
        _UID,
        "cluster-id.form",
        "the UID of the namespace kube-system",
        "3f1c2a9e-6b0d-4c57-9f5e-0a4d8c7b6e21",
        hint="ebbtide probe prints it",
    ),
]


CONTEXT_IS_NAMED = needed_with(
    "context", "kind", EXISTING, "context.missing", "the context of your kubeconfig", "onprem-gpu", hint=_CONTEXTS
)
"""The kubeconfig's current context is never used: it is the one that its user used last."""


def shapes_have_selectors(selectors: Mapping[str, object], shapes: Mapping[str, object]) -> None:
    faults = [
        wanted(
            "nodes.unknown",
            "a name in cluster.nodeSelectors, which selects these nodes",
            found=repr(name),
            example=next(iter(selectors), "nodeSelectors: { flexible: { pool: batch } }"),
            hint=did_you_mean(name, tuple(selectors)),
            at=("nodeShapes", name),
        )
        for name in shapes
        if name not in selectors
    ]
    if faults:
        raise all_of(faults)


def node_pools_have_sets(selectors: Mapping[str, object], pools: Mapping[str, Sequence[str]]) -> None:
    """Refuse the set of fixed pods, unknown sets, and a NodePool in two sets."""
    sets = tuple(dict.fromkeys([*selectors, NodeKind.FLEXIBLE.value, NodeKind.GPU.value]))
    faults: list[PydanticCustomError] = []
    set_of: dict[str, str] = {}
    for name, node_pools in pools.items():
        at = ("nodePools", name)
        if name == NodeKind.FIXED:
            hint = "fixed pods never move, so their nodes need no disruption budget of Ebbtide"
            expected = "a set of nodes without fixed pods"
            faults.append(wanted("nodes.fixed", expected, found="'fixed'", example="flexible", hint=hint, at=at))
        elif name not in sets:
            hint, expected = did_you_mean(name, sets), "flexible, gpu or a name in cluster.nodeSelectors"
            faults.append(wanted("nodes.unknown", expected, found=repr(name), example="flexible", hint=hint, at=at))
        for pool in node_pools:
            if set_of.setdefault(pool, name) != name:
                found = f"{pool!r}, which is also in {set_of[pool]}"
                faults.append(wanted("node-pools.twice", "each NodePool in one set", found=found, at=at))
    if faults:
        raise all_of(faults)


def names_karpenter(selector: Mapping[str, str]) -> bool:
    """True if a label is one that Karpenter or its provider writes: `karpenter.sh/nodepool`, `karpenter.k8s.aws/…`."""
    return any(key.startswith("karpenter.") and "/" in key for key in selector)


def is_existing(config: Mapping[str, object]) -> bool:
    return value_at(config, (CLUSTER, "kind")) == EXISTING


def misplaced(config: Mapping[str, object], *, cluster_keys: frozenset[str]) -> Iterator[Finding]:
    """Yield keys without effect for this kind of cluster. `cluster_keys` are all keys of its section."""
    section = config.get(CLUSTER)
    keys = [str(key) for key in cast("Mapping[object, object]", section)] if isinstance(section, Mapping) else []
    if not is_existing(config):
        for key in keys if value_at(config, (CLUSTER, "kind")) in (None, "eks") else ():
            if key in ON_EXISTING:
                yield _unwanted(
                    "key.of-existing-cluster",
                    (CLUSTER, key),
                    "kind: existing with this key",
                    "this stack creates EKS clusters",
                )
        return
    for key, why in _MADE_BY_OTHERS.items():
        if key in config:
            yield _unwanted("key.not-on-existing-cluster", (key,), _NOT_HERE, why)
    costs = config.get(_COSTS)
    for key in map(str, cast("Mapping[object, object]", costs)) if isinstance(costs, Mapping) else ():
        if key not in _OF_COSTS:
            why = "what its nodes cost is not known, and it has no AWS resources to tag"
            yield _unwanted("key.not-on-existing-cluster", (_COSTS, key), _NOT_HERE, why)
    if value_at(config, (REDIS, "keepOnDestroy")) is not None:
        yield _unwanted(
            "key.not-on-existing-cluster",
            (REDIS, "keepOnDestroy"),
            _NOT_HERE,
            "the storage class of its volume decides that",
        )
    here = {"kind", *ON_EXISTING, *(("parallelDrains",) if "nodePools" in keys else ())}
    for key in keys:
        if key in cluster_keys - here:
            yield _unwanted(
                "key.not-on-existing-cluster", (CLUSTER, key), _NOT_HERE, "the cluster's administrator decides this"
            )


def _unwanted(code: str, at: Location, expected: str, why: str) -> Finding:
    return Finding(code=code, at=at, wanted=expected, found="the key", hint=why)


def unknown_nodes(at: Location, node_group: str | None, sets: Mapping[str, object]) -> Iterator[Finding]:
    """Yield faults of the set of nodes that a pool or a job names."""
    names = tuple(dict.fromkeys([*sets, NodeKind.FLEXIBLE.value, NodeKind.GPU.value]))
    if node_group == NodeKind.FIXED:
        hint = "fixed pods let no worker onto their nodes, so it would stay pending"
        yield Finding(
            code="nodes.fixed",
            at=at,
            wanted="a set of nodes without fixed pods",
            found="'fixed'",
            example="flexible",
            hint=hint,
        )
    elif node_group and node_group not in names:
        expected = "a name in cluster.nodeSelectors"
        yield Finding(
            code="nodes.unknown", at=at, wanted=expected, found=repr(node_group), hint=did_you_mean(node_group, names)
        )
