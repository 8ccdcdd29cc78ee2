"""A replay with a change beside the replay of the month as it was: bounds of the difference. Pure.

A month's rollouts of services are not recorded, and they decide how many nodes are left half empty by day. So each
replay is made without rollouts and with those that `ebbtide simulate` assumes, and the bounds hold all differences:
of both pairs, once in the model's dollars and once as a share of the paid dollars. Each side has the model's error
beside it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ebbtide.lab.ledger.fleets import unknown
from ebbtide.lab.ledger.month import NOISE, Alternative, FleetUsd, Ledger
from ebbtide.lab.ledger.replayed import ReplayedUsd
from ebbtide.text.counts import percent
from ebbtide.text.money import dollar_range, dollars

_MODEL_OFF = 0.35
"""Relative difference between the modelled and the paid dollars from which on a replay proves nothing."""
_OF_DIFFERENCE = 0.1
"""Part of a difference by which a replay may be wrong beside `NOISE`. Source: docs/evidence/ledger.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`as_it_was`: the replays of the month, the one without rollouts first; None without a price. `text`: of them."""

    ledger: Ledger
    as_it_was: Sequence[ReplayedUsd] | None
    text: str
    assumptions: tuple[str, ...]

    def of(self, name: str, change: str, changed: Sequence[ReplayedUsd] | None) -> Alternative:
        """Return the month with the change, whose replays have the same rollouts."""
        ledger, paid = self.ledger, self.ledger.recorded_usd
        if self.as_it_was is None or changed is None:
            return unknown(name, "no price for a group of the stack")
        before, after = self.as_it_was[0], changed[0]
        if before.low - paid >= _MODEL_OFF * paid or paid - before.high >= _MODEL_OFF * paid:
            model = f"the model of {ledger.month.name} costs {dollar_range(*before.bounds)}"
            return unknown(name, f"not enough data: {model}, and {dollars(paid)} were paid")
        pairs = [*zip(self.as_it_was, changed, strict=True)]
        differences = [usd for pair in pairs for usd in _differences(*pair, paid)]
        then, now = dollar_range(*before.bounds), dollar_range(*after.bounds)
        missed = min(max(0.0, usd.low - paid, paid - usd.high) for usd in self.as_it_was)
        low, high = (
            usd + side * _error(usd, paid, missed) for usd, side in ((min(differences), -1), (max(differences), 1))
        )
        errors = f"{percent(NOISE)} of the month and {percent(_OF_DIFFERENCE)} of the difference"
        noise = f"with {errors} for errors of the model"
        if missed > NOISE * paid:
            noise += f", at least the {dollars(missed)} by which it misses the month itself"
        return Alternative(
            name=name,
            low_usd=ledger.low_usd + low,
            high_usd=ledger.high_usd + high,
            variants=tuple(
                FleetUsd(now.listed - then.listed, now.spot_low - then.spot_low, now.spot_high - then.spot_high)
                for then, now in pairs
            ),
            noise_usd=_error(0.0, paid, missed),
            assumptions=(
                "each pool's recorded wanted workers, replayed on the simulated cluster in recorded hours",
                "awake services have the replicas of the stack file; jobs and Ray clusters are not included",
                f"the model costs {now} {change}, and {then} {self.text}",
                *([self._rolled_out(changed, change)] if len(changed) > 1 else []),
                f"the bounds add these differences to the paid dollars, once in dollars and once as a share, {noise}",
                *self.assumptions,
                *(["in gaps the saving is between zero and the difference of their bounds"] if ledger.gaps else []),
            ),
            paired=True,
        )

    def _rolled_out(self, changed: Sequence[ReplayedUsd], change: str) -> str:
        then, now = (self.as_it_was or changed)[-1], changed[-1]
        rollouts = (
            "with a rollout of each flexible service on every working day, since the month's own are not recorded"
        )
        return f"{rollouts}: {dollar_range(*now.bounds)} {change}, and {dollar_range(*then.bounds)}"


def _error(difference: float, paid: float, missed: float) -> float:
    """Return the model's error: at least the dollars by which it misses the month itself, with the nearer rollouts."""
    return max(NOISE * paid + _OF_DIFFERENCE * abs(difference), missed)


def _differences(before: ReplayedUsd, after: ReplayedUsd, paid: float) -> Iterator[float]:
    for then, now in zip(before.bounds, after.bounds, strict=True):
        yield now - then
        yield paid * (now / then - 1)
