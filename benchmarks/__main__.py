"""`make bench`: measures, prints, and writes out/bench.json. `python -m benchmarks NAME…` measures only those parts."""

import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import (
    control_plane,
    live,
    offline,
    preview,
    prometheus_size,
    real_size,
    replay,
    replays,
    scale,
    scheduling,
    sweep,
    turn,
)
from benchmarks.measure import Figures
from ebbtide.files import write_file

PARTS: dict[str, Callable[[], dict[str, Figures]]] = {
    "live": live.measured,
    "sweep": sweep.measured,
    "turn": turn.measured,
    "program": offline.program_figures,
    "preview": preview.measured,
    "real_size": real_size.measured,
    "bills": offline.bill_figures,
    "settings": offline.refusal_figures,
    "policies": offline.policy_figures,
    "replay": replay.measured,
    "replays": replays.measured,
    "control_plane": control_plane.measured,
    "scale": scale.measured,
    "scheduling": scheduling.measured,
    "prometheus_size": prometheus_size.measured,
}


def main(names: list[str]) -> None:
    figures: dict[str, Figures] = {}
    for part in names or PARTS:
        for name, values in PARTS[part]().items():
            figures[name] = values
            print(f"{name:<44}", "  ".join(f"{key} {value:g}" for key, value in values.items()), flush=True)
    document = {"machine": platform.machine(), "python": platform.python_version(), **figures}
    write_file(Path("out/bench.json"), json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
