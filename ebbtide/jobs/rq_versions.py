"""Which RQ the safe worker is tried with: one that calls its methods otherwise would strand each job that it pops."""

import re
from collections.abc import Mapping

TRIED = "2.12 to 3.x"


def refusal(version: str, environment: Mapping[str, str]) -> str:
    """Return in one line why no worker may start with this RQ, or nothing."""
    number = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if not (2, 12) <= number < (4,):
        return f"rq: expected version {TRIED}, which ebbtide-jobs is tried with, got {version} (for example rq==3.0.0)"
    prefix = environment.get("RQ_KEY_PREFIX", "rq")
    if prefix != "rq":
        return f"RQ_KEY_PREFIX: expected rq, where the controller reads the queues, got {prefix} (leave it out)"
    return ""
