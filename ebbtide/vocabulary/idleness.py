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


def busiest(where: str, by: str, span: timedelta) -> tuple[str, str]:
    """Return PromQL for CPU cores and for bytes per second of pods in their busiest two minutes of `span`.

    `where`: matchers of cAdvisor's series. `by`: labels that identify a pod. No result without a rate.
    """
    cpu = _of_pods("cpu_usage_seconds", "container", where, by)
    network = " + ".join(_of_pods(f"network_{way}_bytes", "interface", where, by) for way in ("receive", "transmit"))
    length, step = (int(duration.total_seconds()) for duration in (span, STEP))
    return f"max_over_time(({cpu})[{length}s:{step}s])", f"max_over_time(({network})[{length}s:{step}s])"


def _of_pods(metric: str, part: str, where: str, by: str) -> str:
    """Return PromQL for the rate of a pod's parts together, the pod's own cgroup excluded."""
    measured = f'container_{metric}_total{{{"container" if part == "container" else "pod"}!="",{where}}}'
    # A kubelet that is scraped by two addresses has each series twice.
    return f"sum by ({by}) (max by ({by}, {part}) (rate({measured}[{int(_WINDOW.total_seconds())}s])))"
