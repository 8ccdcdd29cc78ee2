"""The golden files by path, and how each is made.

All are made as on one day of 2026: which holidays a stack lists follows from the year.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Self
from unittest.mock import patch

from tests.golden.estimates import CHANGES, JOBS, REQUESTS, change_document, jobs_document, requests_document
from tests.golden.stacks import SEEDS, WHOLE, stack_lines, whole_stack
from tests.golden.words import words


class _Then(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return cls(2026, 11, 20, 12, tzinfo=tz or UTC)


def made(name: str) -> str:
    """The content of a golden file as the code makes it."""
    with patch("ebbtide.settings.sections.calendars.datetime", _Then):
        return {**QUICK, **SLOW}[name]()


QUICK: Mapping[str, Callable[[], str]] = {
    "words.txt": words,
    **{f"stacks/{name}.txt": partial(whole_stack, name) for name in WHOLE},
}
SLOW: Mapping[str, Callable[[], str]] = {
    **{f"generated/{seed:02}.txt": partial(stack_lines, seed) for seed in SEEDS},
    **{f"simulate/{trace}.json": partial(jobs_document, trace) for trace in JOBS},
    **{f"simulate/{trace}.json": partial(requests_document, trace) for trace in REQUESTS},
    **{f"preview/{name}.json": partial(change_document, name) for name in CHANGES},
}
