"""The definition of an idle pod, for `sleep` and for `ebbtide idle`: two limits, and the time over which they count.

**The busiest two minutes count**, of all containers and of both directions together: a mean over hours hides a user's
page view. Probes and scrapes are the same in each minute. The trap: neither limit detects a user who only reads or
types, nor work in other pods.
"""

from datetime import timedelta

MOST_CORES = 0.01
"""Maximum CPU cores of an idle pod. Idle servers use up to 0.002, and a notebook's cell of two CPU seconds 0.017."""
MOST_BYTES = 512
"""Maximum bytes per second of an idle pod, received and sent. Two HTTP probes every ten seconds make up to 221, and 324
with a scrape of 2 kB every 30 s. A page of 100 kB adds 850.

Source of both limits: docs/evidence/measured.md, "An idle pod".
"""

STEP = timedelta(seconds=30)
"""Distance of the two-minute windows that are compared."""
_WINDOW = timedelta(minutes=2)


def rate(series: str) -> str:
    """Return PromQL for the rate of a counter in two minutes."""
    return f"rate({series}[{int(_WINDOW.total_seconds())}s])"


def busiest(rates: str, span: timedelta) -> str:
    """Return PromQL for the highest value in `span` of an expression of rates; no result without a value."""
    return f"max_over_time(({rates})[{int(span.total_seconds())}s:{int(STEP.total_seconds())}s])"
