"""The committed list of mutants with what became of each, and how its entries are drawn.

A package's sites are in the order of a digest of the seed and their names. So a changed line moves no other mutant, and
a mutant whose code went is replaced by the next of its package and kind.
"""

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tools.mutants.product import home_of, lines_by_package, modules, package_of, quotas, sites_of
from tools.mutants.sites import KINDS, MODULE, Site

SEED = "53"
LIST = Path("tools/mutants/list.jsonl")

UNKNOWN = ""  # not run yet
NOTICED = "noticed"
SURVIVED = "survived"
EQUIVALENT = "equivalent"  # no input shows a difference
UNIMPORTANT = "unimportant"  # a user would not miss the difference
GONE = "gone"

NEW_TEST = "a test was added for it"


@dataclass(frozen=True, slots=True)
class Mutant:
    package: str
    file: str
    site: Site
    verdict: str = UNKNOWN
    tier: str = ""  # that noticed it
    test: str = ""  # that noticed it first
    why: str = ""  # given by a person: why no test needs to notice it, or that a test was written for it


def read(path: Path) -> list[Mutant]:
    mutants: list[Mutant] = []
    for line in path.read_text().splitlines() if path.exists() else ():
        entry = json.loads(line)
        fields = {field.name: entry.pop(field.name) for field in dataclasses.fields(Site)}
        mutants.append(Mutant(site=Site(**fields), **entry))
    return mutants


def write(path: Path, mutants: Iterable[Mutant]) -> None:
    lines: list[str] = []
    for mutant in mutants:
        entry = dataclasses.asdict(mutant)
        lines.append(json.dumps({"package": entry.pop("package"), **entry.pop("site"), **entry}, ensure_ascii=False))
    new = path.with_suffix(".new")
    new.write_text("".join(f"{line}\n" for line in lines))
    new.replace(path)


def reset(mutant: Mutant) -> Mutant:
    return replace(mutant, verdict=UNKNOWN, tier="", test="")


def draw(root: Path, paths: Sequence[str], count: int) -> list[Mutant]:
    """Draw by lines of each package, a quarter of each kind, and one per function."""
    drawn: list[Mutant] = []
    for package, share in sorted(quotas(lines_by_package(root, paths), count).items()):
        inside = [path for path in paths if package_of(path) == package]
        first = _digest(package) % len(KINDS)
        functions: set[str | Site] = set()
        for number in range(share):
            kind = KINDS[(first + number) % len(KINDS)]
            mutant = next(_candidates(root, inside, kind, functions), None)
            if mutant is not None:
                functions |= {mutant.site.function, mutant.site}
                drawn.append(mutant)
    return drawn


def replaced(root: Path, mutants: Sequence[Mutant]) -> list[Mutant]:
    """Record where mutants are now; add the next of the same package and kind for each whose code went."""
    new: list[Mutant] = []
    for mutant in mutants:
        home = mutant.file if mutant.verdict == GONE else home_of(root, mutant.site, mutant.file)
        if home is not None:
            new.append(replace(mutant, file=home))
            continue
        gone = replace(reset(mutant), verdict=GONE)
        inside = [path for path in modules(root) if package_of(path) == mutant.package] or modules(root)
        taken = {name for other in (*mutants, *new) for name in (other.site, other.site.function)}
        substitute = next(_candidates(root, inside, mutant.site.kind, taken), None)
        new += [gone] if substitute is None else [replace(gone, why=f"replaced by {substitute.site}"), substitute]
    return new


def _candidates(root: Path, paths: Iterable[str], kind: str, taken: Container[str | Site]) -> Iterator[Mutant]:
    options = [
        Mutant(package_of(path), path, site)
        for path in paths
        for site in sites_of(root, path)
        if site.kind == kind and site not in taken and (site.function not in taken or site.function == MODULE)
    ]
    # A name that two modules share could not be found again after a move.
    homes = Counter(option.site for option in options)
    for option in sorted(options, key=lambda option: (_digest(repr(option.site)), option.file)):
        if homes[option.site] == 1:
            yield option


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{SEED} {text}".encode()).digest()[:8])
