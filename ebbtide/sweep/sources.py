"""The digest of everything in this tree that a function's result may depend on: its module, and all that it imports.

Found in the text of the modules, imports inside functions too, so that it is the same whatever else a process has
imported. Not code, and counted too: the shipped prices, the calendars' versions, the files that the caller names, and
Python's version, since `sum` of floats has rounded otherwise from 3.12 on.
"""

import ast
import hashlib
import platform
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from ebbtide.prices import tables

OURS = ("ebbtide", "controllers", "benchmarks")
CALENDARS = ("holidays", "tzdata")
"""Distributions whose data decide when it is business hours."""
DIGITS = 16
_PRICES = Path(tables.__file__).parent / "data"


@cache
def digest_of(module: str, *files: Path) -> str:
    """Raises OSError for a file that cannot be read."""
    hashed = hashlib.sha256()
    parts = sorted(_imported(module).items())
    parts += [(path.name, path) for path in (*sorted(_PRICES.iterdir()), *files)]
    for name, path in parts:
        hashed.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    for name in CALENDARS:
        hashed.update(f"{name} {version(name)}\0".encode())
    hashed.update(".".join(platform.python_version_tuple()[:2]).encode())
    return hashed.hexdigest()[:DIGITS]


def modules_of(module: str) -> tuple[str, ...]:
    return tuple(sorted(_imported(module)))


def _imported(module: str) -> dict[str, Path]:
    found: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = None if name in found else _file(name)
        if path is not None:
            found[name] = path
            waiting += _names(path)
            waiting += [name.rpartition(".")[0]] if "." in name else []
    return found


def _file(name: str) -> Path | None:
    """None for what is no module of ours: a name in one, or another's."""
    if name.partition(".")[0] not in OURS:
        return None
    try:
        spec = find_spec(name)
    except ModuleNotFoundError:
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin)


def _names(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
