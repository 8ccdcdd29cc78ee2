"""A customer's stack on a control plane: rendered and applied as documented, with nodes of its groups."""

from dataclasses import dataclass, replace
from pathlib import Path

from components.aws.node_shape import node_shape
from control_plane.plane.driver import ControlPlane
from ebbtide.prices import usable
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.recording.output import output_files
from ebbtide.recording.record import record
from ebbtide.settings import StackSettings
from ebbtide.text.files import write_directory
from ebbtide.vocabulary.controller_config import ControllerConfig, RedisEndpoint
from ebbtide.vocabulary.documents import load

APPLY = ("apply", "--server-side", "--validate=strict", "--output=name")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledStack:
    """An applied stack. `folder` holds the output of `ebbtide render`, `accepted` is "kind/name" of each object."""

    settings: StackSettings
    config: ControllerConfig
    folder: Path
    accepted: tuple[str, ...]

    def config_with(self, redis: RedisEndpoint) -> ControllerConfig:
        """Return the rendered controller config, with a Redis that this machine can reach."""
        return replace(self.config, redis=redis)


def install(plane: ControlPlane, settings: StackSettings, folder: Path) -> InstalledStack:
    """Render into `folder`, apply, and scale the pools to 0, as the files say.

    Raises `subprocess.CalledProcessError` when an object is refused.
    """
    write_directory(folder, output_files(record(settings)))
    accepted = plane.kubectl(*APPLY, "-f", str(folder / "kubernetes"))
    config = load(ControllerConfig, (folder / "controller-config.json").read_text(encoding="utf-8"))
    if config.pools:  # kubectl refuses to scale nothing
        plane.kubectl("--namespace", WORKER_NAMESPACE, "scale", "deployment", "--all", "--replicas=0")
    return InstalledStack(settings=settings, config=config, folder=folder, accepted=tuple(accepted.split()))


def add_group_node(plane: ControlPlane, settings: StackSettings, group: str, name: str) -> None:
    """Add a node of that group, labelled, tainted and sized as by EKS, less the resources of DaemonSets."""
    shape = node_shape(group, settings.node_groups[group])
    capacity = usable(settings.node_groups[group].types[0])
    plane.add_node(
        name,
        labels={**shape.labels, "eks.amazonaws.com/nodegroup": group, "topology.kubernetes.io/zone": "zone-a"},
        taints=[taint.document for taint in shape.taints],
        cpu=f"{capacity.cpu}m",
        memory=f"{capacity.memory}Mi",
        gpu=capacity.gpu,
        disk=f"{shape.scratch_gib}Gi",
    )
