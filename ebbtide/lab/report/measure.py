"""The measure in which results are compared: dollars, or vCPU-hours where a node that ran has no price."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ebbtide.lab.simulator.results import StrategyResult
from ebbtide.text.counts import count, known
from ebbtide.text.money import MINUS, dollars


@dataclass(frozen=True, slots=True)
class Measure:
    name: str
    verb: str  # a strategy "costs" dollars
    least: str  # "the cheapest of three"
    of: Callable[[StrategyResult], float]
    text: Callable[[float], str]

    def change(self, amount: float) -> str:
        """`+$1.20`, or the amount without a sign if it reads as zero."""
        text = self.text(abs(amount))
        return text if text == self.text(0) else f"{'+' if amount > 0 else MINUS}{text}"


DOLLARS = Measure("dollars", "costs", "cheapest", lambda result: result.usd or 0.0, dollars)
VCPU_HOURS = Measure(
    "vCPU-hours", "uses", "least", lambda result: result.vcpu_hours, lambda hours: f"{count(hours)} vCPU-hours"
)


def measure_of(results: Iterable[StrategyResult]) -> Measure:
    """One measure for all results that are compared: a sum in dollars that lacks a price looks like a saving."""
    return VCPU_HOURS if any(result.usd is None for result in results) else DOLLARS


def paid(usd: float | None) -> str:
    return known(usd, dollars)
