"""What is rendered, estimated and named is what the golden files hold.

After a change that is wanted, `make golden` writes them anew, and the commit says why each differs.
"""

import pytest

from tests.golden.listed import QUICK, SLOW, made
from tests.golden.stacks import FILES, SEEDS

_MOST = 3_000_000  # bytes of all of them: more than that nobody reads
_SLOW = [pytest.param(name, marks=pytest.mark.process) for name in SLOW]


@pytest.mark.parametrize("name", [*QUICK, *_SLOW])
def test_the_golden_file_says_what_the_code_does(name: str) -> None:
    assert made(name) == (FILES / name).read_text(encoding="utf-8"), f"{name}: see the difference with: make golden"


def test_no_golden_file_is_left_over_and_all_can_be_read() -> None:
    there = {str(path.relative_to(FILES)): path.stat().st_size for path in FILES.rglob("*") if path.is_file()}
    drawn = {f"generated/{seed:02}.yaml" for seed in SEEDS} | {f"stacks/full-{of}.yaml" for of in ("eks", "existing")}

    assert set(there) == {*QUICK, *SLOW} | drawn
    assert sum(there.values()) <= _MOST
