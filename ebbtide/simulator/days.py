"""A replay's days: local midnights for the bill, open spans for the picture."""

from datetime import UTC, datetime, timedelta

from ebbtide.vocabulary.windows import BusinessHours, wall_to_instant

DAY_S = 86_400.0


def day_ends(start: datetime, timezone: str, end_s: float) -> tuple[float, ...]:
    """Seconds from `start` at which a local calendar day, or the replay, ends: one per day touched, increasing."""
    begin = start.astimezone(UTC)
    ends: list[float] = []
    day = start.date()
    while not ends or ends[-1] < end_s:
        day += timedelta(days=1)
        midnight = (wall_to_instant(timezone, day, 0, last=False) - begin).total_seconds()
        if midnight > 0:
            ends.append(min(midnight, end_s))
    return tuple(ends)


def open_spans(hours: BusinessHours, start: datetime, end_s: float) -> tuple[tuple[float, float], ...]:
    """Business hours in seconds from `start`, clipped to the replay."""
    begin = start.astimezone(UTC)
    spans = hours.open_spans(begin, begin + timedelta(seconds=end_s))
    return tuple(
        (max(0.0, (span.start - begin).total_seconds()), min(end_s, (span.end - begin).total_seconds()))
        for span in spans
    )
