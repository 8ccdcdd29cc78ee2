"""Which evening is shown, and what hour of the customer's day an instant is. Pure.

The evening is the next one whose night ends within the show: with holidays and weekends that need not be today's.
Without any closing time it starts at 18:00, and what then happens is what happens all week.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import StrEnum

from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.windows import BusinessHours, wall_to_instant

BEFORE_CLOSING = timedelta(hours=1)
_DAYS = 14  # looked through for an evening
_SIX_O_CLOCK = 18 * 60
_WAKING = timedelta(hours=2)  # after closing in which a few jobs still come


class Phase(StrEnum):
    BUSINESS = "business hours"
    NIGHT = "night"
    GUARD = "closing guard"


def phase_at(config: ControllerConfig, now: datetime) -> Phase:
    if config.hours.is_open(now):
        return Phase.BUSINESS
    return Phase.NIGHT if config.window.is_open(now) else Phase.GUARD


def start_of_show(hours: BusinessHours, now: datetime, lasting: timedelta, start: int | None) -> datetime:
    """`start` in minutes of local wall time, or `BEFORE_CLOSING`; on an evening that is followed by a morning."""
    closing = next(_closings(hours, now, lasting), None)
    if closing is None:
        return _at(hours, now, _SIX_O_CLOCK if start is None else start)
    return closing - BEFORE_CLOSING if start is None else _at(hours, closing, start)


def _closings(hours: BusinessHours, now: datetime, lasting: timedelta) -> Iterator[datetime]:
    """First those whose night ends within the show, then any."""
    end = now + timedelta(days=_DAYS)
    closings = [span.end for span in hours.open_spans(now, end) if now + BEFORE_CLOSING <= span.end < end]
    for closing in closings:
        opening = hours.next_opening(closing)
        if opening is not None and opening - closing + BEFORE_CLOSING < lasting:
            yield closing
    yield from closings


def _at(hours: BusinessHours, day: datetime, minutes: int) -> datetime:
    return wall_to_instant(hours.timezone, hours.local(day).date(), minutes, last=False)


def is_evening(hours: BusinessHours, now: datetime) -> bool:
    """The first hours after closing."""
    return not hours.is_open(now) and hours.is_open(now - _WAKING)


def title_of(config: ControllerConfig, now: datetime) -> str:
    """What holds now and until when: `night: flexible budgets are open until 07:45`."""
    hours, phase = config.hours, phase_at(config, now)
    if phase is Phase.GUARD:
        return f"closing guard: budgets are closed, opening {_clock(hours, hours.next_opening(now))}"
    if phase is Phase.BUSINESS:
        return f"business hours until {_clock(hours, hours.next_change(now))}: flexible budgets are closed"
    return f"night: flexible budgets are open until {_clock(hours, config.window.next_change(now))}"


def _clock(hours: BusinessHours, instant: datetime | None) -> str:
    return "never" if instant is None else f"{hours.local(instant):%H:%M}"
