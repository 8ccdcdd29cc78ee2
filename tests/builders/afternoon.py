"""Exports of three invented platforms for the tutorial: `python -m tests.builders.afternoon` writes them again.

A week of jobs each, from 2026-05-04. Arrivals follow working hours, and durations are log-normal.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import log
from pathlib import Path
from random import Random
from zoneinfo import ZoneInfo

from tests.paths import ROOT

FOLDER = ROOT / "docs" / "tutorial" / "first-afternoon"
MONDAY = datetime.fromisoformat("2026-05-04")


@dataclass(frozen=True, slots=True)
class Run:
    """Local times without a zone."""

    submitted: datetime
    started: datetime
    ended: datetime


def runs(rng: Random, *, per_day: int, opens: float, closes: float, minutes: float, longest: float) -> Iterator[Run]:
    """Yield the runs of five working days, with a few on Saturday. `minutes` is the median, `longest` in hours."""
    for day in range(6):
        count = per_day if day < 5 else per_day // 10
        for submitted in sorted(rng.triangular(opens, closes, opens + 1.5) for _ in range(count)):
            at = MONDAY + timedelta(days=day, seconds=round(submitted * 3600))
            started = at + timedelta(seconds=rng.randint(2, 240))
            lasts = min(rng.lognormvariate(log(minutes * 60), 1.0), longest * 3600)
            yield Run(at, started, started + timedelta(seconds=round(lasts)))


def mumbai() -> str:
    """A table of a job database: semicolons, decimal commas, times with their offset."""
    rng, zone = Random("mumbai"), ZoneInfo("Asia/Kolkata")
    lines = ["ticket;queue;created_at;picked_at;done_at;vcpus;ram_gb"]
    for number, run in enumerate(runs(rng, per_day=110, opens=9.5, closes=18.5, minutes=16, longest=3.5), start=80412):
        times = (time.replace(tzinfo=zone).isoformat() for time in (run.submitted, run.started, run.ended))
        vcpus, ram = rng.choice((("2", "3,5"), ("3", "4"), ("3", "6,5")))
        lines.append(";".join((f"LB-{number}", "labels", *times, vcpus, ram)))
    return "\n".join(lines) + "\n"


def sao_paulo() -> str:
    """`sacct --parsable2`: a row for each job and for its steps, local times, and two jobs that have not ended."""
    rng = Random("sao-paulo")
    short = runs(rng, per_day=70, opens=8, closes=19, minutes=12, longest=3.5)
    jobs = [("cpu", *_slurm(run, rng), f"cpu={rng.choice((2, 3))},mem=6G,node=1") for run in short]
    long = runs(rng, per_day=14, opens=8, closes=19, minutes=100, longest=9)
    jobs += [("gpu", *_slurm(run, rng), "cpu=6,gres/gpu=1,mem=24G,node=1") for run in long]
    jobs.sort(key=lambda job: job[1])
    lines = ["JobID|Partition|Submit|Start|End|State|AllocTRES"]
    for number, (partition, submit, start, end, state, resources) in enumerate(jobs, start=51877):
        lines.append(f"{number}|{partition}|{submit}|{start}|{end}|{state}|billing=1,{resources}")
        lines.append(f"{number}.batch||{start}|{start}|{end}|{state}|{resources}")
    submit = "2026-05-09T12:00:00"
    lines.append(f"52400|gpu|{submit}|{submit}|Unknown|RUNNING|billing=1,cpu=6,gres/gpu=1,mem=24G,node=1")
    lines.append(f"52401|gpu|{submit}|Unknown|Unknown|PENDING|")
    return "\n".join(lines) + "\n"


def _slurm(run: Run, rng: Random) -> tuple[str, str, str, str]:
    state = rng.choices(("COMPLETED", "FAILED", "TIMEOUT"), (93, 5, 2))[0]
    return run.submitted.isoformat(), run.started.isoformat(), run.ended.isoformat(), state


def on_premises() -> str:
    """Finished jobs of RQ as JSON lines: times in UTC, no sizes."""
    rng, zone = Random("on-premises"), ZoneInfo("Europe/Berlin")
    rows: list[dict[str, str]] = []
    for queue, per_day, minutes, longest in (("render", 60, 20, 3.5), ("train", 8, 90, 10)):
        for run in runs(rng, per_day=per_day, opens=8, closes=18, minutes=minutes, longest=longest):
            submitted, started, ended = (
                time.replace(tzinfo=zone).astimezone(UTC).isoformat().replace("+00:00", "Z")
                for time in (run.submitted, run.started, run.ended)
            )
            times = {"enqueued_at": submitted, "started_at": started, "ended_at": ended}
            rows.append({"id": f"{rng.getrandbits(64):016x}", "origin": queue, **times})
    rows.sort(key=lambda row: row["ended_at"])
    return "".join(json.dumps(row) + "\n" for row in rows)


EXPORTS = {"mumbai.csv": mumbai, "sacct.txt": sao_paulo, "rq.jsonl": on_premises}


def write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in EXPORTS.items():
        (folder / name).write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    write(FOLDER)
