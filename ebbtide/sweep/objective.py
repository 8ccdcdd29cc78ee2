"""What a sweep looks for: a figure of a replay's JSON to make small, and conditions that a setting has to meet.

    FIGURE [where FIGURE <= LIMIT [and …]]    LIMIT: NUMBER, or STRATEGY[.FIGURE] [+ NUMBER];  <= may be <, >= or >

A figure is one of the product's own (`--strategy`). A strategy alone stands for the same figure of that strategy in
the same replay.
"""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType

from ebbtide.settings.file.problems import did_you_mean
from ebbtide.simulator.results import Strategy, StrategyResult

EXAMPLE = "usd where wait_p95_s <= keda-defaults + 60"
FIGURES = tuple(f.name for f in fields(StrategyResult) if f.type in (float, int, float | None))
"""The plain numbers of one strategy, as the JSON names them."""

_COMPARED: Mapping[str, Callable[[float, float], bool]] = MappingProxyType(
    {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
)
_NUMBER = r"[-+]?[0-9]+(?:\.[0-9]+)?"
_CONDITION = re.compile(
    rf"(?P<figure>[a-z]\w*)\s*(?P<compared><=|>=|<|>)\s*"
    rf"(?:(?P<number>{_NUMBER})|(?P<strategy>[a-z][a-z-]*)(?:\.(?P<other>\w+))?(?:\s*\+\s*(?P<more>{_NUMBER}))?)"
)

Row = Mapping[str, float | None]
"""The figures of one strategy in one replay."""


class ObjectiveError(ValueError):
    """One line for each thing that is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """`strategy` None: the limit is the number alone."""

    figure: str
    compared: str
    strategy: Strategy | None = None
    other: str = ""
    number: float = 0.0

    def __str__(self) -> str:
        if self.strategy is None:
            return f"{self.figure} {self.compared} {self.number:g}"
        other = "" if self.other == self.figure else f".{self.other}"
        return f"{self.figure} {self.compared} {self.strategy}{other}" + (f" + {self.number:g}" if self.number else "")

    def met(self, own: Row, rows: Mapping[str, Row]) -> bool:
        """A figure that is not known meets nothing."""
        found, limit = own[self.figure], self.limit(rows)
        return found is not None and limit is not None and _COMPARED[self.compared](found, limit)

    def limit(self, rows: Mapping[str, Row]) -> float | None:
        if self.strategy is None:
            return self.number
        other = rows[self.strategy.value][self.other]
        return None if other is None else other + self.number


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    figure: str
    conditions: tuple[Condition, ...] = ()

    def __str__(self) -> str:
        return self.figure + (f" where {' and '.join(map(str, self.conditions))}" if self.conditions else "")

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """That it names."""
        return tuple(dict.fromkeys(each.strategy for each in self.conditions if each.strategy is not None))

    def met(self, own: Row, rows: Mapping[str, Row]) -> bool:
        return all(each.met(own, rows) for each in self.conditions)


def read_objective(text: str) -> Objective:
    """Raises `ObjectiveError`."""
    figure, _, rest = (part.strip() for part in " ".join(text.split()).partition(" where "))
    wrong = _unknown(figure)
    conditions: list[Condition] = []
    for part in rest.split(" and ") if rest else ():
        found = _CONDITION.fullmatch(part.strip())
        if found is None:
            wrong.append(f"--objective: wanted a condition, found {part.strip()!r} (for example wait_p95_s <= 120)")
            continue
        named, strategy = found["figure"], found["strategy"]
        other = found["other"] or named
        wrong += [line for name in dict.fromkeys((named, other)) for line in _unknown(name)]
        if strategy is not None and strategy not in list(Strategy):
            hint = did_you_mean(strategy, list(Strategy))
            wrong.append(
                f"--objective: wanted a strategy ({', '.join(Strategy)}), found {strategy!r}" + (hint and f"; {hint}")
            )
            continue
        conditions.append(
            Condition(
                figure=named,
                compared=found["compared"],
                strategy=None if strategy is None else Strategy(strategy),
                other="" if strategy is None else other,
                number=float(found["number"] or found["more"] or 0),
            )
        )
    if wrong:
        raise ObjectiveError("\n".join(dict.fromkeys(wrong)))
    return Objective(figure=figure, conditions=tuple(conditions))


def _unknown(figure: str) -> list[str]:
    if figure in FIGURES:
        return []
    hint = did_you_mean(figure, FIGURES)
    return [
        f"--objective: wanted a figure of a replay's JSON, found {figure!r} (for example {EXAMPLE})"
        + (f"; {hint}" if hint else "")
    ]
