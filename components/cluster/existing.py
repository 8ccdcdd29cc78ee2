"""An existing cluster: its provider, the check of its identity, and its nodes.

The stack creates no part of the cluster and loads no AWS module. It uses the kubeconfig of the user who runs
`pulumi up`, found as kubectl finds it. The stack file names the context, not the file, so the state does not depend on
the user.

Traps:

- The SDK fills the provider's `kubeconfig` from the variable KUBECONFIG, and the provider reads a list of paths as the
  text of a kubeconfig. With an empty text the provider finds the files itself (pulumi/pulumi-kubernetes,
  provider/pkg/provider/provider.go, Configure).
- `cluster_identifier` is static, as on EKS: a renamed context must not show everything as replaced. So the provider
  cannot detect a context that leads to another cluster. The UID of the namespace kube-system reveals it: the namespace
  is created with the cluster, and its UID never changes. Every object waits for this comparison, since the objects'
  provider gets its context from it. A destroy runs no program and compares nothing.
- Components place pods by Ebbtide's node labels, which such nodes lack. The selectors are translated to the owner's
  labels when objects are registered, so components need not distinguish the two kinds of cluster.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

import pulumi
from pulumi_kubernetes import Provider as KubernetesProvider
from pulumi_kubernetes.core.v1 import Namespace

from components.context import StackContext
from ebbtide.vocabulary.labels import NODE_GROUP, NODE_KIND

NodeSelectors: TypeAlias = Mapping[str, Mapping[str, str]]

_IDENTITY = "kube-system"  # every cluster has it, and it is never recreated
_SELECTOR = "node_selector"


@dataclass(frozen=True, kw_only=True)
class ExistingClusterArgs:
    stack: StackContext
    context: str
    cluster_id: str | None = None


class ExistingCluster(pulumi.ComponentResource):
    provider: KubernetesProvider

    def __init__(self, name: str, args: ExistingClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:ExistingCluster", name, None, opts)
        self._args = args
        context = args.context if args.cluster_id is None else self._checked_context(name, args.cluster_id)
        self.provider = self._kubernetes_provider(f"{name}-kubernetes", context)
        self.register_outputs({"context": args.context})

    def _checked_context(self, name: str, expected: str) -> pulumi.Output[str]:
        """Return the context after a check that it leads to the expected cluster."""
        args = self._args
        unchecked = self._kubernetes_provider(f"{name}-unchecked", args.context)
        identity = Namespace.get(
            f"{name}-identity", _IDENTITY, opts=pulumi.ResourceOptions(parent=self, provider=unchecked)
        )

        def compared(uid: str | None) -> str:
            refuse_another_cluster(args.context, expected=expected, actual=uid)
            return args.context

        return identity.metadata.uid.apply(compared)

    def _kubernetes_provider(self, resource_name: str, context: pulumi.Input[str]) -> KubernetesProvider:
        return KubernetesProvider(
            resource_name,
            kubeconfig="",
            context=context,
            cluster_identifier=self._args.stack.customer,
            enable_server_side_apply=True,
            enable_config_map_mutable=True,  # see components.aws.cluster
            enable_secret_mutable=True,
            opts=pulumi.ResourceOptions(parent=self),
        )


def refuse_another_cluster(context: str, *, expected: str, actual: str | None) -> None:
    """Raise `pulumi.RunError`, which Pulumi shows without a traceback. In a rendering the UID is None."""
    if actual not in (None, expected):
        raise pulumi.RunError(
            f"ebbtide:cluster.clusterId: wanted the cluster {expected}, found {actual} behind the context {context!r} "
            "(for example after a context was pointed elsewhere); nothing was changed. Use the kubeconfig of the right "
            "cluster: ebbtide probe shows which one a context leads to"
        )


def placement(selectors: NodeSelectors) -> pulumi.ResourceTransformation:
    """Translate Ebbtide's node selectors to the owner's labels, on every object under a component."""

    def placed(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        if not args.type_.startswith("kubernetes:"):
            return None
        props = {key: translated(value, selectors) for key, value in args.props.items()}
        return pulumi.ResourceTransformationResult(props=props, opts=args.opts)

    return placed


def owners_labels(selector: Mapping[str, str], selectors: NodeSelectors) -> dict[str, str]:
    """Return the owner's labels. A node set without labels is any node."""
    other_labels = {key: value for key, value in selector.items() if key not in (NODE_KIND, NODE_GROUP)}
    node_sets = [selector[key] for key in (NODE_KIND, NODE_GROUP) if key in selector]
    return {**other_labels, **{key: value for name in node_sets for key, value in selectors.get(name, {}).items()}}


def translated(value: object, selectors: NodeSelectors) -> object:
    """Return a copy with every node selector translated at any depth. An empty selector is omitted."""
    if isinstance(value, list):
        return [translated(item, selectors) for item in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    copy: dict[str, object] = {}
    for key, inner in cast("dict[str, object]", value).items():
        if key != _SELECTOR:
            copy[key] = translated(inner, selectors)
        elif labels := owners_labels(cast("Mapping[str, str]", inner), selectors):
            copy[key] = labels
    return copy
