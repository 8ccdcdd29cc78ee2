"""The valid sections of a stack file, for checks across sections.

A check names the sections that it needs and runs only if they are valid, so no check reports the consequence of a fault
in another section. Names of entries come from the file itself, so they include invalid entries.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ebbtide.settings.capacity.placed import PlacedPod, placed_pods
from ebbtide.settings.file.entries import named_entries
from ebbtide.settings.file.keys import ADOPTED, PODS, PODS_IN, WORKERS
from ebbtide.settings.file.problems import Finding, Location
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.cluster import ClusterKind
from ebbtide.settings.sections.workers import PoolSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedSections:
    stack: StackSettings  # with the fields of `valid` sections only
    valid: frozenset[str]  # sections without a fault
    config: Mapping[str, object]  # the file's, with defaults of node groups
    existing: bool  # the stack uses an existing cluster
    token_fault: str = ""  # why ElastiCache would refuse the password

    def names(self, section: str) -> tuple[str, ...]:
        """Return the names of a section's entries, including invalid ones."""
        return tuple(name for name, _ in named_entries(self.config.get(section)))

    def lacks(self, section: str, name: str) -> bool:
        """True if the section has no entry of that name. False for a section that is not a mapping."""
        return isinstance(self.config.get(section, {}), Mapping) and name not in self.names(section)

    @property
    def pods(self) -> Iterator[PlacedPod]:
        return placed_pods(self.stack, [section for section in PODS if section in self.valid])

    @property
    def pools(self) -> Iterator[tuple[Location, str, PoolSettings]]:
        """Yield place, name and settings of the worker pools, adopted ones too."""
        for name, pool in self.stack.workers.items():
            yield (WORKERS, name), name, pool
        for name, rule in self.stack.adopted.items():
            if rule.pool is not None:
                yield (ADOPTED, name, "pool"), name, rule.pool

    @property
    def placed_pods(self) -> Iterator[PlacedPod]:
        """Yield the pods of this file and the adopted ones: all that need capacity on nodes."""
        return placed_pods(self.stack, [section for section in PODS_IN if section in self.valid])


class CheckRule(NamedTuple):
    needs: tuple[str, ...]  # sections
    find: Callable[[ParsedSections], Iterator[Finding]]
    on: ClusterKind | None = None  # None: either kind

    def findings(self, parsed: ParsedSections) -> Iterator[Finding]:
        kind = ClusterKind.EXISTING if parsed.existing else ClusterKind.EKS
        if parsed.valid.issuperset(self.needs) and self.on in (None, kind):
            yield from self.find(parsed)
