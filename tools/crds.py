"""Write the CRDs that the package ships for KubeRay and Karpenter: `python tools/crds.py`. Needs Go, for the modules.

Only the stored version of each is kept, which is the one in use, and of KubeRay only the kinds that its operator
watches. The digest is that of the module's file, so that anyone can compare it.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    module: str
    version: str
    files: str  # the path of a kind's file in the module
    kinds: tuple[str, ...]
    target: Path


PARTS = (
    Part(
        module="github.com/ray-project/kuberay/ray-operator",
        version="v1.6.2",
        files="config/crd/bases/ray.io_{}.yaml",
        kinds=("rayclusters", "rayjobs", "rayservices"),
        target=COMPONENTS / "ray" / "data" / "kuberay.json.gz",
    ),
    Part(
        module="github.com/aws/karpenter-provider-aws",
        version="v1.14.1",
        files="pkg/apis/crds/{}.yaml",
        kinds=(
            "autoscaling.x-k8s.io_capacitybuffers",
            "karpenter.k8s.aws_ec2nodeclasses",
            "karpenter.sh_nodeclaims",
            "karpenter.sh_nodeoverlays",
            "karpenter.sh_nodepools",
        ),
        target=COMPONENTS / "cluster" / "karpenter" / "data" / "karpenter.json.gz",
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
    files = {kind: (module / part.files.format(kind)).read_bytes() for kind in part.kinds}
    document = {
        "module": part.module,
        "version": part.version,
        "sha256": {kind: hashlib.sha256(text).hexdigest() for kind, text in files.items()},
        "crds": [_stored(yaml.load(text, yaml.CSafeLoader)) for text in files.values()],
    }
    text = json.dumps(document, separators=(",", ":"), sort_keys=True).encode()
    part.target.parent.mkdir(exist_ok=True)
    part.target.write_bytes(gzip.compress(text, 9, mtime=0))
    licence = part.target.with_name("LICENSE")
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


def _stored(crd: dict[str, Any]) -> dict[str, Any]:
    spec = crd["spec"]
    spec["versions"] = [version for version in spec["versions"] if version["storage"]]
    return {
        "metadata": {"name": crd["metadata"]["name"], "annotations": crd["metadata"].get("annotations", {})},
        "spec": spec,
    }


if __name__ == "__main__":
    sys.exit(main())
