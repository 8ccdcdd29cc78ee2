"""Run a container of a built image by runc, without a cluster: read-only root, no capabilities, no network."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from control_plane.nodes import cgroups, leftovers
from control_plane.nodes.images import building
from control_plane.nodes.run import run

_NAMESPACES = ("pid", "mount", "ipc", "uts", "network")


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A running container. `root` is its file system, `process` that of `runc run`, which ends with the container."""

    name: str
    root: Path
    state: Path
    process: "subprocess.Popen[bytes]"

    def run(self, *command: str) -> str:
        """Return the output of a further process in it. Raises `Failed`."""
        return run(["runc", "--root", str(self.state), "exec", self.name, *command])

    def stop(self) -> int:
        """Send SIGTERM and return the exit code."""
        run(["runc", "--root", str(self.state), "kill", self.name, "TERM"])
        return self.process.wait()


@contextmanager
def running(image: str, arguments: Sequence[str], *, user: int, files: Mapping[str, str]) -> Generator[Container]:
    """Run a container with these files in /etc/test."""
    base = building.folder()
    leftovers.sweep(base)
    group = leftovers.name_of_this_run()
    with building.unpacked(image) as root, tempfile.TemporaryDirectory(prefix="container-", dir=base) as scratch:
        bundle = Path(scratch)
        (bundle / "files").mkdir()
        for name, text in files.items():
            (bundle / "files" / name).write_text(text)
        settings = building.settings_of(image)
        document = _bundle(root, settings, arguments, user, bundle / "files", f"/{group}/container")
        (bundle / "config.json").write_text(json.dumps(document))
        state, name = bundle / "state", group
        command = ["runc", "--root", str(state), "run", "--bundle", str(bundle), name]
        with (bundle / "log").open("wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield Container(name=name, root=root, state=state, process=process)
        finally:
            cgroups.end(f"{group}/container")
            process.wait()
            cgroups.drop(group)
            shutil.rmtree(state, ignore_errors=True)


def _bundle(
    root: Path, settings: Mapping[str, list[str]], arguments: Sequence[str], user: int, files: Path, group: str
) -> dict[str, object]:
    nothing: dict[str, list[str]] = {kind: [] for kind in ("bounding", "effective", "inheritable", "permitted")}
    return {
        "ociVersion": "1.0.2",
        "root": {"path": str(root), "readonly": True},
        "process": {
            "user": {"uid": user, "gid": user},
            "args": [*settings["Entrypoint"], *arguments],
            "env": settings["Env"],
            "cwd": "/app",
            "capabilities": nothing,
            "noNewPrivileges": True,
        },
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
            {"destination": "/etc/test", "type": "bind", "source": str(files), "options": ["bind", "ro"]},
        ],
        "linux": {"namespaces": [{"type": kind} for kind in _NAMESPACES], "cgroupsPath": group},
    }
