"""Resources, estimates, output and names equal the golden files.

After a change that is wanted, `make golden` writes them again, and the commit says why each differs.
"""

import pytest

from tests.golden.commands.surfaces import command_lines
from tests.golden.listed import COMMANDS, LONG, QUICK, SLOW, made
from tests.golden.stacks import FILES, SEEDS

_MOST = 4_000_000  # bytes of all files: reviewers do not read more
_MOST_OF_COMMANDS = 1_000_000
_MARKED = [
    *QUICK,
    *(pytest.param(name, marks=pytest.mark.whole) for name in LONG),
    *(pytest.param(name, marks=pytest.mark.process) for name in SLOW),
]
_NOT_RECORDED = {"demo": "starts real workers: `make test-demo` compares what it prints with the documents"}


@pytest.mark.parametrize("name", _MARKED)
def test_the_golden_file_says_what_the_code_does(name: str) -> None:
    assert made(name) == (FILES / name).read_text(encoding="utf-8"), f"{name}: see the difference with: make golden"


def test_every_command_is_recorded_or_says_why_not() -> None:
    recorded = {line for case in COMMANDS.values() for line in (*case.lines, *case.json) if "--help" not in line}
    missing = {name for name in command_lines() if not any(f"{line} ".startswith(f"{name} ") for line in recorded)}

    assert missing == {*_NOT_RECORDED}, "a command needs a Case in tests/golden/commands, and then: make golden"


def test_no_golden_file_is_left_over_and_all_can_be_read() -> None:
    there = {str(path.relative_to(FILES)): path.stat().st_size for path in FILES.rglob("*") if path.is_file()}
    drawn = {f"generated/{seed:02}.yaml" for seed in SEEDS} | {f"stacks/full-{of}.yaml" for of in ("eks", "existing")}

    assert set(there) == {*QUICK, *LONG, *SLOW} | drawn, "missing: make golden; left over: remove the file"
    assert sum(there.values()) <= _MOST
    assert sum(size for name, size in there.items() if name.startswith("commands/")) <= _MOST_OF_COMMANDS
