"""Whether a floor is written now. Pure. Raising takes no knowledge; lowering takes a clock that is believed."""

from dataclasses import dataclass

from controllers.workloads.floors.calendar import FloorNow


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is known of one autoscaler now."""

    pods: int  # that there are at least, as the field says
    most: int  # as the object says itself: an update may be under way
    paused: bool = False
    kept: bool = False  # an operator wants nothing lowered
    doubt: str = ""  # why clock or config are not believed


@dataclass(frozen=True, slots=True)
class FloorDecision:
    """`pods` is what the field should hold."""

    pods: int
    reason: str


def decide_floor(seen: Seen, floor: FloorNow) -> FloorDecision:
    if seen.paused:
        return FloorDecision(seen.pods, "paused")
    pods = min(floor.pods, seen.most)
    if pods < seen.pods and (seen.doubt or seen.kept):
        return FloorDecision(seen.pods, "in-doubt" if seen.doubt else "kept")
    return FloorDecision(pods, floor.reason)
