"""A made-up day of a stack, as samples that its recording rules would have left, in blocks of a real Prometheus."""

import math
import shutil
import subprocess
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from ebbtide.monitoring.recorded import Recorded

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="no promtool on PATH (Debian's package prometheus)")
GIB = 2**30
_CORES, _MEMORY, _DOLLARS = 16, 64 * GIB, 0.8
_GPUS = 4  # of each node of the group gpu
_SEEN = 'ebbtide_exporter_sees{what="pods"}'


@dataclass(frozen=True, kw_only=True)
class Day:
    """Up to `until`, a sample each minute. `holes` are hours from the start in which nothing was recorded."""

    until: datetime
    hours: int = 24
    left_out: Collection[str] = ()
    holes: Sequence[tuple[float, float]] = ()

    def instants(self) -> Iterator[tuple[datetime, float]]:
        """With the hour of the day."""
        for minute in range(self.hours * 60 + 1):
            if not any(begin <= minute / 60 < end for begin, end in self.holes):
                at = self.until - timedelta(hours=self.hours) + timedelta(minutes=minute)
                yield at, at.hour + at.minute / 60

    def samples(self) -> Iterator[tuple[str, datetime, float]]:
        for at, hour in self.instants():
            for series, value in _of(hour):
                if not series.startswith(tuple(self.left_out) or ("-",)):
                    yield series, at, value

    def write(self, folder: Path) -> None:
        """As blocks in `folder`/data."""
        assert PROMTOOL is not None
        lines: dict[str, dict[str, list[str]]] = {}
        for series, at, value in self.samples():
            name, _, labels = series.partition("{")
            text = f'{name}{{customer="acme"{"," if labels else ""}{labels or "}"} {value!r} {at.timestamp():.0f}\n'
            lines.setdefault(name, {}).setdefault(series, []).append(text)
        text = ""
        for name, found in lines.items():  # each series whole, in the order of time: what comes too late is dropped
            text += f"# TYPE {name} gauge\n" + "".join("".join(samples) for samples in found.values())
        (folder / "day.txt").write_text(f"{text}# EOF\n", encoding="utf-8")
        command = [PROMTOOL, "tsdb", "create-blocks-from", "openmetrics", "day.txt", "data"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)


def swing(hour: float) -> float:
    """0 at night, 1 in the middle of the day."""
    return max(0.0, math.sin((hour - 7) / 12 * math.pi))


def nodes_at(hour: float) -> dict[str, int]:
    """By group; one without nodes has no series."""
    flexible, gpu = round(1 + 7 * swing(hour)), round(2 * swing(hour))
    return {name: count for name, count in {"fixed": 3, "flexible": flexible, "gpu": gpu}.items() if count}


def _of(hour: float) -> Iterator[tuple[str, float]]:
    busy = swing(hour)
    for group, count in nodes_at(hour).items():
        yield f'{Recorded.NODES}{{group="{group}"}}', count
        yield f'{Recorded.PAID_CPU}{{group="{group}"}}', count * _CORES
        yield f'{Recorded.PAID_MEMORY}{{group="{group}"}}', count * _MEMORY
        yield f'{Recorded.DOLLARS}{{group="{group}"}}', count * _DOLLARS
        if group == "gpu":
            yield f'{Recorded.PAID_GPUS}{{group="{group}"}}', count * _GPUS
    yield from _requests(hour)
    waiting, running = (round(30 * busy * (1 + math.sin(hour * 5)) / 2), round(40 * busy))
    yield f'{Recorded.JOBS}{{part="waiting"}}', waiting
    yield f'{Recorded.JOBS}{{part="running"}}', running
    yield 'ebbtide_pool_jobs{part="waiting",pool="train"}', waiting
    yield Recorded.WORKERS_RUNNING, running
    yield Recorded.WORKERS_WANTED, running + min(waiting, 6)
    if waiting:
        yield f'{Recorded.WAITS}{{pool="train"}}', 60 + 40 * waiting
    yield 'ebbtide_budget_max_unavailable{budget="api"}', 0 if 8 <= hour < 18 else 1
    if not 8 <= hour < 18:
        yield f'{Recorded.BUDGETS_OPEN}{{reason="disruption-window-open"}}', 2
    yield _SEEN, 1
    if 19 <= hour < 21:
        yield f'{Recorded.EVICTIONS}{{workload="api"}}', 3
    yield f'{Recorded.UNREMOVABLE}{{reason="NotEnoughPdb"}}', round(2 * busy)
    yield f'{Recorded.UNREMOVABLE}{{reason="MinimalResourceLimitExceeded"}}', 1


def _requests(hour: float) -> Iterator[tuple[str, float]]:
    groups = nodes_at(hour)
    shares = {
        ("fixed", "fixed", "hub"): 0.5,
        ("flexible", "flexible", "api"): 0.3,
        ("flexible", "worker", "train"): 0.5,
    }
    for (group, category, workload), share in {**shares, ("fixed", "", ""): 0.1}.items():
        labels = f'{{group="{group}",category="{category}",workload="{workload}"}}'
        cores, memory = groups[group] * _CORES * share, groups[group] * _MEMORY * share
        yield f"{Recorded.REQUESTED_CPU}{labels}", cores
        yield f"{Recorded.USED_CPU}{labels}", cores * (0.25 + 0.2 * swing(hour))
        yield f"{Recorded.REQUESTED_MEMORY}{labels}", memory
        yield f"{Recorded.USED_MEMORY}{labels}", memory * 0.6
    if "gpu" in groups:
        labels = '{group="gpu",category="worker",workload="train"}'
        yield f"{Recorded.REQUESTED_GPUS}{labels}", groups["gpu"] * _GPUS
        yield f"{Recorded.USED_GPUS}{labels}", groups["gpu"] * _GPUS * 0.7
