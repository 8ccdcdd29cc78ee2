"""Arithmetic of a Savings Plan: the cost of an hourly commitment on a given usage, and the cheapest commitment.

Rules, from the Savings Plans user guide (docs.aws.amazon.com/savingsplans/latest/userguide/sp-applying.html): a
commitment is dollars per hour at the plan's rates; the unused part of an hour is lost; usage is covered from
the highest saving in per cent to the lowest; uncovered usage costs the on-demand price. (Among equal savings the
lowest rate goes first, which does not change the cost.)

Why the least cost is found exactly. Take one hour. A line of usage of `n` nodes with price p and plan rate r < p takes
up to n*r dollars of the commitment C and takes p/r times as many on-demand dollars off the bill. Lines are covered in
falling order of p/r (the saving is 1 - r/p), so the dollars taken off are a concave, piecewise linear function of C
that ends when everything is covered, and the hour's cost, C + on-demand - taken off, is convex and piecewise linear;
its slope changes only where a line is used up, at the sums of n*r over the first k lines. The mean over hours is a sum
of such functions: convex, piecewise linear, and with no other breakpoints than theirs. From 0 to infinity its slope
ends at +1, so a least value exists, and a convex piecewise linear function has one at 0 or at a breakpoint: at the
first where the slope is no longer negative. One sweep over the sorted breakpoints finds it. The cost stays
convex under a limit, so the best commitment within the limit is the smaller of the two.
"""

from collections.abc import Sequence
from dataclasses import dataclass

_NO_SLOPE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUsage:
    """One kind of node: its on-demand price and plan rate in dollars an hour, and how many ran in each hour."""

    price: float
    rate: float
    nodes: tuple[float, ...]

    @property
    def saving(self) -> float:
        return 1 - self.rate / self.price


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitmentOutcome:
    """Result of a commitment on a usage, in mean dollars an hour."""

    commitment: float
    usd: float  # in total: the commitment and the usage that it does not cover
    used: float  # of the commitment
    covered: float  # at on-demand prices
    on_demand: float  # everything at on-demand prices, covered or not

    @property
    def utilisation(self) -> float:
        return self.used / self.commitment if self.commitment else 1.0

    @property
    def coverage(self) -> float:
        return self.covered / self.on_demand if self.on_demand else 0.0

    @property
    def saved(self) -> float:
        """Share of the on-demand dollars; below 0 the commitment costs more than it saves."""
        return 1 - self.usd / self.on_demand if self.on_demand else 0.0


def in_order(lines: Sequence[NodeUsage]) -> list[NodeUsage]:
    """Return the lines in the order of coverage, without those that no plan makes cheaper."""
    return sorted((line for line in lines if line.rate < line.price), key=lambda line: -line.saving)


def outcome(lines: Sequence[NodeUsage], commitment: float, load: float = 1.0) -> CommitmentOutcome:
    """Apply the commitment to these lines, all of them eligible, with `load` times their nodes."""
    hours = len(lines[0].nodes) if lines else 1
    ordered = in_order(lines)
    used = covered = 0.0
    for hour in range(hours):
        unused = commitment
        for line in ordered:
            applied = min(unused, load * line.nodes[hour] * line.rate)
            unused -= applied
            covered += applied / line.rate * line.price
        used += commitment - unused
    on_demand = load * sum(line.price * sum(line.nodes) for line in lines) / hours
    return CommitmentOutcome(
        commitment=commitment,
        usd=commitment + on_demand - covered / hours,
        used=used / hours,
        covered=covered / hours,
        on_demand=on_demand,
    )


def best_commitment(lines: Sequence[NodeUsage]) -> float:
    """Return the smallest commitment of least cost (the proof is in the module's docstring)."""
    ordered = in_order(lines)
    hours = len(lines[0].nodes) if lines else 0
    slope = float(hours)
    steps: dict[float, float] = {}
    for hour in range(hours):
        total = 0.0
        for line in ordered:
            if not line.nodes[hour]:
                continue
            worth = line.price / line.rate
            # the slope falls where the line begins to be covered, and rises again where it is used up
            if total:
                steps[total] = steps.get(total, 0.0) - worth
            else:
                slope -= worth
            total += line.nodes[hour] * line.rate
            steps[total] = steps.get(total, 0.0) + worth
    best = 0.0
    for step in sorted(steps):
        if slope >= -_NO_SLOPE * hours:
            break
        slope += steps[step]
        best = step
    return best


def floor_commitment(lines: Sequence[NodeUsage]) -> float:
    """Return the largest commitment that every hour uses up: the least usage of any hour, at plan rates."""
    ordered = in_order(lines)
    if not ordered:
        return 0.0
    return min(sum(line.rate * nodes for line, nodes in zip(ordered, hour, strict=True)) for hour in _by_hour(ordered))


def break_even_load(lines: Sequence[NodeUsage], commitment: float) -> float:
    """Return the share of the load below which the commitment costs more than it saves; 0 without a commitment.

    The gain never falls as the load grows (more usage is covered, never less), so bisection finds it.
    """
    if not commitment:
        return 0.0
    low, high = 0.0, 1.0
    while outcome(lines, commitment, high).saved < 0 and high < 1e6:
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if outcome(lines, commitment, middle).saved >= 0 else (middle, high)
    return high


def regret(lines: Sequence[NodeUsage], commitment: float, load: float) -> float:
    """Return the dollars an hour that this costs more than the best commitment, if the load is multiplied by `load`."""
    best = best_commitment(lines) * load  # all breakpoints move with the load
    return max(0.0, outcome(lines, commitment, load).usd - outcome(lines, best, load).usd)


def _by_hour(lines: Sequence[NodeUsage]) -> list[tuple[float, ...]]:
    return list(zip(*(line.nodes for line in lines), strict=True))
