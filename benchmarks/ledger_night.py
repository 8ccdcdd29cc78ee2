"""`python -m benchmarks.ledger_night FILE`: record a day and a night on the real control plane twice, as a known month.

The second time the budgets never open. FILE has the nodes of each group and the workers of each pool, in virtual
seconds from the start. `benchmarks.known_recordings` repeats the day for a month. Needs the control plane's binaries.
"""

import argparse
import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from control_plane.night.night import Night, RealNight, demo_night
from control_plane.plane.driver import ControlPlane

from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings import load_stack
from ebbtide.text.files import write_file
from ebbtide.vocabulary.labels import CATEGORY, Category

STACK, DATA = "demo", Path(__file__).parents[1] / "tests/data"
START, LENGTH = datetime(2026, 6, 2, 12), timedelta(days=1)  # noqa: DTZ001 - of the customer's zone; a Tuesday
FLEXIBLE = 5
LOOK = timedelta(minutes=5)
_POOLS = f"/apis/apps/v1/namespaces/{WORKER_NAMESPACE}/deployments"


def recorded(night: Night, speed: float) -> Mapping[str, Any]:
    wanted: dict[str, list[tuple[float, int]]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        ControlPlane(hands_off=f"{CATEGORY}={Category.WORKER}") as plane,
        RealNight(plane, night, speed, Path(folder)) as on_cluster,
    ):
        for look in range(int(night.length / LOOK)):
            at = look * LOOK.total_seconds()
            on_cluster.wait_until(at)
            for pool in plane.api.get(_POOLS)["items"]:
                steps = wanted.setdefault(pool["metadata"]["name"], [])
                replicas = pool["spec"].get("replicas", 0)
                if not steps or steps[-1][1] != replicas:
                    steps.append((at, replicas))
        on_cluster.wait_until(night.length.total_seconds())
        course, took = on_cluster.stop()
    return {
        "nodes": [[round(at, 1), nodes] for at, nodes in course.history],
        "node_hours": course.node_hours,
        "wanted": wanted,
        "latencies": asdict(took),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ledger_night", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--speed", type=float, default=120.0)
    chosen = parser.parse_args()
    night = demo_night(load_stack(STACK, DATA), START, LENGTH, resync=timedelta(minutes=5), flexible=FLEXIBLE)
    closed = replace(night, config=replace(night.config, budgets=()))
    document = {
        "start": night.start.isoformat(),
        "seconds": LENGTH.total_seconds(),
        "speed": chosen.speed,
        "budgets open": recorded(night, chosen.speed),
        "budgets never open": recorded(closed, chosen.speed),
    }
    write_file(chosen.file, json.dumps(document, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
