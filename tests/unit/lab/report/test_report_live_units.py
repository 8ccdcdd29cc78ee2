"""The units and times of the values that `ebbtide report live` reads."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast
from zoneinfo import ZoneInfo

from ebbtide.lab.report.live.reading import read_record
from ebbtide.lab.report.live.record import Band
from ebbtide.monitoring.client import Course, Prometheus, Series
from tests.builders.settings import loaded, shortest

UNTIL = datetime(2026, 3, 2, 12, tzinfo=ZoneInfo("Europe/Berlin"))
GIB = 2.0**30


class OneValue:
    """A Prometheus that has the value of 3 GiB in bytes for every series."""

    where = "Prometheus"

    def over(self, _expression: str, since: datetime, *_: object) -> Course:
        return (Series(labels={}, points=((since.timestamp(), 3 * GIB),)),)


def test_cpu_is_read_in_cores_and_memory_in_gibibytes(tmp_path: Path) -> None:
    record = read_record(
        cast("Prometheus", OneValue()), loaded(shortest(), tmp_path), timedelta(minutes=2), until=UNTIL
    )

    for resource, value in ((record.cpu, 3 * GIB), (record.memory, 3)):
        for part in (resource.paid, resource.requested, resource.used):
            assert isinstance(part, Band)
            assert part.total == (value,)


def test_the_last_day_has_24_hours_when_the_clock_changes(tmp_path: Path) -> None:
    noon = datetime(2026, 10, 25, 12, tzinfo=UNTIL.tzinfo)

    record = read_record(cast("Prometheus", OneValue()), loaded(shortest(), tmp_path), timedelta(hours=24), noon)

    assert record.start == datetime(2026, 10, 24, 11, tzinfo=UTC)
    assert isinstance(record.nodes, Band)
    assert record.nodes.recorded == (True,) + (False,) * 719
