"""Versions of RQ that the safe worker is tested with: one that calls its methods differently would strand jobs."""

import re
from collections.abc import Mapping

TRIED = "2.12 to 3.x"


def refusal(version: str, environment: Mapping[str, str]) -> str:
    """Return in one line why no worker may start with this RQ, or an empty text."""
    number = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if not (2, 12) <= number < (4,):
        return f"rq: expected version {TRIED}, which ebbtide-jobs is tried with, got {version} (for example rq==3.0.0)"
    prefix = environment.get("RQ_KEY_PREFIX", "rq")
    if prefix != "rq":
        return f"RQ_KEY_PREFIX: expected rq, where the controller reads the queues, got {prefix} (leave it out)"
    return ""
