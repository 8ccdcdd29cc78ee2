"""What people wrote down for the tool: which tests are for which module, mutants made by hand, survivors explained."""

import tomllib
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
HAND_MADE = "tests/data/mutants"


class GivenWrong(Exception):
    """One of these files cannot be used; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Target:
    """`tests` are tried first, `wider` only on what survives them."""

    file: str
    tests: tuple[str, ...]
    wider: tuple[str, ...]

    @property
    def module(self) -> str:
        return self.file.removesuffix(".py").replace("/", ".")


@dataclass(frozen=True, slots=True)
class HandMade:
    """A bug that somebody thought of: `before` stands once in the file. `survives` is why no test can find it."""

    file: str
    before: str
    after: str
    about: str
    survives: str = ""


def targets(root: Path) -> dict[str, Target]:
    rows = _rows(HERE / "targets.toml", "target")
    found = {
        file: Target(file, tuple(row["tests"]), tuple(row.get("wider", ()))) for row in rows for file in row["files"]
    }
    missing = [name for name in found if not (root / name).is_file()]
    missing += [test for one in found.values() for test in (*one.tests, *one.wider) if not _is_there(root, test)]
    if missing:
        raise GivenWrong(f"{HERE / 'targets.toml'}: found no {', '.join(dict.fromkeys(missing))}")
    return found


def _is_there(root: Path, test: str) -> bool:
    return not test.startswith("tests/") or (root / test.partition("::")[0]).exists()


def hand_made(root: Path, known: Container[str]) -> Iterator[tuple[str, HandMade]]:
    """With the name of the file that it is written in. Raises `GivenWrong` for one that no longer fits the code."""
    for path in sorted((root / HAND_MADE).glob("*.toml")):
        for row in _rows(path, "mutant"):
            try:
                one = HandMade(**row)
            except TypeError as error:
                raise GivenWrong(f"{path}: {error} (wanted file, before, after, about, and perhaps survives)") from None
            if one.file not in known:
                raise GivenWrong(f"{path}: {one.about!r}: {one.file} is no target, so nobody knows its tests")
            source = root / one.file
            times = source.read_text().count(one.before) if source.is_file() else 0
            if times != 1 or one.before == one.after:
                raise GivenWrong(
                    f"{path}: {one.about!r}: `before` stands {times} times in {one.file}, wanted once, and another text"
                )
            yield path.name, one


def explained() -> dict[tuple[str, str], str]:
    """Why a mutant survives that changes no behaviour, by file and key."""
    return {(row["file"], row["key"]): row["why"] for row in _rows(HERE / "survivors.toml", "survivor")}


def _rows(path: Path, name: str) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    try:
        return tomllib.loads(path.read_text()).get(name, [])
    except tomllib.TOMLDecodeError as error:
        raise GivenWrong(f"{path}: {error}") from None
