"""`python -m tests.control_plane.karpenter FILE [NAME …]`: record the scenarios of a file three times again.

The takes of scenarios that are not named stay. A take lasts as long as its scenario, and the machine should do little
else.
"""

import json
import sys
import tempfile
from pathlib import Path

from ebbtide.text.files import write_file
from tests.control_plane.karpenter.recorder import take

_TAKES = 3


def record(file: str, *names: str) -> None:
    path = Path(file)
    scenarios = json.loads(path.read_text(encoding="utf-8"))
    for scenario in scenarios:
        if not names or scenario["name"] in names:
            scenario["runs"] = []
            for _ in range(_TAKES):
                with tempfile.TemporaryDirectory() as folder:
                    scenario["runs"].append(take(scenario, Path(folder)))
    write_file(path, json.dumps(scenarios) + "\n")


if __name__ == "__main__":
    record(*sys.argv[1:])
