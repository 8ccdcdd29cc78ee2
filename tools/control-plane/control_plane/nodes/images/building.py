"""Build images and keep each as an archive, by its content: `<cache>/real-nodes/images/<name>-<key>.tar`.

- A machine behind a proxy trusts a private authority. Its list of authorities is mounted into each build and never
  copied, so no image contains it.
- `--isolation oci` with the machine's network: only builds need Debian's archive and PyPI.
- Root of a container is root of the machine, so all of this needs root.
"""

import fcntl
import json
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Collection, Generator, Iterable
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
WITHOUT_RAY = ("python", "pause", "controller", "worker", "valkey")
_KEPT = 4  # archives of one image: several trees of the project use one cache


def folder() -> Path:
    return cache_root() / "real-nodes"


def recipes() -> tuple[Recipe, ...]:
    return on_base(CONTROLLER_IMAGE, QUEUE_SERVER)


def archives(names: Collection[str] = ()) -> dict[str, Path]:
    """Return the path of each image's archive, which may not exist yet, by the image's name. By default of all."""
    images, base = folder() / "images", base_key()
    every = {
        "python": images / f"python-{base}.tar",
        "pause": images / f"pause-{pause().key('')}.tar",
        "kuberay": images / f"kuberay-{kuberay(OPERATOR).key('')}.tar",
        **{recipe.name: images / f"{recipe.name}-{recipe.key(base)}.tar" for recipe in recipes()},
    }
    return {name: path for name, path in every.items() if not names or name in names}


def lacking() -> list[str]:
    return [name for name, archive in archives().items() if not archive.exists()]


def build(tell: Callable[[str], None], images: Iterable[str] = ()) -> None:
    """Build missing images, by default all. Concurrent runs wait for each other. Raises `Failed`."""
    names = set(images) or set(archives())
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
    """Yield the root file system of a built image."""
    container = _buildah("from", f"docker-archive:{archives()[name]}").strip()
    try:
        yield Path(_buildah("mount", container).strip())
    finally:
        _buildah("rm", container)


def settings_of(name: str) -> dict[str, Any]:
    """Return the OCI config of a built image: Env, Entrypoint, User and so on."""
    with tarfile.open(archives()[name]) as archive:
        manifest = json.load(_member(archive, "manifest.json"))
        return json.load(_member(archive, manifest[0]["Config"]))["config"]


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    member = archive.extractfile(name)
    assert member is not None
    return member


# --- the images -------------------------------------------------------------------------------------------------------


def _make(name: str) -> None:
    archive = archives()[name]
    image = _name_in_store(archive)
    if name == "python":
        _make_base(image)
        _keep(image, BASE_TAG, archive)
    elif name == "pause":
        _make_pause(image)
        _keep(image, PAUSE_TAG, archive)
    elif name == "kuberay":
        _make_operator(image)
        _keep(image, OPERATOR, archive)
    else:
        recipe = next(recipe for recipe in recipes() if recipe.name == name)
        with _context(recipe) as context:
            _make_from_dockerfile(recipe, context, image)
        _keep(image, recipe.tag, archive)


def _make_base(image: str) -> None:
    with tempfile.TemporaryDirectory(prefix="base-", dir=folder()) as scratch:
        tree = Path(scratch) / "base.tar"
        excluded = [f"--dpkgopt=path-exclude={path}" for path in SLIM]
        hooks = [
            'ln -s python3 "$1/usr/bin/python"',
            'find "$1/usr" -name __pycache__ -prune -exec rm -rf {} +',  # as in python:slim
        ]
        run(
            [
                *("mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--skip=output/dev"),
                *(f"--include={','.join(PACKAGES)}", *excluded, *(f"--customize-hook={hook}" for hook in hooks)),
                *(SUITE, str(tree)),
            ]
        )
        settings = ["--env", f"PATH={_PATH}", "--env", "LANG=C.UTF-8", "--cmd", '["python3"]']
        _from_scratch(tree, image, settings)


def _make_pause(image: str) -> None:
    source = pause().dockerfile.parent
    with tempfile.TemporaryDirectory(prefix="pause-", dir=folder()) as scratch:
        command = ["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", f"{scratch}/pause", "."]
        run(command, folder=source, environment={"CGO_ENABLED": "0"})
        _from_scratch(Path(scratch) / "pause", image, ["--entrypoint", '["/pause"]', "--user", "65535:65535"])


def _make_operator(image: str) -> None:
    with tempfile.TemporaryDirectory(prefix="kuberay-", dir=folder()) as scratch:
        shutil.copy(binaries(tuple(OF_RAY))[RAY_OPERATOR], Path(scratch) / "manager")
        _from_scratch(Path(scratch) / "manager", image, ["--entrypoint", '["/manager"]', "--user", "65532:65532"])


def _from_scratch(content: Path, image: str, settings: list[str]) -> None:
    container = _buildah("from", "scratch").strip()
    try:
        _buildah("add", "--quiet", container, str(content), "/")
        _buildah("config", *settings, container)
        _buildah("commit", "--quiet", container, image)
    finally:
        _buildah("rm", container)


@contextmanager
def _context(recipe: Recipe) -> Generator[Path]:
    """Yield the build's context: the project itself for the project's own Dockerfile."""
    if recipe.dockerfile.parent == ROOT:
        yield ROOT
        return
    with tempfile.TemporaryDirectory(prefix=f"{recipe.name}-", dir=folder()) as scratch:
        for name, path in recipe.files:
            shutil.copy(path, Path(scratch) / name)
        for wheel in recipe.wheels:
            _make_wheel(wheel.project, Path(scratch))
        yield Path(scratch)


def _make_wheel(source: Path, target: Path) -> None:
    options = ["--quiet", "--disable-pip-version-check", "--no-build-isolation", "--no-deps"]
    run([sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(target), str(source)])


def _make_from_dockerfile(recipe: Recipe, context: Path, image: str) -> None:
    """Build with cached layers, so that packages of a lock file are not installed again after changes of the code."""
    authorities = ["--volume", f"{AUTHORITIES}:{AUTHORITIES}:ro"] if AUTHORITIES.exists() else []
    _buildah(
        *("build", "--quiet", "--layers", "--isolation", "oci", "--network", "host", "--pull-never", *authorities),
        *("--build-arg", f"BASE={_base_in_store()}", "--file", str(recipe.dockerfile), "--tag", image, str(context)),
    )


# --- the builder ------------------------------------------------------------------------------------------------------


def _buildah(*words: str) -> str:
    """Run buildah with a separate store, apart from the machine's other images."""
    store, running = folder() / "buildah", folder() / "buildah-run"
    return run(["buildah", "--root", str(store), "--runroot", str(running), "--storage-driver", "overlay", *words])


def _name_in_store(archive: Path) -> str:
    """Name an image by its content, since two trees of the project may use one cache."""
    name, _, key = archive.stem.rpartition("-")
    return f"localhost/ebbtide-build/{name}:{key}"


def _base_in_store() -> str:
    """Return the base's name, restored from its archive if the builder's store was emptied."""
    archive = archives()["python"]
    name = _name_in_store(archive)
    try:
        _buildah("inspect", "--type", "image", name)
    except Failed:
        pulled = _buildah("pull", "--quiet", f"docker-archive:{archive}").strip()
        _buildah("tag", pulled, name)
    return name


def _keep(image: str, tag: str, archive: Path) -> None:
    """Write the archive under a temporary name first, so that a partial one never looks finished. Remove old ones."""
    unfinished = archive.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    _buildah("push", "--quiet", image, f"docker-archive:{unfinished}:{tag}")
    unfinished.rename(archive)
    name = archive.name.rpartition("-")[0]
    by_age = sorted(archive.parent.glob(f"{name}-{'?' * 16}.tar"), key=lambda path: path.stat().st_mtime)
    for former in by_age[:-_KEPT]:
        former.unlink()


@contextmanager
def locked(file: Path) -> Generator[None]:
    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
