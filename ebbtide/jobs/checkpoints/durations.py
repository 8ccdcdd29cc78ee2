"""`90s`, `5m`, `2h`, as in a stack file; or seconds; or a `timedelta`."""

import re
from datetime import timedelta

_UNITS = {"s": 1, "m": 60, "h": 3600}


def seconds(given: str | float | timedelta, what: str) -> float:
    if isinstance(given, timedelta):
        found = given.total_seconds()
    elif isinstance(given, str):
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", given)
        found = float(match[1]) * _UNITS[match[2]] if match else -1.0
    else:
        found = float(given)
    if found < 0:
        raise ValueError(f"{what}: found {given!r}, wanted a duration, for example '5m' or '90s'")
    return found
