"""The CustomResourceDefinitions of Karpenter, KubeRay and the serving parts, as their pinned releases define them.

Each `data/README.md` names the release. Deleting a definition also deletes all objects of its kind, including those of
other owners. So a definition stays when its part is removed: without a controller it costs the API server nothing, and
it is deleted with the cluster. When a part is added again, the definitions provider takes over the existing
definitions, and one field manager writes them. It forces nothing: if another version of a definition was installed, the
API server reports a conflict.
"""

import gzip
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import pulumi

Part: TypeAlias = Literal["envoy-gateway", "karpenter", "keda", "kuberay", "vertical"]

_PACKAGES: Mapping[Part, str] = {"kuberay": "components.ray", "karpenter": "components.cluster.karpenter"}
_WRITER = {"pulumi.com/patchFieldManager": "ebbtide-definitions"}


class Constant(dict[str, Any]):
    """A value of a release: no part of it is an output, and it has the names of the API."""


class Crd(NamedTuple):
    metadata: dict[str, Any]
    spec: Constant

    @property
    def name(self) -> str:
        return self.metadata["name"]

    @property
    def annotations(self) -> dict[str, str]:
        return self.metadata.get("annotations", {})


@cache
def release(part: Part) -> dict[str, Any]:
    """Return module, version, digests and CRDs."""
    folder = files(_PACKAGES.get(part, "components.serving")) / "data"
    return json.loads(gzip.decompress((folder / f"{part}.json.gz").read_bytes()))


def version(part: Part) -> str:
    """Return the version with its leading v, such as v1.9.1."""
    return str(release(part)["version"])


@cache
def crds(part: Part) -> tuple[Crd, ...]:
    return tuple(Crd(crd["metadata"], Constant(crd["spec"])) for crd in release(part)["crds"])


def definitions(
    name: str, part: Part, *, provider: "pulumi.ProviderResource | None", parent: "pulumi.Resource"
) -> "list[pulumi.Resource]":
    """Create the definitions of a part. Objects of these kinds, and their controllers, must depend on them."""
    # Imported here, since `probe` reads versions without Pulumi.
    import pulumi
    from pulumi_kubernetes.apiextensions.v1 import CustomResourceDefinition

    opts = pulumi.ResourceOptions(parent=parent, provider=provider, retain_on_delete=True)
    created: list[pulumi.Resource] = []
    for crd in crds(part):
        metadata: Any = {**crd.metadata, "annotations": {**crd.annotations, **_WRITER}}
        created.append(
            CustomResourceDefinition(f"{name}-{crd.name}", metadata=metadata, spec=crd.spec, opts=opts)  # pyright: ignore[reportArgumentType] - as the release has it
        )
    return created
