"""What runs at night on other people's work must stay small enough to be read in an afternoon.

The scaler answers for all that it stands on, the closer, the vocabulary, the ports and the adapters. Each further
process of the image has a folder of its own in `controllers/` and an account of its own, which its module of the
vocabulary counts for too.
"""

from collections import Counter
from pathlib import Path

from tests.paths import ROOT

CAP = 3_400
OF_EACH_FURTHER_PROCESS = 1_500
SHARED = ("__init__", "__main__", "adapters", "closer", "ports", "scaler")


def lines_by_account() -> Counter[str]:
    """Lines that are not blank: of the scaler with what is shared, and of each other process."""
    further = {folder.name for folder in (ROOT / "controllers").iterdir() if folder.is_dir()} - {*SHARED, "__pycache__"}
    lines: Counter[str] = Counter()
    for folder in (ROOT / "controllers", ROOT / "ebbtide" / "vocabulary"):
        for module in folder.rglob("*.py"):
            own = Path(module.relative_to(folder).parts[0]).stem
            account = own if own in further else "scaler"
            lines[account] += sum(1 for line in module.read_text().splitlines() if line.strip())
    return lines


def test_the_scaler_and_what_it_stands_on_and_each_further_process_fit_in_their_limits() -> None:
    lines = lines_by_account()
    scaler = lines.pop("scaler")

    assert scaler > 2_000, "the folders have moved"
    assert scaler <= CAP
    assert {process: count for process, count in lines.items() if count > OF_EACH_FURTHER_PROCESS} == {}
