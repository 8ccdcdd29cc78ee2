"""Write the CRDs of Karpenter that the package ships: `python tools/karpenter/crds.py`. Needs Go, for the module.

Only the stored version of each is kept, which is the one in use. The digest is that of the module's file, so that
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
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
TARGET = ROOT / "components" / "cluster" / "karpenter" / "data"
MODULE = "github.com/aws/karpenter-provider-aws"
VERSION = "v1.14.1"
KINDS = (
    "autoscaling.x-k8s.io_capacitybuffers",
    "karpenter.k8s.aws_ec2nodeclasses",
    "karpenter.sh_nodeclaims",
    "karpenter.sh_nodeoverlays",
    "karpenter.sh_nodepools",
)


def main() -> int:
    if shutil.which("go") is None:
        print("tools/karpenter/crds.py: wanted Go on PATH, to fetch the module (https://go.dev/dl)", file=sys.stderr)
        return 1
    module = _module()
    files = {kind: (module / "pkg" / "apis" / "crds" / f"{kind}.yaml").read_bytes() for kind in KINDS}
    document = {
        "module": MODULE,
        "version": VERSION,
        "sha256": {kind: hashlib.sha256(text).hexdigest() for kind, text in files.items()},
        "crds": [_stored(yaml.load(text, yaml.CSafeLoader)) for text in files.values()],
    }
    text = json.dumps(document, separators=(",", ":"), sort_keys=True).encode()
    TARGET.mkdir(exist_ok=True)
    (TARGET / "karpenter.json.gz").write_bytes(gzip.compress(text, 9, mtime=0))
    shutil.copyfile(module / "LICENSE", TARGET / "LICENSE")
    (TARGET / "LICENSE").chmod(0o644)
    return 0


def _module() -> Path:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "go.mod").write_text("module ebbtide.dev/karpenter-crds\n")
        done = subprocess.run(
            ["go", "mod", "download", "-json", f"{MODULE}@{VERSION}"],
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
