"""The section of business hours, and work planned for the night."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Annotated, Any, ClassVar, cast

from pydantic import AfterValidator, BeforeValidator, Field, GetJsonSchemaHandler, TypeAdapter, model_validator
from pydantic_core import CoreSchema

from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.calendars import (
    NO_CALENDAR,
    check_country,
    check_subdivision,
    coming_years,
    holiday_list,
    parse_timezone,
)
from ebbtide.settings.sections.checked import Check, Settings
from ebbtide.settings.sections.types import ClockText, DateText, IntervalsText, Positive, PositiveDuration, WeekText
from ebbtide.vocabulary.windows import BusinessHours, DatedInterval


class OpenDate(Settings):
    """A working day."""

    date: DateText = Field(description="the date; short form: only the date", examples=['"2026-12-12"'])
    hours: IntervalsText | None = Field(
        default=None,
        description="hours of this date; default: those of its weekday, or, on a closed weekday, from the "
        "week's earliest opening to its latest closing",
        examples=['"08:00-14:00"'],
    )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [_DATE.json_schema(), handler(schema)]}

    @model_validator(mode="before")
    @classmethod
    def _date_alone(cls, value: Any) -> Any:
        """Parse a plain date here, so that its fault is located at the entry and not at a key that the file does not
        have.
        """
        complete = isinstance(value, Mapping | OpenDate)
        return cast("object", value) if complete else {"date": _DATE.validate_python(value)}


_DATE: TypeAdapter[date] = TypeAdapter(DateText)


def _each_date_once(closed: Sequence[date], opened: Sequence[OpenDate]) -> None:
    both = sorted(set(closed) & {entry.date for entry in opened})
    if both:
        raise wanted("holiday.open-and-closed", "each date as closed or as open", found=f"{both[0]} in both", at="open")
    dates = [entry.date for entry in dict.fromkeys(opened)]
    twice = next((day for day in dates if dates.count(day) > 1), None)
    if twice is not None:
        expected = f"{twice} with different hours"
        example = '{ date: "2026-12-12", hours: "08:00-12:00, 13:00-17:00" }'
        raise wanted("holiday.open-twice", "each date once", found=expected, example=example, at="open")


class Holidays(Settings):
    """Days with other hours than their weekday."""

    checks: ClassVar[tuple[Check, ...]] = (
        Check(("country", "subdivision"), check_subdivision),
        Check(("closed", "open"), _each_date_once),
    )

    country: Annotated[str, AfterValidator(check_country)] | None = Field(
        default=None,
        description="ISO 3166 country code; public holidays are closed, working weekends are open",
        examples=["US"],
    )
    subdivision: str | None = Field(
        default=None, description="state or province, to include its holidays", examples=["NY"]
    )
    closed: tuple[DateText, ...] = Field(default=(), description="additional closed dates", examples=['["2026-12-24"]'])
    open: tuple[OpenDate, ...] = Field(
        default=(),
        description="working days among holidays and closed weekdays: dates, or dates with hours",
        examples=['["2026-10-12", { date: "2026-12-12", hours: "08:00-14:00" }]'],
    )


def within_a_day(lasting: timedelta) -> timedelta:
    if lasting > timedelta(hours=24):
        raise wanted("duration.more-than-a-day", "at most 24h, since it starts again every day", example="2h")
    return lasting


class NightAwake(Settings):
    """Work at a fixed time of each day: the pods are ready before it begins."""

    at: ClockText = Field(description="local time at which the pods must be ready, every day", examples=['"02:00"'])
    for_: Annotated[PositiveDuration, AfterValidator(within_a_day)] = Field(
        alias="for", description="minimum time that they stay", examples=["2h"]
    )

    @property
    def minutes(self) -> int:
        """Return `at` in minutes from local midnight."""
        hours, minutes = self.at.split(":")
        return int(hours) * 60 + int(minutes)


class Overnight(NightAwake):
    """Planned night work of a worker pool."""

    pool: str = Field(description="the worker pool", examples=["train"])
    workers: Positive = Field(description="number of workers, at most the pool's max", examples=["6"])


class BusinessHoursSettings(Settings):
    """Business hours. Outside these hours flexible workloads may be evicted."""

    timezone: Annotated[str, BeforeValidator(parse_timezone)] = Field(
        description="IANA time zone", examples=["America/New_York"]
    )
    week: WeekText = Field(
        description="intervals of local time by day; a missing day is closed",
        examples=['{ mon-thu: "08:00-19:00", fri: "08:00-17:00" }'],
    )
    holidays: Holidays = Field(default=Holidays(), description="days with other hours than their weekday")
    overnight: tuple[Overnight, ...] = Field(default=(), description="planned night work")

    def hours(self, years: Sequence[int] | None = None) -> BusinessHours:
        """Return the hours with holidays resolved for `years`; by default this year and the next two."""
        calendar = self.holidays
        closed = frozenset(calendar.closed)
        listed = NO_CALENDAR
        if calendar.country is not None:
            listed = holiday_list(calendar.country, calendar.subdivision, tuple(years or coming_years()))
        opened = dict.fromkeys(listed.working_weekends - closed) | {entry.date: entry.hours for entry in calendar.open}
        return BusinessHours(
            timezone=self.timezone,
            week=self.week,
            closed_dates=(listed.dates | closed) - set(opened),
            open_dates=frozenset(self._dated(opened)),
            holidays_known_until=listed.known_until,
        )

    def _dated(self, opened: Mapping[date, Sequence[tuple[int, int]] | None]) -> Iterator[DatedInterval]:
        """Yield the intervals of dates with their own hours, and of dates whose weekday has none."""
        works = {interval.weekday for interval in self.week}
        for day, intervals in opened.items():
            if intervals is None and works and day.weekday() not in works:
                yield DatedInterval(
                    day, min(interval.start for interval in self.week), max(interval.end for interval in self.week)
                )
            for start, end in intervals or ():
                yield DatedInterval(day, start, end)
