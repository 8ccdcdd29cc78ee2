"""Stacks that differ in their nights, and what is said of them."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from ebbtide.preview.document import ComingNights
from ebbtide.preview.nights.coming import coming_nights
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.business_hours import BusinessHoursSettings
from ebbtide.settings.sections.controller import ControllerSettings
from ebbtide.settings.sections.workers import Morning
from ebbtide.vocabulary.windows import zone_of
from tests.builders.stack import stack_settings

NEW_YORK = "America/New_York"
USUAL: Mapping[str, object] = {"mon-thu": "08:00-19:00", "fri": "08:00-17:00"}


def stack_with(*, guard: timedelta = timedelta(minutes=15), **hours: Any) -> StackSettings:
    """`hours` as in the stack file; New York, with early Fridays, where they say nothing else."""
    section = BusinessHoursSettings.model_validate({"timezone": NEW_YORK, "week": USUAL, **hours})
    return stack_settings(business_hours=section, controller=ControllerSettings(closing_guard=guard))


def with_morning(stack: StackSettings, workers: int) -> StackSettings:
    """Half an hour of them."""
    morning = Morning.model_validate({"workers": workers, "for": timedelta(minutes=30)})
    return stack.model_copy(
        update={"workers": {"train": stack.workers["train"].model_copy(update={"morning": morning})}}
    )


def at(text: str, timezone: str = NEW_YORK) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone_of(timezone)).astimezone(UTC)


def nights(after: StackSettings, now: str = "2026-11-16T10:00", days: int = 14) -> ComingNights:
    return coming_nights(None, after, at(now), days)


def changes(before: StackSettings, after: StackSettings, now: str = "2026-11-16T10:00") -> list[str]:
    """A Monday, unless said otherwise."""
    return list(coming_nights(before, after, at(now)).changes)
