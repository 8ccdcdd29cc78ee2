"""Write the CRDs that the package ships: `python tools/crds.py`. Needs Go, for the modules.

Only the stored version of each kind is kept, which is the one in use. The digest is that of the module's file, so that
anyone can compare it.
"""

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

COMPONENTS = Path(__file__).parents[1] / "components"
RAY = COMPONENTS / "ray" / "data"
KARPENTER = COMPONENTS / "cluster" / "karpenter" / "data"
SERVING = COMPONENTS / "serving" / "data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    module: str
    version: str
    files: tuple[str, ...]  # patterns, in the module
    target: Path
    licence: str = "LICENSE"
    described: bool = True  # with descriptions the largest of some modules would almost exceed etcd's limit


PARTS = (
    Part(
        module="github.com/ray-project/kuberay/ray-operator",
        version="v1.6.2",
        files=tuple(f"config/crd/bases/ray.io_{kind}.yaml" for kind in ("rayclusters", "rayjobs", "rayservices")),
        target=RAY / "kuberay.json.gz",
    ),
    Part(
        module="github.com/aws/karpenter-provider-aws",
        version="v1.14.1",
        files=("pkg/apis/crds/*.yaml",),
        target=KARPENTER / "karpenter.json.gz",
    ),
    Part(
        module="github.com/envoyproxy/gateway",
        version="v1.9.1",
        files=(
            "charts/gateway-crds-helm/templates/standard-gatewayapi-crds.yaml",
            "charts/gateway-helm/charts/crds/crds/generated/*.yaml",
        ),
        target=SERVING / "envoy-gateway.json.gz",
        licence="LICENSE-envoy-gateway",
        described=False,
    ),
    Part(
        module="github.com/kedacore/keda/v2",
        version="v2.21.0",
        files=("config/crd/bases/*.yaml",),
        target=SERVING / "keda.json.gz",
        licence="LICENSE-keda",
        described=False,
    ),
    Part(
        module="k8s.io/autoscaler/vertical-pod-autoscaler",
        version="v1.8.1",
        files=("deploy/vpa-v1-crd-gen.yaml",),
        target=SERVING / "vertical.json.gz",
        licence="LICENSE-vertical",
        described=False,
    ),
)


def main() -> int:
    if shutil.which("go") is None:
        print("tools/crds.py: wanted Go on PATH, to fetch the modules (https://go.dev/dl)", file=sys.stderr)
        return 1
    for part in PARTS:
        _write(part)
    return 0


def _write(part: Part) -> None:
    module = _module(part)
    files = {path.name: path.read_bytes() for pattern in part.files for path in sorted(module.glob(pattern))}
    document = {
        "module": part.module,
        "version": part.version,
        "sha256": {file: hashlib.sha256(text).hexdigest() for file, text in files.items()},
        "crds": [_stored(crd, part) for text in files.values() for crd in _crds(text.decode())],
    }
    text = json.dumps(document, separators=(",", ":"), sort_keys=True).encode()
    part.target.parent.mkdir(exist_ok=True)
    part.target.write_bytes(gzip.compress(text, 9, mtime=0))
    licence = part.target.with_name(part.licence)
    shutil.copyfile(module / "LICENSE", licence)
    licence.chmod(0o644)


def _module(part: Part) -> Path:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "go.mod").write_text("module ebbtide.dev/crds\n")
        done = subprocess.run(
            ["go", "mod", "download", "-json", f"{part.module}@{part.version}"],
            cwd=folder,
            env={**os.environ, "GOFLAGS": "-mod=mod"},
            capture_output=True,
            check=True,
        )
    return Path(json.loads(done.stdout)["Dir"])


def _crds(text: str) -> list[dict[str, Any]]:
    """Return the CRDs of a file; a chart's file wraps them in template conditions on separate lines."""
    plain = "\n".join(line for line in text.splitlines() if not line.startswith("{{"))
    documents = yaml.load_all(plain, yaml.CSafeLoader)
    return [document for document in documents if document and document["kind"] == "CustomResourceDefinition"]


def _stored(crd: dict[str, Any], part: Part) -> dict[str, Any]:
    spec = crd["spec"]
    spec["versions"] = [version for version in spec["versions"] if version["storage"]]
    for version in () if part.described else spec["versions"]:
        version["schema"]["openAPIV3Schema"] = _undescribed(version["schema"]["openAPIV3Schema"])
    return {
        "metadata": {"name": crd["metadata"]["name"], "annotations": crd["metadata"].get("annotations", {})},
        "spec": spec,
    }


def _undescribed(schema: Any) -> dict[str, Any]:
    """Remove descriptions; a property called `description` is a schema and stays."""
    plain: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            plain[key] = {name: _undescribed(property_schema) for name, property_schema in value.items()}
        elif key in ("items", "additionalProperties", "not") and isinstance(value, dict):
            plain[key] = _undescribed(value)
        elif key in ("allOf", "anyOf", "oneOf"):
            plain[key] = [_undescribed(alternative) for alternative in value]
        elif key != "description":
            plain[key] = value
    return plain


if __name__ == "__main__":
    sys.exit(main())
