"""Machine failures of a replay: the options of its user, and their rates for the modelled cluster.

Nothing fails unless requested, so savings with and without failures can be compared. AWS publishes interruptions of
spot nodes as a band, the share of a type's instances that were interrupted within the last month. The middle of the
band is taken as the chance that a node is interrupted within a month; as a constant rate r per hour that is
1 - exp(-r * HOURS_PER_MONTH).

Source of the bands: the Spot Instance Advisor, as shipped in `ebbtide/prices/data/spot_typical.csv`.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields

from ebbtide.lab.simulator.cluster.accidents import NOTICE_S
from ebbtide.lab.simulator.cluster.capacity import SpotCapacity
from ebbtide.lab.simulator.cluster.model import Accidents
from ebbtide.prices import interruption_band
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.shapes_of_group import managed_parts, types_of_nodes
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.node_groups import shape_name
from ebbtide.text.money import HOURS_PER_MONTH

OPEN_BAND = 0.25
"""The share of the open band above 20 %, and of a type without a band."""
SHARE_OF_BAND = {"<5%": 0.025, "5-10%": 0.075, "10-15%": 0.125, "15-20%": 0.175, ">20%": OPEN_BAND}


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Raises ValueError for a value outside of its limits."""

    spot_interruptions: float = 0.0  # times the rate of the type's band; 0: spot nodes are never interrupted
    failed_boots: float = 0.0  # the share of launches that never become a node, below 1
    slow_boots: float = 0.0  # standard deviation of a boot time's logarithm; 0.5: one in 20 takes 2.3 times as long
    missed_notices: float = 0.0  # the share of spot interruptions without notice
    image_pull_s: float = 0.0  # the extra start-up time of a workload's first pod on a node

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            below, limit = _LIMITS.get(field.name, (math.inf, ""))
            if not (0 <= value < below):
                raise ValueError(f"{field.name}: wanted a finite number, 0 or more{limit}, found {value!r}")

    @property
    def any(self) -> bool:
        return self != Failures()


_LIMITS = {
    "failed_boots": (1.0, ", below 1"),
    "slow_boots": (3.0, ", below 3"),
    "missed_notices": (math.nextafter(1.0, 2.0), ", at most 1"),
}


def accidents_of(failures: Failures, settings: StackSettings, capacity: SpotCapacity | None = None) -> Accidents | None:
    """The failures of the modelled cluster; None if nothing fails. `capacity` None: it is always there."""
    if not failures.any and capacity is None:
        return None
    return Accidents(
        failed_boots=failures.failed_boots,
        slow_boots=failures.slow_boots,
        image_pull_s=failures.image_pull_s,
        missed_notices=failures.missed_notices,
        interruptions_per_hour={
            name: failures.spot_interruptions * rate_per_hour(interruption_band(settings.region, kind))
            for name, kind in spot_types(settings).items()
        },
        capacity=capacity,
    )


def rate_per_hour(band: str | None) -> float:
    """Interruptions of one node in an hour."""
    return -math.log(1 - SHARE_OF_BAND.get(band or "", OPEN_BAND)) / HOURS_PER_MONTH


def failure_assumptions(failures: Failures, settings: StackSettings, *, timed: bool = False) -> Iterator[str]:
    """The assumptions of a replay with these failures. `timed`: a file may name instants of interruptions."""
    spot = list(_spot_groups(settings))
    if failures.spot_interruptions and not spot:
        yield "Spot interruptions were requested, but no node group of the stack is of kind spot: none took place."
    if spot and not failures.spot_interruptions:
        never = "interrupted only at the instants of --spot-capacity" if timed else "never interrupted"
        yield f"Spot nodes are {never}; --spot-interruptions 1 interrupts them at the rate that AWS publishes."
    for name, kind in spot if failures.spot_interruptions else ():
        band = interruption_band(settings.region, kind)
        hours = 1 / (failures.spot_interruptions * rate_per_hour(band))
        share = SHARE_OF_BAND.get(band or "", OPEN_BAND)
        yield (
            f"A node of {name} is interrupted after {hours:,.0f} hours on average: {failures.spot_interruptions:g} "
            f"times the rate at which {share:.1%} of {kind} would be interrupted within "
            f"a month (band: {band or 'unknown'}); its pods get {NOTICE_S:g} s notice if their budget lets them go."
        )
    if spot and failures.spot_interruptions and failures.missed_notices:
        yield f"{failures.missed_notices:.0%} of the interruptions come without notice, at once."
    if failures.failed_boots:
        yield (
            f"{failures.failed_boots:.1%} of launches never become a node: they are billed and given up after 15 "
            "minutes, and their group backs off as the cluster autoscaler's groups do."
        )
    if failures.slow_boots:
        yield (
            "Boot times are log-normal around their median, with a standard deviation of the logarithm of "
            f"{failures.slow_boots:g}: one in 20 takes {math.exp(1.645 * failures.slow_boots):.2g} times as long."
        )
    if failures.image_pull_s:
        yield f"The first pod of a workload on a node starts {failures.image_pull_s:g} s later: it pulls its image."
    if failures.any:
        yield "The constant fleets and the bound are calculated without failures."


def spot_types(settings: StackSettings) -> dict[str, str]:
    """Return the instance type of each spot group, as the modelled cluster names the groups, with each provisioner."""
    types: dict[str, str] = {}
    for name, group in settings.node_groups.items():
        if group.kind is NodeKind.SPOT:
            types |= {part: managed.types[0].name for part, managed in managed_parts(name, group).items()}
            if group.by_karpenter or group.has_fallback:  # the strategy karpenter moves groups with a fallback
                types |= {shape_name(name, kind): kind.name for kind in group.types}
    return dict(sorted(types.items()))


def _spot_groups(settings: StackSettings) -> Iterator[tuple[str, str]]:
    spot = {name: group for name, group in sorted(settings.node_groups.items()) if group.kind is NodeKind.SPOT}
    types = types_of_nodes(settings.model_copy(update={"node_groups": spot}))
    yield from ((name, kind.name) for name, kind in types.items())
