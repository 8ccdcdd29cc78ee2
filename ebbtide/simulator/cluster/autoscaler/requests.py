"""The autoscaler's own API client: 5 requests a second, 10 at once, and what that does to the length of its looks.

Every look writes a status, and every pod that a scale-up helps gets an event. So after many pods came at once, looks
follow each other slowly, and a look that grows a second time in a row takes the better part of a second.

Source: kubernetes/autoscaler 1.35.2, defaults of --kube-client-qps and --kube-client-burst in config/flags/flags.go;
the length of a look that waits for events was read from logs of recorded runs.
"""

PER_SECOND = 5.0
AT_ONCE = 10.0
STATUS = 2  # a look reads and writes its status
LONGEST_STATUS_S = 0.8  # events wait in the same line, but only one goes before each request


class Requests:
    def __init__(self, scan_interval_s: float) -> None:
        self._per_second = max(0.0, PER_SECOND - STATUS / scan_interval_s)  # idle looks write a status, too
        self._left = AT_ONCE
        self._at = 0.0

    def status(self, now: float) -> float:
        """Seconds until the status of a look that ends now is written."""
        self._take(now, STATUS)
        return min(LONGEST_STATUS_S, max(0.0, -self._left / PER_SECOND))

    def events(self, now: float, count: int) -> None:
        self._take(now, count)

    def _take(self, now: float, count: int) -> None:
        self._left = min(AT_ONCE, self._left + (now - self._at) * self._per_second) - count
        self._at = now
