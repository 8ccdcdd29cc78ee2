"""The product's modules, and how many lines each package has."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path

from tools.mutants.sites import MODULE, Site, mutated, sites

FOLDERS = ("components", "controllers", "ebbtide", "infra")


@cache
def modules(root: Path) -> tuple[str, ...]:
    """Return the paths of the product's modules, relative to the root."""
    paths = [path for folder in FOLDERS for path in (root / folder).rglob("*.py") if path.is_file()]
    return tuple(sorted(str(path.relative_to(root)) for path in paths if not path.is_symlink()))


@lru_cache(maxsize=8)  # of the whole product they are 40 MiB
def tree_of(root: Path, path: str) -> ast.Module:
    return ast.parse((root / path).read_text())


@cache
def sites_of(root: Path, path: str) -> frozenset[Site]:
    return frozenset(sites(tree_of(root, path)))


def package_of(path: str) -> str:
    """Return `ebbtide/settings` for a module of it, `ebbtide` for `ebbtide/program.py`, `components` for all below it.

    The lab's packages count separately.
    """
    *folders, _ = path.split("/")
    return "/".join(folders[: 3 if folders[1:2] == ["lab"] else 2]) if folders[0] == "ebbtide" else folders[0]


def lines_by_package(root: Path, paths: Iterable[str]) -> dict[str, int]:
    lines: dict[str, int] = defaultdict(int)
    for path in paths:
        lines[package_of(path)] += (root / path).read_bytes().count(b"\n")
    return dict(lines)


def home_of(root: Path, site: Site, recorded: str) -> str | None:
    """Return the module that has the site: the recorded one, or the only one that has it now."""
    paths = modules(root)
    if recorded in paths and site in sites(tree_of(root, recorded), site.function):
        return recorded
    name = site.function.rpartition(".")[2]
    homes = [path for path in paths if name in (root / path).read_text() or name == MODULE]
    homes = [path for path in homes if site in sites(tree_of(root, path), site.function)]
    return homes[0] if len(homes) == 1 else None


def mutated_module(root: Path, path: str, site: Site) -> ast.Module:
    tree = mutated(tree_of(root, path), site)
    if tree is None:
        raise LookupError(f"{path} has no {site}")
    return tree


def quotas(lines: Mapping[str, int], count: int) -> dict[str, int]:
    """Share a count by lines: by largest remainders, and at least one for each package."""
    total = sum(lines.values())
    exact = {package: count * lines[package] / total for package in lines}
    shares = {package: max(1, int(share)) for package, share in exact.items()}
    by_remainder = sorted(lines, key=lambda package: (shares[package] - exact[package], package))
    for package in by_remainder[: max(0, count - sum(shares.values()))]:
        shares[package] += 1
    return shares
