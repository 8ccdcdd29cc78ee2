"""The objective of a sweep: a figure of a replay's JSON to minimize, and conditions that a setting has to meet.

    FIGURE [where FIGURE <= LIMIT [and …]]    LIMIT: NUMBER, or STRATEGY[.FIGURE] [+ NUMBER];  <= may be <, >= or >

A FIGURE is a figure of `--strategy`. A STRATEGY without a figure is that strategy's value of the condition's figure, in
the same replay.
"""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType

from ebbtide.lab.simulator.results import Strategy, StrategyResult
from ebbtide.settings.file.problems import did_you_mean

EXAMPLE = "usd where wait_p95_s <= keda-defaults + 60"
FIGURES = tuple(f.name for f in fields(StrategyResult) if f.type in (float, int, float | None))
"""The numbers of one strategy, by their names in the JSON."""

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
    """The message has one line for each problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """`strategy` None: the limit is the number."""

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
        """True if the figure meets the limit; an unknown figure meets none."""
        value, limit = own[self.figure], self.limit(rows)
        return value is not None and limit is not None and _COMPARED[self.compared](value, limit)

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
        """The strategies in its conditions."""
        named = (condition.strategy for condition in self.conditions if condition.strategy is not None)
        return tuple(dict.fromkeys(named))

    def met(self, own: Row, rows: Mapping[str, Row]) -> bool:
        return all(condition.met(own, rows) for condition in self.conditions)


def read_objective(text: str) -> Objective:
    """Raises `ObjectiveError`."""
    figure, _, where = (part.strip() for part in " ".join(text.split()).partition(" where "))
    problems = _unknown(figure)
    conditions: list[Condition] = []
    for part in where.split(" and ") if where else ():
        match = _CONDITION.fullmatch(part.strip())
        if match is None:
            problems.append(f"--objective: wanted a condition, found {part.strip()!r} (for example wait_p95_s <= 120)")
            continue
        named, strategy = match["figure"], match["strategy"]
        other = match["other"] or named
        problems += [line for name in dict.fromkeys((named, other)) for line in _unknown(name)]
        if strategy is not None and strategy not in list(Strategy):
            hint = did_you_mean(strategy, list(Strategy))
            problems.append(
                f"--objective: wanted a strategy ({', '.join(Strategy)}), found {strategy!r}" + (hint and f"; {hint}")
            )
            continue
        conditions.append(
            Condition(
                figure=named,
                compared=match["compared"],
                strategy=None if strategy is None else Strategy(strategy),
                other="" if strategy is None else other,
                number=float(match["number"] or match["more"] or 0),
            )
        )
    if problems:
        raise ObjectiveError("\n".join(dict.fromkeys(problems)))
    return Objective(figure=figure, conditions=tuple(conditions))


def _unknown(figure: str) -> list[str]:
    if figure in FIGURES:
        return []
    hint = did_you_mean(figure, FIGURES)
    return [
        f"--objective: wanted a figure of a replay's JSON, found {figure!r} (for example {EXAMPLE})"
        + (f"; {hint}" if hint else "")
    ]
