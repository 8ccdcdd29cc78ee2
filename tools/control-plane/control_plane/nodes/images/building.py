"""Builds images and keeps each as an archive, by its content: `<cache>/real-nodes/images/<name>-<key>.tar`.

- A machine behind a proxy trusts an authority of its own. Its list of authorities is bound into each build and never
  copied, so no image holds it.
- `--isolation oci` with the machine's network: a build needs Debian's archive and PyPI, and nothing else does.
- Root of a container is root of the machine here, so all of this needs root.
"""

import fcntl
import json
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from components.images import RAY_OPERATOR as OPERATOR
from components.images import REDIS as QUEUE_SERVER
from control_plane.nodes.images.recipes import (
    BASE_TAG,
    PACKAGES,
    PAUSE_TAG,
    ROOT,
    SLIM,
    SUITE,
    Recipe,
    base_key,
    kuberay,
    on_base,
    pause,
)
from control_plane.nodes.run import Failed, run
from control_plane.plane.binaries import OF_RAY, RAY_OPERATOR, binaries, cache_root
from ebbtide.settings.sections.controller import CONTROLLER_IMAGE

AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_KEPT = 4  # archives of one image: several trees of the project use one cache


def folder() -> Path:
    return cache_root() / "real-nodes"


def recipes() -> tuple[Recipe, ...]:
    return on_base(CONTROLLER_IMAGE, QUEUE_SERVER)


def archives() -> dict[str, Path]:
    """Where each image's archive belongs, by the image's name; it may not be there yet."""
    images, base = folder() / "images", base_key()
    return {
        "python": images / f"python-{base}.tar",
        "pause": images / f"pause-{pause().key('')}.tar",
        "kuberay": images / f"kuberay-{kuberay(OPERATOR).key('')}.tar",
        **{recipe.name: images / f"{recipe.name}-{recipe.key(base)}.tar" for recipe in recipes()},
    }


def lacking() -> list[str]:
    return [name for name, archive in archives().items() if not archive.exists()]


def build(tell: Callable[[str], None], wanted: Iterable[str] = ()) -> None:
    """What is missing of those that are wanted, by default of all. Raises `Failed`. Runs at the same time wait."""
    names = set(wanted) or set(archives())
    if not names & set(lacking()):
        return
    (folder() / "images").mkdir(parents=True, exist_ok=True)
    with locked(folder() / "images" / "lock"):
        if names - {"pause", "kuberay"}:
            names.add("python")
        for name in lacking():
            if name in names:
                begun = time.monotonic()
                tell(f"building the image {name} (once, into {folder() / 'images'})")
                _make(name)
                tell(f"built the image {name} in {time.monotonic() - begun:.0f} s")


@contextmanager
def unpacked(name: str) -> Generator[Path]:
    """The root file system of an image that is built."""
    container = _buildah("from", f"docker-archive:{archives()[name]}").strip()
    try:
        yield Path(_buildah("mount", container).strip())
    finally:
        _buildah("rm", container)


def settings_of(name: str) -> dict[str, Any]:
    """What an image that is built says of itself: Env, Entrypoint, User and the rest of the OCI config."""
    with tarfile.open(archives()[name]) as archive:
        manifest = json.load(_member(archive, "manifest.json"))
        return json.load(_member(archive, manifest[0]["Config"]))["config"]


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    found = archive.extractfile(name)
    assert found is not None
    return found


# --- each of them -----------------------------------------------------------------------------------------------------


def _make(name: str) -> None:
    archive = archives()[name]
    ours = _name_in_store(archive)
    if name == "python":
        _make_base(ours)
        _keep(ours, BASE_TAG, archive)
    elif name == "pause":
        _make_pause(ours)
        _keep(ours, PAUSE_TAG, archive)
    elif name == "kuberay":
        _make_operator(ours)
        _keep(ours, OPERATOR, archive)
    else:
        recipe = next(recipe for recipe in recipes() if recipe.name == name)
        with _context(recipe) as context:
            _make_from_dockerfile(recipe, context, ours)
        _keep(ours, recipe.tag, archive)


def _make_base(ours: str) -> None:
    with tempfile.TemporaryDirectory(prefix="base-", dir=folder()) as scratch:
        tree = Path(scratch) / "base.tar"
        excluded = [f"--dpkgopt=path-exclude={path}" for path in SLIM]
        hooks = [
            'ln -s python3 "$1/usr/bin/python"',
            'find "$1/usr" -name __pycache__ -prune -exec rm -rf {} +',  # python:slim has no bytecode either
        ]
        run(
            [
                *("mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--skip=output/dev"),
                *(f"--include={','.join(PACKAGES)}", *excluded, *(f"--customize-hook={hook}" for hook in hooks)),
                *(SUITE, str(tree)),
            ]
        )
        settings = ["--env", f"PATH={_PATH}", "--env", "LANG=C.UTF-8", "--cmd", '["python3"]']
        _from_scratch(tree, ours, settings)


def _make_pause(ours: str) -> None:
    source = pause().dockerfile.parent
    with tempfile.TemporaryDirectory(prefix="pause-", dir=folder()) as scratch:
        command = ["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", f"{scratch}/pause", "."]
        run(command, folder=source, environment={"CGO_ENABLED": "0"})
        _from_scratch(Path(scratch) / "pause", ours, ["--entrypoint", '["/pause"]', "--user", "65535:65535"])


def _make_operator(ours: str) -> None:
    with tempfile.TemporaryDirectory(prefix="kuberay-", dir=folder()) as scratch:
        shutil.copy(binaries(tuple(OF_RAY))[RAY_OPERATOR], Path(scratch) / "manager")
        _from_scratch(Path(scratch) / "manager", ours, ["--entrypoint", '["/manager"]', "--user", "65532:65532"])


def _from_scratch(content: Path, ours: str, settings: list[str]) -> None:
    container = _buildah("from", "scratch").strip()
    try:
        _buildah("add", "--quiet", container, str(content), "/")
        _buildah("config", *settings, container)
        _buildah("commit", "--quiet", container, ours)
    finally:
        _buildah("rm", container)


@contextmanager
def _context(recipe: Recipe) -> Generator[Path]:
    """The folder that a build sees: the project itself for the project's own Dockerfile."""
    if recipe.dockerfile.parent == ROOT:
        yield ROOT
        return
    with tempfile.TemporaryDirectory(prefix=f"{recipe.name}-", dir=folder()) as scratch:
        for place, path in recipe.files:
            shutil.copy(path, Path(scratch) / place)
        for wheel in recipe.wheels:
            _make_wheel(wheel.project, Path(scratch))
        yield Path(scratch)


def _make_wheel(source: Path, target: Path) -> None:
    options = ["--quiet", "--disable-pip-version-check", "--no-build-isolation", "--no-deps"]
    run([sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(target), str(source)])


def _make_from_dockerfile(recipe: Recipe, context: Path, ours: str) -> None:
    """Layers are kept: what a lock file names is not installed anew for every change of our own code."""
    authorities = ["--volume", f"{AUTHORITIES}:{AUTHORITIES}:ro"] if AUTHORITIES.exists() else []
    _buildah(
        *("build", "--quiet", "--layers", "--isolation", "oci", "--network", "host", "--pull-never", *authorities),
        *("--build-arg", f"BASE={_base_in_store()}", "--file", str(recipe.dockerfile), "--tag", ours, str(context)),
    )


# --- the builder ------------------------------------------------------------------------------------------------------


def _buildah(*words: str) -> str:
    """With a store of its own: the machine's other images are nobody's business here."""
    store, running = folder() / "buildah", folder() / "buildah-run"
    return run(["buildah", "--root", str(store), "--runroot", str(running), "--storage-driver", "overlay", *words])


def _name_in_store(archive: Path) -> str:
    """By content: two trees of the project may use one cache."""
    name, _, key = archive.stem.rpartition("-")
    return f"localhost/ebbtide-build/{name}:{key}"


def _base_in_store() -> str:
    """The builder's store may have been emptied while the archive stayed."""
    archive = archives()["python"]
    name = _name_in_store(archive)
    try:
        _buildah("inspect", "--type", "image", name)
    except Failed:
        pulled = _buildah("pull", "--quiet", f"docker-archive:{archive}").strip()
        _buildah("tag", pulled, name)
    return name


def _keep(ours: str, tag: str, archive: Path) -> None:
    """Under another name first: what was cut off never looks finished. The oldest of many former ones go."""
    unfinished = archive.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    _buildah("push", "--quiet", ours, f"docker-archive:{unfinished}:{tag}")
    unfinished.rename(archive)
    name = archive.name.rpartition("-")[0]
    kept = sorted(archive.parent.glob(f"{name}-{'?' * 16}.tar"), key=lambda each: each.stat().st_mtime)
    for former in kept[:-_KEPT]:
        former.unlink()


@contextmanager
def locked(file: Path) -> Generator[None]:
    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
