"""Records as JSON values."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import NamedTuple

from ebbtide.text.records import plain_values


class Size(StrEnum):
    SMALL = "small"


class Hold(NamedTuple):
    why: str
    until: date | None


@dataclass(frozen=True)
class Pool:
    name: str
    holds: tuple[Hold, ...]
    workers: dict[Size, int]
    read: datetime


def test_records_inside_records_become_mappings_lists_and_text() -> None:
    pool = Pool(
        "train", (Hold("night", date(2026, 3, 2)), Hold("", None)), {Size.SMALL: 2}, datetime(2026, 3, 2, 9, tzinfo=UTC)
    )

    assert plain_values([pool, ("a", 1.5)]) == [
        {
            "name": "train",
            "holds": [{"why": "night", "until": "2026-03-02"}, {"why": "", "until": None}],
            "workers": {"small": 2},
            "read": "2026-03-02T09:00:00+00:00",
        },
        ["a", 1.5],
    ]
