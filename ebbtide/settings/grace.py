"""How long a worker that is told to stop may go on: the longest job, and a margin to report it and leave."""

import math
from datetime import timedelta

STOP_MARGIN = timedelta(minutes=2)
"""Past the longest job: to report its result, leave the queue's registries and exit."""


def grace_seconds(longest_job: timedelta) -> int:
    """Whole minutes, rounded up, plus the margin: a stopped worker ends its job before the kubelet ends the worker."""
    minutes = math.ceil((longest_job + STOP_MARGIN) / timedelta(minutes=1))
    return minutes * 60
