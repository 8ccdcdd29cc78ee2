"""How often tests repeat: little while somebody edits, more in CI, most where it is asked for.

`EBBTIDE_EXAMPLES=full` is what CI gives to properties; without it they try a few examples. `EBBTIDE_LONG=part` is what
CI gives to the long tests; without it they run their full counts.
"""

import os

PART = "part"
FULL = "full"
_FEW = 10


def count(full: int, part: int) -> int:
    return part if os.environ.get("EBBTIDE_LONG") == PART else full


def examples(full: int) -> int:
    return full if os.environ.get("EBBTIDE_EXAMPLES") == FULL else min(full, _FEW)
