"""What each image is made of. Its key is the hash of all of that, so a changed file is another image.

The base stands for `python:3.13-slim-trixie`: the same distribution and the same Python, made from Debian's packages.
What Debian changes later in a package changes no key: remove the cache's folder for a fresh base.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[5]
HERE = Path(__file__).parent

SUITE = "trixie"
PACKAGES = ("python3", "python3-pip", "ca-certificates")
# What python:slim has none of either.
SLIM = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A Python project's, and what of its folder it is made of."""

    project: Path
    parts: tuple[str, ...]

    @property
    def files(self) -> tuple[tuple[str, Path], ...]:
        paths = [self.project / part for part in self.parts]
        return tuple((str(path.relative_to(ROOT)), path) for path in paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """`files` by their place in the build's context, beside the wheels; `tag` is what pods call the image."""

    name: str
    tag: str
    dockerfile: Path
    files: tuple[tuple[str, Path], ...] = ()
    wheels: tuple[Wheel, ...] = ()

    def key(self, base: str) -> str:
        content = hashlib.sha256(f"{self.tag} {base}\n".encode() + self.dockerfile.read_bytes())
        for place, path in _every_file((*self.files, *(each for wheel in self.wheels for each in wheel.files))):
            content.update(f"\n{place}\n".encode() + path.read_bytes())
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
    """The operator's program alone, which the requirements name by digest."""
    return Recipe(name="kuberay", tag=tag, dockerfile=ROOT / "tools/ray/go.mod")


def on_base(controller_tag: str, valkey_tag: str) -> tuple[Recipe, ...]:
    """The controller's is the project's own Dockerfile, as it is."""
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
    for place, path in files:
        if path.is_dir():
            inside = (each for each in path.rglob("*") if each.is_file() and each.suffix != ".pyc")
            yield from ((f"{place}/{each.relative_to(path)}", each) for each in sorted(inside))
        else:
            yield place, path
