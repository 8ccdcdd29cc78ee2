"""The digest of all code and data that a function's result may depend on: its module, and all its imports.

Imports are read from the text of the modules, including those inside functions, so the digest does not depend on the
process. Data in the digest: the shipped prices, the calendars' versions, files named by the caller, and Python's
version, since `sum` of floats rounds differently from 3.12 on.
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
"""Distributions whose data affect business hours."""
DIGITS = 16
_PRICES = Path(tables.__file__).parent / "data"


@cache
def digest_of(module: str, *files: Path) -> str:
    """Raises OSError for a file that cannot be read."""
    hashed = hashlib.sha256()
    parts = sorted(_imported(module).items())
    parts += [(path.name, path) for path in (*sorted(_PRICES.rglob("*.csv")), *files)]
    for name, path in parts:
        hashed.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    for name in CALENDARS:
        hashed.update(f"{name} {version(name)}\0".encode())
    hashed.update(".".join(platform.python_version_tuple()[:2]).encode())
    return hashed.hexdigest()[:DIGITS]


def modules_of(module: str) -> tuple[str, ...]:
    return tuple(sorted(_imported(module)))


def _imported(module: str) -> dict[str, Path]:
    modules: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = None if name in modules else _file(name)
        if path is not None:
            modules[name] = path
            waiting += _names(path)
            waiting += [name.rpartition(".")[0]] if "." in name else []
    return modules


def _file(name: str) -> Path | None:
    """The file of a module of this tree; None for other names."""
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
