"""Twenty-two thousand damaged files: each is read, or refused in words that name it, in seconds and little memory."""

import json
import subprocess
import sys
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tests.builders.components import ROOT
from tests.builders.damage import as_json, damaged
from tests.counts import count
from tests.reading_damaged import KINDS

MOST_MIB = 500
FULL = {"stack": 6_000, "trace": 5_000, "plan": 5_000, "document": 4_000, "scenario": 1_000, "usage": 1_000}


def read(kind: str, seed: int, number: int) -> dict[str, Any]:
    """In a process of its own, whose memory is measured. A reader that hangs is stopped there, after 20 s of work."""
    command = [sys.executable, "-m", "tests.reading_damaged", kind, str(seed), str(number)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def require(kind: str, seed: int, number: int, record_property: Callable[[str, object], None]) -> None:
    told = read(kind, seed, number)
    record_property("slowest_s", round(told["slowest_s"], 2))
    record_property("peak_mib", round(told["peak_mib"]))

    assert told["failures"] == []
    assert told["count"] == number
    assert 0 < told["sound"] < number, "damage that nothing survives, or everything, finds little"
    assert told["peak_mib"] <= MOST_MIB


@pytest.mark.parametrize("kind", FULL)
def test_a_few_damaged_files_are_read_or_refused(kind: str, record_property: Callable[[str, object], None]) -> None:
    require(kind, 0, 60, record_property)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", FULL)
def test_thousands_of_damaged_files_are_read_or_refused(
    kind: str, record_property: Callable[[str, object], None]
) -> None:
    require(kind, 1_000, count(FULL[kind], FULL[kind] // 10), record_property)


def test_there_are_twenty_thousand_of_what_the_commands_and_the_controller_read() -> None:
    assert FULL.keys() == KINDS.keys()
    assert sum(FULL[kind] for kind in ("stack", "trace", "plan", "document")) == 20_000


def test_the_same_seed_damages_in_the_same_way_and_another_one_in_another() -> None:
    sound = b'{"a": [1, 2, {"b": "text"}], "c": null}'

    made = [damaged(sound, Random(seed), json.loads, as_json) for seed in range(200)]

    assert made == [damaged(sound, Random(seed), json.loads, as_json) for seed in range(200)]
    assert len(set(made)) > 150
