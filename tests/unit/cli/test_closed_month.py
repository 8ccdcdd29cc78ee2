"""The month that a bill belongs to has ended at the customer's midnight."""

from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import pytest
import typer

from ebbtide.cli import options
from tests.builders.settings import loaded, shortest

# The end of October in Europe/Berlin, after the change to winter time.
END = datetime(2026, 10, 31, 23, tzinfo=UTC)


class At:
    """A clock in place of `datetime`."""

    def __init__(self, instant: datetime) -> None:
        self._instant = instant

    def now(self, zone: tzinfo) -> datetime:
        return self._instant.astimezone(zone)


@pytest.mark.parametrize("after", [timedelta(), timedelta(seconds=1)])
def test_a_month_can_be_recorded_from_its_last_midnight_on(
    after: timedelta, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "datetime", At(END + after))

    month = options.closed_month("2026-10", loaded(shortest(), tmp_path))

    assert (month.name, month.end) == ("2026-10", END)


def test_a_month_is_open_until_its_last_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "datetime", At(END - timedelta(seconds=1)))

    with pytest.raises(typer.Exit):
        options.closed_month("2026-10", loaded(shortest(), tmp_path))
