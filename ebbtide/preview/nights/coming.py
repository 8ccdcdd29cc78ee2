"""The coming nights: when budgets will be open, what differs from before, and warnings.

The rows come from the controller's own `DisruptionWindow`, so a row and a budget cannot disagree (a property test
compares them minute by minute). Changes use the terms of the stack file, weekdays and dates, since "every window but
two begins 120 minutes earlier" does not help a reviewer.

Pure: the instant is an argument.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from ebbtide.preview.document import ComingNights, WindowRow
from ebbtide.preview.nights.changes import night_changes
from ebbtide.preview.nights.sleep import sleep_lines
from ebbtide.preview.nights.windows import (
    Night,
    clock_note,
    held_during,
    held_notes,
    holiday_notes,
    lasting,
    local_text,
    nights_between,
    open_date_note,
    short_date,
    window_of,
)
from ebbtide.recording.state import StackState
from ebbtide.settings.checks.cautions import holidays_end_text, no_readiness_text
from ebbtide.settings.checks.spot_cautions import workers_without_notice
from ebbtide.settings.model import StackSettings
from ebbtide.vocabulary.labels import Category
from ebbtide.vocabulary.windows import BusinessHours, DisruptionWindow

DAYS_SHOWN = 14

SHORTEST_USEFUL = timedelta(minutes=30)
"""A shorter window removes hardly any node: the autoscaler notices open budgets within a minute, a node must be
unneeded for one (three with GPUs), a group waits three after it grew, and a drain takes up to five per pod, one node
after another. Source of the times: `components.cluster.autoscaler_settings`."""


def coming_nights(
    before: StackSettings | None,
    after: StackSettings,
    now: datetime,
    days: int = DAYS_SHOWN,
    cautions: Iterable[str] = (),
) -> ComingNights:
    """The windows that are open within `days` of `now` (aware), uncut; a new customer has no changes.

    `cautions` are further warnings about evictions, found elsewhere.
    """
    window, end = window_of(after, now), now + timedelta(days=days)
    nights = [*nights_between(window, now, end)]
    return ComingNights(
        rows=tuple(_row(after, window.hours, night) for night in nights),
        changes=() if before is None else tuple(night_changes(before, after, now, days)),
        warnings=(*_warnings(window, nights, now, days), *cautions),
        sleep=tuple(sleep_lines(after, now)),
    )


def eviction_cautions(state: StackState) -> Iterator[str]:
    """Pods that leave sooner, or later, than their budget promises, as `ebbtide check` warns too.

    Read from the resources, since a transformation may have added or removed a probe.
    """
    flexible = [pods for pods in state.pods if pods.category is Category.FLEXIBLE and pods.lasting]
    silent = {pods.name for pods in flexible if not pods.has_probe}
    if silent:
        yield no_readiness_text(sorted(silent))
    yield from map(str, workers_without_notice(state.settings))


def _row(settings: StackSettings, hours: BusinessHours, night: Night) -> WindowRow:
    notes = [
        clock_note(hours, night),
        *holiday_notes(settings, hours, night),
        open_date_note(hours, night),
        *held_notes(hours, held_during(settings, hours, night)),
        "" if night.reopens else "no opening follows: the window stays open",
    ]
    return WindowRow(
        opens=night.opens,
        closes=night.closes,
        local=local_text(hours, night),
        note="; ".join(note for note in notes if note),
    )


def _warnings(window: DisruptionWindow, nights: Sequence[Night], now: datetime, days: int) -> Iterator[str]:
    hours = window.hours
    if not nights:
        yield f"no window within {days} days: budgets never open, and flexible nodes stay"
    short = [night for night in nights if night.closes - night.opens < SHORTEST_USEFUL and night.reopens]
    if short:
        named = ", ".join(_named(hours, night) for night in short[:3])
        more = f" and {len(short) - 3} more" if len(short) > 3 else ""
        shortest = lasting(SHORTEST_USEFUL)
        yield f"a window too short for the autoscaler, which needs about {shortest} to remove a node: {named}{more}"
    if text := holidays_end_text(hours, hours.local(now).date()):
        yield text


def _named(hours: BusinessHours, night: Night) -> str:
    begin = hours.local(night.opens)
    return f"{short_date(begin)} {begin:%H:%M} ({lasting(night.closes - night.opens)})"
