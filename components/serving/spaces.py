"""The namespaces of KEDA and of the gateway."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from components.cluster.namespaces import restricted_namespace
from components.context import StackContext
from components.pods.egress import ca_bundle


@dataclass(frozen=True, kw_only=True)
class ServingSpacesArgs:
    stack: StackContext
    namespaces: Sequence[str]


class ServingSpaces(pulumi.ComponentResource):
    def __init__(self, name: str, args: ServingSpacesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:ServingSpaces", name, None, opts)
        for space in args.namespaces:
            made = restricted_namespace(f"{name}-{space}", space, args.stack.customer, parent=self)
            ca_bundle(f"{name}-{space}-ca-bundle", args.stack.egress, made.metadata.name, parent=self)
        self.register_outputs({})
