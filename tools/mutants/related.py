"""Which test files may notice a fault in a module, the most probable and cheapest first.

A test file counts for more if it names the function, is called like the module, or imports it through few others.
"""

import re
from collections import defaultdict, deque
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tools.mutants.product import FOLDERS, modules
from tools.mutants.sites import MODULE, Site

_FAR = 9
# What golden files hold, beside defaults.
_RENDERED = ("components/", "infra/", "ebbtide/provisioning_labels", "ebbtide/vocabulary/labels")
_FOLDERS = {
    "fast": ("unit", "components", "contracts", "properties", "golden", "engine"),
    "process or whole": ("unit", "components", "contracts", "properties", "golden", "checkpoints", "harness"),
}
UNKNOWN_SECONDS = 2.0
_IMPORT = re.compile(r"^\s*(?:from|import) ([\w.]+)(?: import (\([^)]*\)|[^\n]*))?", re.MULTILINE)
_MARKED = re.compile(r"mark\.(process|redis|whole)\b")


@cache
def test_files(root: Path) -> tuple[str, ...]:
    return tuple(sorted(str(path.relative_to(root)) for path in (root / "tests").rglob("test_*.py")))


def related(root: Path, site: Site, module: str, tier: str, seconds: Mapping[str, float]) -> list[str]:
    """Return the tier's test files that reach the module by imports, most probable first."""
    distances = _distances(root, module)
    words = [word for word in re.split(r"\W+", site.function if site.function != MODULE else site.expression) if word]
    name = re.compile(rf"\b{re.escape(words[0] if site.function == MODULE else words[-1])}\b")
    folder = {part for part in Path(module).with_suffix("").parts if part not in FOLDERS}
    topics = {part for word in words for part in word.lower().split("_") if len(part) > 3}

    def rank(path: str) -> tuple[float, float]:
        parts = set(re.split(r"[/_.]", path))
        score = 4 * bool(name.search(_text(root, path))) + 2 * (Path(module).stem in path) + len(folder & parts)
        score += any(topic in path for topic in topics)
        score += 2 * ("golden" in parts and (site.kind == "default" or module.startswith(_RENDERED)))
        return -(score + 3 / distances[path]), seconds.get(path, UNKNOWN_SECONDS)

    files = [path for path in test_files(root) if path in distances and path.split("/")[1] in _FOLDERS[tier]]
    if tier != "fast":
        files = [path for path in files if _MARKED.search(_text(root, path))]
    return sorted(files, key=rank)


@cache
def _text(root: Path, path: str) -> str:
    return (root / path).read_text()


@cache
def _distances(root: Path, module: str) -> dict[str, int]:
    """Return how many imports away each file is that reaches the module."""
    importers = _importers(root)
    distances = {module: 0}
    queue = deque([module])
    while queue:
        path = queue.popleft()
        for importer in importers.get(path, ()):
            if importer not in distances and distances[path] < _FAR:
                distances[importer] = distances[path] + 1
                queue.append(importer)
    return distances


@cache
def _importers(root: Path) -> Mapping[str, set[str]]:
    files = [*modules(root), *(str(path.relative_to(root)) for path in (root / "tests").rglob("*.py"))]
    by_name = {path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in files}
    importers: dict[str, set[str]] = defaultdict(set)
    for path in files:
        for module, listed in _IMPORT.findall(_text(root, path)):
            for name in (module, *(f"{module}.{word}" for word in re.findall(r"\w+", listed))):
                if name in by_name:
                    importers[by_name[name]].add(path)
    return importers
