"""Memory and time for an export of ten million jobs, of which a span is read: CSV and Parquet."""

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measure import Figures, fresh_process, spread

ROWS, DAYS, BLOCK = 10_000_000, 100, 100_000
HEADER = ("id", "created_at", "started_at", "finished_at", "queue", "cpus", "memory", "gpus")
READ = """
from datetime import datetime
from pathlib import Path
from ebbtide.lab.simulator.trace.traces import Reading, find_trace
trace = find_trace(Path({path!r}), Reading(since=datetime.fromisoformat("2026-02-01"), days={days}))
assert len(trace.jobs) > 90_000 * {days}
"""
RUNS = 2


def measured() -> dict[str, Figures]:
    figures: dict[str, Figures] = {}
    with TemporaryDirectory() as folder:
        for path in (_csv(Path(folder)), _parquet(Path(folder))):
            seconds, peaks = fresh_process(READ.format(path=str(path), days=5), RUNS)
            figures[f"trace.{path.suffix[1:]}.cpu_s"] = spread(seconds, 1)
            figures[f"trace.{path.suffix[1:]}.peak_mib"] = spread(peaks, 0)
            path.unlink()
    return figures


def _rows() -> Iterator[list[tuple[str, ...]]]:
    """Yield blocks of jobs in the order of submission, a hundred thousand a day."""
    per_day = ROWS // DAYS
    for block in range(ROWS // BLOCK):
        rows: list[tuple[str, ...]] = []
        for at in range(block * BLOCK, (block + 1) * BLOCK):
            day, second = at // per_day, at % per_day * 86_400 // per_day
            date = f"2026-{1 + day // 28:02}-{1 + day % 28:02}T"
            clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
            queue = ("train", "prep", "score")[at % 3]
            times = (f"{date}{clock}.{at % 1000:03}Z", f"{date}{clock}.999Z", f"{date}23:59:59.999Z")
            rows.append((str(at), *times, queue, str(1 + at % 8), f"{4 + at % 60}Gi", str(at % 2)))
        yield rows


def _csv(folder: Path) -> Path:
    path = folder / "jobs.csv"
    with path.open("w") as file:
        for rows in (iter([[HEADER]]), _rows()):
            file.writelines(",".join(row) + "\n" for block in rows for row in block)
    return path


def _parquet(folder: Path) -> Path:
    pa: Any = import_module("pyarrow")
    writer: Any = None
    path = folder / "jobs.parquet"
    for rows in _rows():
        table = pa.table(dict(zip(HEADER, zip(*rows, strict=True), strict=True)))
        writer = writer or import_module("pyarrow.parquet").ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()
    return path


if __name__ == "__main__":
    print(measured(), file=sys.stdout)
