"""One rendering of a chart: how large, and what is left for the data once axes and legend have their room.

A chart is drawn for several widths, never scaled to them: letters keep their size.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ebbtide.simulator.report.axes import RIGHT_MARGIN, Key, legend_height
from ebbtide.simulator.report.scales import Box

OVER = 30.0  # room for the unit above an axis
_SMALL = 500.0


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """`ident` starts the ids that must be unique on a page."""

    ident: str
    width: float
    height: float
    under: float = 44.0  # room for the labels of days
    reach: float = 0.0  # what the axis of nodes goes up to at least, where charts are compared

    @property
    def small(self) -> bool:
        """A telephone's width."""
        return self.width < _SMALL

    @property
    def left(self) -> float:
        """Room for the values of an axis."""
        return 54.0 if self.small else 58.0

    @property
    def plot_width(self) -> float:
        return self.width - self.left - RIGHT_MARGIN

    @property
    def size(self) -> tuple[float, float]:
        return self.width, self.height

    def box(self, keys: Sequence[Key]) -> Box:
        """The plot area left over by legend, axis title and labels."""
        top = legend_height(keys, self.width - self.left) + OVER
        return Box(left=self.left, top=top, width=self.plot_width, height=self.height - top - self.under)

    def panels(self, keys: Sequence[Key], *, share: float) -> tuple[Box, Box]:
        """Two plot areas, one above the other; the upper one has `share` of their height."""
        both = self.box(keys)
        between = OVER + 6
        upper = Box(left=both.left, top=both.top, width=both.width, height=(both.height - between) * share)
        top = upper.bottom + between
        return upper, Box(left=both.left, top=top, width=both.width, height=both.bottom - top)
