"""Start a pod's process by its PodSpec: command, arguments, environment and mounts.

For `Kubelet(command_of=…)`. Objects that a pod names are read from the API server when it starts, as a kubelet does.
The process has its own user and mount namespace, and shares one network with the other pods: two pods may not use the
same port, and nothing outside that network can reach them or take their ports.

Missing, since only a real node has it: the image (a folder of programs stands for it, first on PATH), the user, the
limits, init containers, sidecars, probes, `$(NAME)` in arguments, and addresses of Services (`hosts` are the names of
this network).
"""

import base64
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from control_plane.plane.errors import ControlPlaneError
from controllers.adapters.kube_api import Json, KubeApi

_BOOT = Path(__file__).with_name("enclosure_boot.py")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_IMAGE = "/image"  # not the folder's own path, which a volume may hide
_UP = "import fcntl, socket, struct; s = socket.socket(); fcntl.ioctl(s, 0x8914, struct.pack('16sH14x', b'lo', 0x41))"
_NAMESPACES = ("unshare", "--user", "--map-root-user", "--net")


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """Stand-in for an image: a folder of programs, and the default command."""

    programs: Path
    command: Sequence[str] = ()


def enclosure_refused() -> str:
    """Return why this machine creates no namespaces for an ordinary user; empty if it does."""
    try:
        trial = subprocess.run([*_NAMESPACES, "--mount", "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "unshare (of util-linux) is not on PATH"
    return trial.stderr.strip().splitlines()[-1] if trial.returncode else ""


@dataclass(slots=True)
class Enclosure:
    """The network that enclosed pods share. Context manager; the kubelet ends the pods' processes."""

    api: KubeApi
    folder: Path
    images: Mapping[str, Image]  # by the image's name, without its tag
    hosts: Sequence[str] = ()  # names of Services
    _holder: "subprocess.Popen[str] | None" = field(default=None, init=False)

    def __enter__(self) -> Self:
        # `cat` ends with this process, which closes its input; the namespaces end with their last process.
        start = f'{sys.executable} -S -c "{_UP}" && echo up && exec cat'
        self._holder = subprocess.Popen(
            [*_NAMESPACES, "sh", "-c", start], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != "up\n":
            raise ControlPlaneError("the pods' network could not be made")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._holder is not None
        self._holder.communicate()

    def inside(self, *command: str) -> list[str]:
        """Return the command, run in the pods' network."""
        assert self._holder is not None
        return ["nsenter", f"--target={self._holder.pid}", "--user", "--net", "--preserve-credentials", *command]

    def command(self, pod: Json) -> list[str] | None:
        """Return the command of the pod's only container; None without an image of that name."""
        container = pod["spec"]["containers"][0]
        image = self.images.get(container["image"].rpartition(":")[0])
        if image is None:
            return None
        home = self.folder / pod["metadata"]["name"]
        (home / "root").mkdir(parents=True, exist_ok=True)  # retried when a Secret did not exist yet
        program = [*container.get("command", image.command), *container.get("args", ())]
        document = {
            "root": str(home / "root"),
            "folder": container.get("workingDir", "/"),
            "command": program,
            "environment": {"PATH": f"{_IMAGE}:{_PATH}", **self.environment(pod)},
            "volumes": [
                *self._mounts(pod, home),
                {"from": str(image.programs), "at": _IMAGE, "readOnly": True},
                {"from": str(self._hosts(home)), "at": "/etc/hosts", "readOnly": True},
            ],
        }
        (home / "pod.json").write_text(json.dumps(document), encoding="utf-8")
        return self.inside("unshare", "--mount", sys.executable, "-S", str(_BOOT), str(home / "pod.json"))

    # --- references of the PodSpec --------------------------------------------------------------------------------

    def environment(self, pod: Json) -> dict[str, str]:
        """Return the first container's environment: `envFrom` first, so that `env` wins."""
        container = pod["spec"]["containers"][0]
        variables: dict[str, str] = {"HOSTNAME": pod["metadata"]["name"]}
        for source in container.get("envFrom", ()):
            ((kind, name),) = ((kind, source[f"{kind}Ref"]["name"]) for kind in _KINDS if f"{kind}Ref" in source)
            variables |= {key: value.decode() for key, value in self._read(pod, kind, name).items()}
        for variable in container.get("env", ()):
            variables[variable["name"]] = self._value(pod, variable)
        return variables

    def _value(self, pod: Json, variable: Json) -> str:
        source = variable.get("valueFrom")
        if source is None:
            return str(variable.get("value", ""))
        if "fieldRef" in source:
            field_value: Any = pod
            for step in source["fieldRef"]["fieldPath"].split("."):
                field_value = field_value[step]
            return str(field_value)
        ((kind, ref),) = ((kind, source[f"{kind}KeyRef"]) for kind in _KINDS if f"{kind}KeyRef" in source)
        return self._read(pod, kind, ref["name"])[ref["key"]].decode()

    def _mounts(self, pod: Json, home: Path) -> list[Json]:
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", ())}
        return [
            {
                "from": str(self._volume(pod, volumes[mount["name"]], home / mount["name"])),
                "at": mount["mountPath"],
                "readOnly": mount.get("readOnly", False),
            }
            for mount in pod["spec"]["containers"][0].get("volumeMounts", ())
        ]

    def _volume(self, pod: Json, volume: Json, folder: Path) -> Path:
        folder.mkdir(exist_ok=True)
        if "emptyDir" in volume:
            return folder
        kind, name = (
            ("configMap", volume["configMap"]["name"])
            if "configMap" in volume
            else (
                "secret",
                volume["secret"]["secretName"],
            )
        )
        for key, value in self._read(pod, kind, name).items():
            (folder / key).write_bytes(value)
        return folder

    def _read(self, pod: Json, kind: str, name: str) -> dict[str, bytes]:
        """Read an object's data. Raises `ApiError` if it does not exist, as a kubelet does not start such a pod."""
        item = self.api.get(f"/api/v1/namespaces/{pod['metadata']['namespace']}/{kind.lower()}s/{name}")
        if kind == "secret":
            return {key: base64.b64decode(value) for key, value in item.get("data", {}).items()}
        return {key: value.encode() for key, value in item.get("data", {}).items()}

    def _hosts(self, home: Path) -> Path:
        file = home / "hosts"
        file.write_text("".join(f"127.0.0.1 {name}\n" for name in ("localhost", *self.hosts)), encoding="utf-8")
        return file


_KINDS = ("secret", "configMap")
