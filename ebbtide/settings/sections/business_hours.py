"""When the customer's people work, and what is planned for the night."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field

from ebbtide.settings.file.wanted import wanted
from ebbtide.settings.sections.calendars import (
    check_country,
    check_subdivision,
    coming_years,
    holiday_list,
    parse_timezone,
)
from ebbtide.settings.sections.checked import Check, Settings
from ebbtide.settings.sections.types import ClockText, DateText, Positive, PositiveDuration, WeekText
from ebbtide.vocabulary.windows import BusinessHours


def _each_date_once(closed: Sequence[date], opened: Sequence[date]) -> None:
    both = sorted(set(closed) & set(opened))
    if both:
        raise wanted("holiday.open-and-closed", "each date as closed or as open", found=f"{both[0]} in both", at="open")


class Holidays(Settings):
    """Days that differ from their weekday."""

    checks: ClassVar[tuple[Check, ...]] = (
        Check(("country", "subdivision"), check_subdivision),
        Check(("closed", "open"), _each_date_once),
    )

    country: Annotated[str, AfterValidator(check_country)] | None = Field(
        default=None, description="ISO 3166 code; its public holidays are closed", examples=["US"]
    )
    subdivision: str | None = Field(
        default=None, description="state or province, for its own holidays too", examples=["NY"]
    )
    closed: tuple[DateText, ...] = Field(
        default=(), description="closed besides the public holidays", examples=['["2026-12-24"]']
    )
    open: tuple[DateText, ...] = Field(
        default=(), description="public holidays on which people work", examples=['["2026-10-12"]']
    )


def within_a_day(lasting: timedelta) -> timedelta:
    if lasting > timedelta(hours=24):
        raise wanted("duration.more-than-a-day", "at most 24h, since it starts again every day", example="2h")
    return lasting


class Overnight(Settings):
    """Planned night work: capacity is there in time."""

    pool: str = Field(description="the worker pool", examples=["train"])
    at: ClockText = Field(description="local time at which the workers are wanted, every day", examples=['"02:00"'])
    for_: Annotated[PositiveDuration, AfterValidator(within_a_day)] = Field(
        alias="for", description="how long they stay at least", examples=["2h"]
    )
    workers: Positive = Field(description="workers, at most the pool's max", examples=["6"])

    @property
    def minutes(self) -> int:
        """`at` in minutes from local midnight."""
        hours, minutes = self.at.split(":")
        return int(hours) * 60 + int(minutes)


class BusinessHoursSettings(Settings):
    """When people work. Outside these hours flexible workloads may be moved."""

    timezone: Annotated[str, BeforeValidator(parse_timezone)] = Field(
        description="IANA name", examples=["America/New_York"]
    )
    week: WeekText = Field(
        description="intervals of local time by day; a day that is not named is closed",
        examples=['{ mon-thu: "08:00-19:00", fri: "08:00-17:00" }'],
    )
    holidays: Holidays = Field(default=Holidays(), description="days that differ from their weekday")
    overnight: tuple[Overnight, ...] = Field(default=(), description="planned night work")

    def hours(self, years: Sequence[int] | None = None) -> BusinessHours:
        """The hours with holidays resolved for `years`; by default this year and the next two."""
        calendar = self.holidays
        closed = frozenset(calendar.closed)
        if calendar.country is None:
            return BusinessHours(timezone=self.timezone, week=self.week, closed_dates=closed - set(calendar.open))
        listed = holiday_list(calendar.country, calendar.subdivision, tuple(years or coming_years()))
        return BusinessHours(
            timezone=self.timezone,
            week=self.week,
            closed_dates=(listed.dates | closed) - set(calendar.open),
            holidays_known_until=listed.known_until,
        )
