"""The kinds that KubeRay's operator watches, as its pinned release defines them: see `data/README.md`."""

import gzip
import json
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple


class Crd(NamedTuple):
    name: str
    annotations: dict[str, str]
    spec: dict[str, Any]


@cache
def release() -> dict[str, Any]:
    """Module, version, digests and CRDs."""
    return json.loads(gzip.decompress((files("components.ray") / "data" / "kuberay.json.gz").read_bytes()))


def version() -> str:
    """Of the operator, as its image is tagged: v1.6.2."""
    return str(release()["version"])


def crds() -> list[Crd]:
    return [Crd(it["metadata"]["name"], it["metadata"]["annotations"], it["spec"]) for it in release()["crds"]]
