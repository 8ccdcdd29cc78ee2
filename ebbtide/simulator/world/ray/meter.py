"""What a group of Ray workers did, for the results."""

from ebbtide.simulator.results import RayGroupResult, Series, SeriesRecorder
from ebbtide.simulator.world.ray.lines import Line
from ebbtide.simulator.world.waits import percentile

BUSY, IDLE = "busy", "idle"


class GroupMeter:
    """Samples a group at its changes."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._recorder = SeriesRecorder((BUSY, IDLE))
        self.note()

    def note(self) -> None:
        line = self._line
        busy = line.busy
        workers = {BUSY: busy, IDLE: len(line.workers) - busy}
        self._recorder.sample(line.timeline.now, workers, len(line.waiting), line.running)

    def result(self, end_s: float) -> RayGroupResult:
        series, counts = self._recorder.series(), self._line.counts
        busy_h, idle_h = (_hours(series, kind, end_s) for kind in (BUSY, IDLE))
        return RayGroupResult(
            worker_hours=busy_h + idle_h,
            busy_hours=busy_h,
            most_workers=max(map(sum, zip(*series.nodes.values(), strict=True)), default=0),
            tasks_done=counts.done,
            tasks_interrupted=counts.interrupted,
            task_hours=counts.done_s / 3600,
            lost_task_s=counts.lost_s + counts.redone_s,
            wait_p50_s=percentile(counts.waits, 0.5),
            wait_p95_s=percentile(counts.waits, 0.95),
            series=series,
        )


def _hours(series: Series, kind: str, end_s: float) -> float:
    ends = (*series.at[1:], end_s)
    steps = zip(series.nodes[kind], series.at, ends, strict=True)
    return sum(count * (end - at) for count, at, end in steps) / 3600
