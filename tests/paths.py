"""Where the repository and the tests' data are."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
DATA = ROOT / "tests" / "data"
STACK_FILES = DATA / "stacks"
"""The stacks that tests read. A team replaces those in `stacks/`; with `DATA` as root a stack's name leads here."""
