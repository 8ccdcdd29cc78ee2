"""Where the control plane's programs are, and how they are built from public Go modules.

Each is looked for in `KUBEBUILDER_ASSETS`, then on PATH, then in a cache outside the tree. The cache folder is named by
the content of the go.mod and go.sum files, so another version is another folder and nothing ever has to be emptied.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path

MODULES = Path(__file__).parents[1]
PACKAGES: Mapping[str, tuple[str, str]] = {  # program: the module that requires it (a folder), and its package
    "etcd": ("etcd", "go.etcd.io/etcd/server/v3"),
    "kube-apiserver": ("kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    "kube-controller-manager": ("kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    "kube-scheduler": ("kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    "kubectl": ("kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
    "kwok": ("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
}


class MissingBinaries(RuntimeError):
    """Programs that are neither here nor can be built; the message is one line and says how to get them."""


def cache_directory() -> Path:
    """This content's folder under `EBBTIDE_CACHE`, by default ~/.cache/ebbtide."""
    root = os.environ.get("EBBTIDE_CACHE")
    base = Path(root) if root else Path.home() / ".cache" / "ebbtide"
    content = hashlib.sha256(f"{sys.platform} {platform.machine()}".encode())
    for file in sorted(MODULES.glob("*/go.*")):
        content.update(f"\n{file.parent.name}/{file.name}\n".encode() + file.read_bytes())
    return base / "control-plane" / content.hexdigest()[:16]


def find(program: str) -> Path | None:
    """Where the program is, or None if it has to be built."""
    for folder in (os.environ.get("KUBEBUILDER_ASSETS"), None, str(cache_directory())):
        if folder == "":
            continue
        found = shutil.which(program, path=folder)  # without a folder: on PATH
        if found is not None:
            return Path(found)
    return None


def missing() -> list[str]:
    return [program for program in PACKAGES if find(program) is None]


def binaries() -> dict[str, Path]:
    """Every program's path. Raises `MissingBinaries`; nothing is built here, for that takes minutes."""
    found = {program: path for program in PACKAGES if (path := find(program)) is not None}
    lacking = [program for program in PACKAGES if program not in found]
    if lacking:
        raise MissingBinaries(how_to_get(lacking))
    return found


def how_to_get(programs: Iterable[str]) -> str:
    go = "" if shutil.which("go") else "install Go 1.26 or later (https://go.dev/dl), "
    return (
        f"control plane: {', '.join(programs)} not found: {go}run `python tools/control-plane/build.py`, "
        "or name a folder that holds them in KUBEBUILDER_ASSETS"
    )


def build(tell: Callable[[str], None]) -> None:
    """Build what is missing into the cache. Raises `MissingBinaries`. Runs at the same time wait for each other."""
    if not missing():
        return
    if shutil.which("go") is None:
        raise MissingBinaries(how_to_get(missing()))
    folder = cache_directory()
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / "lock"):
        for program in missing():
            begun = time.monotonic()
            tell(f"building {program} (once, into {folder})")
            _build(program, folder)
            tell(f"built {program} in {time.monotonic() - begun:.0f} s")


def _build(program: str, folder: Path) -> None:
    """Under another name first: a build that is cut off leaves nothing that looks finished."""
    module, package = PACKAGES[program]
    unfinished = folder / f".{program}.{os.getpid()}"
    command = ["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", str(unfinished), package]
    try:
        subprocess.run(command, cwd=MODULES / module, env={**os.environ, "CGO_ENABLED": "0"}, check=True)
        unfinished.rename(folder / program)
    except subprocess.CalledProcessError as error:
        raise MissingBinaries(f"control plane: go build of {program} failed, see above ({package})") from error
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def _locked(file: Path) -> Generator[None]:
    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)  # gone with the process, however it ends
        yield
