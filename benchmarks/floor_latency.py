"""From the instant at which a floor changes to the field in the autoscaler, on a real API server: `make bench` does not
run it, since it needs the control plane.

`python -m benchmarks.floor_latency` prints milliseconds for a HorizontalPodAutoscaler and a ScaledObject.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

from control_plane.plane.driver import ControlPlane

from ebbtide.vocabulary.workloads import PlannedEvent
from tests.builders.control_plane import Fresh, eventually
from tests.control_plane.support.floors import KINDS, FloorScene, make_floor_scene

APART = timedelta(seconds=3)
_LIMITS = {"ranker": (1, 6), "embedder-small": (2, 12)}


def falling(begins: datetime, most: int, least: int) -> Iterator[tuple[datetime, PlannedEvent]]:
    """Events that have begun and end one after the other, each a pod lower: only an end has seconds."""
    start = begins.replace(second=0, microsecond=0)
    for step, pods in enumerate(range(most, least, -1)):
        end = begins + step * APART
        yield end, PlannedEvent(day=start.date(), at=start.hour * 60 + start.minute, lasting=end - start, pods=pods)


def measured(scene: FloorScene, name: str) -> list[float]:
    """Milliseconds from each end to the lower number."""
    least, most = _LIMITS[name]
    planned = list(falling(datetime.now(UTC) + timedelta(seconds=15), most, least))
    scene.write(scene.config(*(event for _, event in planned)))
    eventually(lambda: scene.floor(name) == most, what="the first number")
    late: list[float] = []
    for end, event in planned:
        while scene.floor(name) >= event.pods:
            time.sleep(0.001)
        late.append((datetime.now(UTC) - end) / timedelta(milliseconds=1))
    return late


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, ControlPlane() as plane:
        fresh = Fresh(plane)
        with make_floor_scene(plane, fresh, Path(folder)) as scene, scene.leader():
            for name in sorted(KINDS):
                late = sorted(ms for _ in range(3) for ms in measured(scene, name))
                print(f"{name}: {len(late)} edges, median {median(late):.0f} ms, highest {late[-1]:.0f} ms")
        fresh.clean()
    return 0


if __name__ == "__main__":
    sys.exit(main())
