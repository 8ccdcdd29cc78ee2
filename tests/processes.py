"""What a test asks about the machine's processes."""

from contextlib import suppress
from pathlib import Path


def lives(pid: int) -> bool:
    """Whether it runs. A zombie has ended: whoever adopted it may be slow to take note, or never do so."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
