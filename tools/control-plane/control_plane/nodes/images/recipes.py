"""Inputs of each image. Its key is their hash, so a changed file gives another image.

The base stands for `python:3.13-slim-trixie`: the same distribution and Python, built from Debian's packages. Later
changes of Debian's packages change no key: remove the cache's folder for a fresh base.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[5]
HERE = Path(__file__).parent

SUITE = "trixie"
PACKAGES = ("python3", "python3-pip", "ca-certificates")
# Paths that python:slim lacks too.
SLIM = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """The wheel of a Python project, and the parts of its folder that it contains."""

    project: Path
    parts: tuple[str, ...]

    @property
    def files(self) -> tuple[tuple[str, Path], ...]:
        paths = [self.project / part for part in self.parts]
        return tuple((str(path.relative_to(ROOT)), path) for path in paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """An image. `files` by their path in the build's context, next to the wheels; `tag` is its name for pods."""

    name: str
    tag: str
    dockerfile: Path
    files: tuple[tuple[str, Path], ...] = ()
    wheels: tuple[Wheel, ...] = ()

    def key(self, base: str) -> str:
        content = hashlib.sha256(f"{self.tag} {base}\n".encode() + self.dockerfile.read_bytes())
        for name, path in _every_file((*self.files, *(file for wheel in self.wheels for file in wheel.files))):
            content.update(f"\n{name}\n".encode() + path.read_bytes())
        return content.hexdigest()[:16]


def base_key() -> str:
    return hashlib.sha256(f"{SUITE} {PACKAGES} {SLIM}".encode()).hexdigest()[:16]


BASE_TAG = "localhost/ebbtide/python:3.13"
PAUSE_TAG = "localhost/ebbtide/pause:1"
WORKER_TAG = "localhost/ebbtide/worker:1"
RAY_TAG = "localhost/ebbtide/ray:2.60.0"

JOBS = Wheel(project=ROOT / "ebbtide/jobs", parts=("",))
EBBTIDE = Wheel(
    project=ROOT, parts=("pyproject.toml", "README.md", "LICENSE", "components", "controllers", "ebbtide", "infra")
)


def pause() -> Recipe:
    source = HERE / "pause"
    return Recipe(
        name="pause",
        tag=PAUSE_TAG,
        dockerfile=source / "main.go",
        files=(("go.mod", source / "go.mod"),),
    )


def kuberay(tag: str) -> Recipe:
    """Return the operator's image, which contains only the program; the requirements pin it."""
    return Recipe(name="kuberay", tag=tag, dockerfile=ROOT / "tools/ray/go.mod")


def on_base(controller_tag: str, valkey_tag: str) -> tuple[Recipe, ...]:
    """Return the images on the base; the controller's uses the project's own Dockerfile."""
    lock = "tools/locks/controller.txt"
    controller = (".dockerignore", "controllers", "ebbtide/vocabulary", lock)
    return (
        Recipe(
            name="controller",
            tag=controller_tag,
            dockerfile=ROOT / "Dockerfile",
            files=tuple((place, ROOT / place) for place in controller),
        ),
        _customers("worker", WORKER_TAG, "backend-rq.txt", JOBS),
        Recipe(name="valkey", tag=valkey_tag, dockerfile=HERE / "valkey.Dockerfile"),
        _customers("ray", RAY_TAG, "ray.txt", JOBS, EBBTIDE),
    )


def _customers(name: str, tag: str, lock: str, *wheels: Wheel) -> Recipe:
    return Recipe(
        name=name,
        tag=tag,
        dockerfile=HERE / "worker.Dockerfile",
        files=(("locked.txt", ROOT / "tools/locks" / lock),),
        wheels=wheels,
    )


def _every_file(files: tuple[tuple[str, Path], ...]) -> Iterator[tuple[str, Path]]:
    for name, path in files:
        if path.is_dir():
            inside = (file for file in path.rglob("*") if file.is_file() and file.suffix != ".pyc")
            yield from ((f"{name}/{file.relative_to(path)}", file) for file in sorted(inside))
        else:
            yield name, path
