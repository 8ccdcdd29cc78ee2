"""The settings that let workers of a pool drive a Ray cluster: address, version, token, and memory.

Each worker runs a raylet without CPUs next to its job (docs/adr/0026), so it needs shared memory for the objects that
the driver puts and gets. The token is a file, since child processes would inherit an environment variable.
"""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from components.pods.container import Volumes
from ebbtide.settings.capacity.process_documents import head_service
from ebbtide.settings.sections.ray import (
    HOME,
    RAY_ENV,
    RAY_TOKEN_VARIABLES,
    RECONNECT,
    TOKEN_KEY,
    RaySettings,
    token_secret,
)
from ebbtide.settings.sections.workers import WorkerSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pulumi_kubernetes.core.v1 import ContainerArgsDict, EnvVarArgsDict, VolumeArgsDict, VolumeMountArgsDict

_VOLUME, _DIRECTORY = "ebbtide-ray-token", "/etc/ebbtide-ray"
_SHARED_MIB = 320
"""The library's object store for a driver, 200 MiB, and other memory that Ray's processes share."""
_PORT = 6379


@dataclass(frozen=True, slots=True, kw_only=True)
class DrivenCluster:
    name: str
    settings: RaySettings

    def variables(self, image: str) -> "list[EnvVarArgsDict]":
        """Return the variables for a worker. The driver's `image` is for the record of each job's run."""
        cluster = {
            "cluster": self.name,
            "address": f"{head_service(self.name)}:{_PORT}",
            "version": self.settings.version,
            "image": image,
        }
        (mode, path), (patience, seconds) = RAY_TOKEN_VARIABLES, RECONNECT
        return [
            {"name": RAY_ENV, "value": json.dumps(cluster)},
            {"name": mode, "value": "token"},
            {"name": path, "value": f"{_DIRECTORY}/{TOKEN_KEY}"},
            {"name": "HOME", "value": HOME},
            *([{"name": patience, "value": seconds}] if self.settings.remembers else []),
        ]

    def reached_by(self, container: "ContainerArgsDict", volumes: Volumes) -> "tuple[ContainerArgsDict, Volumes]":
        """Return the container and the volumes with the token mounted."""
        volume: VolumeArgsDict = {"name": _VOLUME, "secret": {"secret_name": token_secret(self.name)}}
        mount: VolumeMountArgsDict = {"name": _VOLUME, "mount_path": _DIRECTORY, "read_only": True}
        mounts = cast("Sequence[VolumeMountArgsDict]", container.get("volume_mounts") or ())
        mounted: ContainerArgsDict = {**container, "volume_mounts": [*mounts, mount]}
        return mounted, {"volumes": [*volumes.get("volumes", ()), volume]}

    def with_room(self, settings: WorkerSettings) -> WorkerSettings:
        """Return the settings with shared memory, unless the file sets it."""
        return settings if settings.shm is not None else settings.model_copy(update={"shm": _SHARED_MIB})
