"""What a replay keeps while it runs: counts at their changes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ebbtide.simulator.results import Series


@dataclass(slots=True)
class SeriesRecorder:
    """Builds a `Series`. Of the samples at one instant the last counts; a sample that changes nothing is dropped."""

    groups: tuple[str, ...]
    _at: list[float] = field(default_factory=list[float])
    _samples: list[tuple[tuple[int, ...], int, int]] = field(default_factory=list[tuple[tuple[int, ...], int, int]])

    def sample(self, at: float, nodes: Mapping[str, int], waiting: int, running: int) -> None:
        sample = (tuple(nodes.get(group, 0) for group in self.groups), waiting, running)
        if self._at and self._at[-1] == at:
            self._at.pop()
            self._samples.pop()
        if not self._samples or self._samples[-1] != sample:
            self._at.append(at)
            self._samples.append(sample)

    def series(self) -> Series:
        return Series(
            at=tuple(self._at),
            nodes={group: tuple(nodes[i] for nodes, _, _ in self._samples) for i, group in enumerate(self.groups)},
            waiting=tuple(waiting for _, waiting, _ in self._samples),
            running=tuple(running for _, _, running in self._samples),
        )
