"""The kinds that the serving parts watch, as their pinned releases define them: see `data/README.md`.

A kind that goes takes all of its objects along, those that the stack knows nothing of included. So it stays when the
part that brought it goes: an API server holds a kind that nobody watches at no cost, and a cluster takes it along.

A part that comes again finds its kinds in the cluster. So their provider takes over what exists, and one field manager
writes them. It forces nothing: a kind that somebody else installed in another version is refused as a conflict.
"""

import gzip
import json
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias

import pulumi
from pulumi_kubernetes.apiextensions.v1 import CustomResourceDefinition

Part: TypeAlias = Literal["envoy-gateway", "keda", "vertical"]

_WRITER = {"pulumi.com/patchFieldManager": "ebbtide-definitions"}


@cache
def release(part: Part) -> dict[str, Any]:
    """Module, version, digests and CRDs."""
    return json.loads(gzip.decompress((files("components.serving") / "data" / f"{part}.json.gz").read_bytes()))


def version(part: Part) -> str:
    """Such as v1.9.1."""
    return str(release(part)["version"])


def kinds(
    name: str, part: Part, *, provider: pulumi.ProviderResource | None, parent: pulumi.Resource
) -> list[pulumi.Resource]:
    """What has to be there before an object of these kinds, and before who watches them."""
    made: list[pulumi.Resource] = []
    for crd in release(part)["crds"]:
        given = crd["metadata"]
        metadata: Any = {**given, "annotations": {**given.get("annotations", {}), **_WRITER}}
        made.append(
            CustomResourceDefinition(
                f"{name}-{metadata['name']}",
                metadata=metadata,
                spec=crd["spec"],
                opts=pulumi.ResourceOptions(parent=parent, provider=provider, retain_on_delete=True),
            )
        )
    return made
