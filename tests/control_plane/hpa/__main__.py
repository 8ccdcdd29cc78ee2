"""`python -m tests.control_plane.hpa [NAME …]`: record scenarios three times anew, into tests/data/hpa-scenarios.

All of them take seven minutes, in which the machine should do little else. Those that are not named keep their takes.
"""

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any

from ebbtide.text.files import write_file
from tests.control_plane.hpa.recorder import recorder
from tests.control_plane.hpa.scenarios import all_scenarios
from tests.fidelity.hpa import Beat, Change, HpaScenario, differences, read_recordings
from tests.paths import DATA

FILE = DATA / "hpa-scenarios" / "recorded.json"
_TAKES = 3


def record(names: Sequence[str]) -> None:
    every = all_scenarios()
    chosen = [one for one in every if not names or one.name in names]
    with tempfile.TemporaryDirectory() as folder, recorder(Path(folder)) as own:
        takes = [own.take(chosen, f"take-{number}") for number in range(1, _TAKES + 1)]
    before = {one.name: one.takes for one in read_recordings(FILE)} if names else {}
    of = before | {one.name: [take[one.name] for take in takes] for one in chosen}
    write_file(FILE, _text(every, of))
    for one in chosen:
        for take in of[one.name]:
            for line in differences(one, take):
                print(line)


def _text(scenarios: Sequence[HpaScenario], takes: Mapping[str, Sequence[Sequence[Beat]]]) -> str:
    """One line for each look, so that what changed can be read."""
    parts: list[str] = []
    for one in scenarios:
        head = {**asdict(one), "timeline": [_short(change) for change in one.timeline]}
        del head["takes"]
        keys = [f'  "{key}": {json.dumps(value)}' for key, value in head.items()]
        its = [",\n".join(f"   {json.dumps(beat)}" for beat in _lines(take)) for take in takes[one.name]]
        keys.append('  "takes": [\n' + ",\n".join(f"  [\n{take}\n  ]" for take in its) + "\n  ]")
        parts.append(" {\n" + ",\n".join(keys) + "\n }")
    return "[\n" + ",\n".join(parts) + "\n]\n"


def _lines(take: Sequence[Beat]) -> list[dict[str, Any]]:
    """Without conditions that stood before."""
    found: list[dict[str, Any]] = []
    before: Mapping[str, str] = {}
    for beat in take:
        line = _short(beat)
        if beat.conditions == before:
            line.pop("conditions", None)
        before = beat.conditions or before
        found.append(line)
    return found


def _short(it: Beat | Change) -> dict[str, Any]:
    """Without what is as it is by default."""
    usual = {
        one.name: one.default_factory() if one.default_factory is not MISSING else one.default for one in fields(it)
    }
    return {key: value for key, value in asdict(it).items() if key not in usual or value != usual[key]}


if __name__ == "__main__":
    record(sys.argv[1:])
