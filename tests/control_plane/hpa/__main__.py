"""`python -m tests.control_plane.hpa`: record every scenario three times anew, into tests/data/hpa-scenarios.

Seven minutes, in which the machine should do little else: of a look that comes late a take tells the machine's story.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any

from ebbtide.files import write_file
from ebbtide.simulator.fidelity.hpa import Beat, Change, HpaScenario, differences
from tests.control_plane.hpa.recorder import recorder
from tests.control_plane.hpa.scenarios import all_scenarios
from tests.paths import DATA

FILE = DATA / "hpa-scenarios" / "recorded.json"
_TAKES = 3


def record() -> None:
    scenarios = all_scenarios()
    with tempfile.TemporaryDirectory() as folder, recorder(Path(folder)) as own:
        takes = [own.take(scenarios, f"take-{number}") for number in range(1, _TAKES + 1)]
    FILE.parent.mkdir(exist_ok=True)
    write_file(FILE, _text(scenarios, takes))
    for one in scenarios:
        for take in takes:
            for line in differences(one, take[one.name]):
                print(line)


def _text(scenarios: Sequence[HpaScenario], takes: Sequence[Mapping[str, Sequence[Beat]]]) -> str:
    """One line for each look, so that what changed can be read."""
    parts: list[str] = []
    for one in scenarios:
        head = {**asdict(one), "timeline": [_short(change) for change in one.timeline]}
        del head["takes"]
        keys = [f'  "{key}": {json.dumps(value)}' for key, value in head.items()]
        its = [",\n".join(f"   {json.dumps(beat)}" for beat in _lines(take[one.name])) for take in takes]
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
    record()
