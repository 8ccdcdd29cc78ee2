"""A valid stack file of any size, so that the measurements at scale use rendered resources."""

import re
import tempfile
from pathlib import Path

from control_plane.plane.driver import ControlPlane
from control_plane.plane.stack import APPLY

from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.recording.output import output_files
from ebbtide.recording.record import record
from ebbtide.settings import StackSettings, load_stack
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import load

_HEAD = """
config:
  aws:region: us-east-1
  ebbtide:customer: scale
  ebbtide:businessHours: { timezone: UTC, week: { mon-fri: "08:00-19:00" } }
  ebbtide:cluster: { zones: [a, b] }
  ebbtide:nodeGroups:
    fixed: { instanceTypes: [m7i.2xlarge], min: 2, max: 4 }
    flexible: { instanceTypes: [m7i.4xlarge], max: 200 }
"""
_SIZE = "cpu: 100m, memory: 64Mi"
_AT_ONCE = 200  # objects of one apply, which has a time limit
_SHARERS = 4  # one pool in this number serves several of the remaining queues


def large_stack(*, pools: int, queues: int, workloads: int, copies: int, most: int) -> StackSettings:
    """`pools` for all `queues`, each with at most `most` workers, and flexible `workloads` with `copies` replicas."""
    lines = [_HEAD.strip()]
    if workloads:
        lines.append("  ebbtide:workloads:")
    image = "registry.example.com/app:1"
    shape = f"category: flexible, image: {image!r}, replicas: {copies}, {_SIZE}"
    lines += [f"    app-{number}: {{ {shape} }}" for number in range(workloads)]
    lines.append("  ebbtide:workers:")
    for number, served in enumerate(shared(queues, pools)):
        source = f"{{ kind: rq, queues: [{', '.join(served)}] }}"
        lines.append(
            f"    pool-{number}: {{ source: {source}, image: {image!r}, max: {most}, {_SIZE}, longestJob: 1h }}"
        )
    with tempfile.TemporaryDirectory() as root:
        file = Path(root) / "stacks" / "Pulumi.scale.yaml"
        file.parent.mkdir()
        file.write_text("\n".join([*lines, ""]), encoding="utf-8")
        return load_stack("scale", Path(root))


def shared(queues: int, pools: int) -> list[list[str]]:
    """The queues of each pool: one for most pools, many for the others."""
    served = [[f"pool-{number}-0"] for number in range(pools)]
    for number in range(queues - pools):
        several = served[number % -(-pools // _SHARERS) * _SHARERS]
        several.append(f"more-{number}")
    return served


def install_at_zero(plane: ControlPlane, settings: StackSettings) -> ControllerConfig:
    """Render and apply, with pools at 0 replicas instead of a first worker that would be removed again."""
    files = {str(path): text for path, text in output_files(record(settings)).items()}
    for name, text in sorted(files.items()):
        if name.startswith("kubernetes/"):
            documents = [_at_zero(document) for document in re.split(r"^---\n", text, flags=re.MULTILINE)[1:]]
            for first in range(0, len(documents), _AT_ONCE):
                plane.kubectl(*APPLY, "-f", "-", stdin="---\n".join(documents[first : first + _AT_ONCE]))
    return load(ControllerConfig, files["controller-config.json"])


def _at_zero(document: str) -> str:
    is_pool = "\nkind: Deployment\n" in document and f"\n  namespace: {WORKER_NAMESPACE}\n" in document
    return document.replace("\nspec:\n", "\nspec:\n  replicas: 0\n", 1) if is_pool else document
