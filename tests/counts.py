"""How often the long tests repeat. `EBBTIDE_LONG=part` is what CI runs; without it they run their full counts."""

import os

PART = "part"


def count(full: int, part: int) -> int:
    return part if os.environ.get("EBBTIDE_LONG") == PART else full
