"""`make bench`: measures, prints, and writes out/bench.json."""

import json
import platform
from collections.abc import Callable
from pathlib import Path

from benchmarks import controller, program, replay
from benchmarks.measure import Figures
from ebbtide.files import write_file

PARTS: tuple[Callable[[], dict[str, Figures]], ...] = (program.measured, controller.measured, replay.measured)


def main() -> None:
    figures: dict[str, Figures] = {}
    for part in PARTS:
        for name, values in part().items():
            figures[name] = values
            print(f"{name:<44}", "  ".join(f"{key} {value:g}" for key, value in values.items()), flush=True)
    document = {"machine": platform.machine(), "python": platform.python_version(), "figures": figures}
    write_file(Path("out/bench.json"), json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
