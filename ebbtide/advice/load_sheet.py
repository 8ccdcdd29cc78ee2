"""What a load of requests is like, as a table of a page: how predictable, how bursty."""

from ebbtide.advice.describe_requests import RequestDescription, RequestLoad
from ebbtide.report.pages.sheets import Sheet, SheetRow
from ebbtide.report.words import DASH, percent


def load_sheet(found: RequestDescription) -> Sheet:
    return Sheet(
        caption="Peak and jump: the busiest window, and the largest growth from one to the next, in means. Day and "
        "week: correlation with the day and the week before. Spread: the coefficient of variation of the times between "
        "requests; independent ones have 1.",
        over="queue",
        columns=["verdict", "peak", "jump", "day", "week", "spread", "windows without a request"],
        rows=[SheetRow(load.queue, _cells(load)) for load in found.loads],
    )


def _cells(its: RequestLoad) -> list[str]:
    alike = (its.like_the_day_before, its.like_the_week_before)
    return [
        its.verdict,
        f"{its.peak_to_mean:.1f}",
        f"{its.jump:.1f}",
        *(DASH if value is None else f"{value:.2f}" for value in alike),
        f"{its.between:.1f}",
        percent(its.idle),
    ]
