"""`make bench`: measures, prints, and writes out/bench.json. `python -m benchmarks NAME…` measures only those parts."""

import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import adoption, brokers, live, preview, prices, replay, replays, scale, sweep, traces, turn
from benchmarks.measure import Figures
from ebbtide.text.files import write_file

PARTS: dict[str, Callable[[], dict[str, Figures]]] = {
    "adoption": adoption.measured,
    "live": live.measured,
    "brokers": brokers.measured,
    "sweep": sweep.measured,
    "traces": traces.measured,
    "turn": turn.measured,
    "preview": preview.measured,
    "prices": prices.measured,
    "replay": replay.measured,
    "replays": replays.measured,
    "scale": scale.measured,
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
