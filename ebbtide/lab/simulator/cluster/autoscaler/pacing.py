"""Delays of scale-down after nodes were added or removed, and the rate limit of the autoscaler's API client.

A delay for all groups postpones removals while the nodes' timers run. A group with a local delay is not scanned at all,
so the timers of its nodes start when the delay is over.

Source: kubernetes/autoscaler 1.35.2, core/static_autoscaler.go (`isScaleDownInCooldown`) and
processors/scaledowncandidates/scale_down_candidates_delay_processor.go (--scale-down-delay-type-local).

The API client sends 5 requests a second, 10 at once. Every scan writes a status, and every pod that a scale-up helps
gets an event. So after many new pods scans are slow, and a second scale-up in a row takes most of a second.

Source: kubernetes/autoscaler 1.35.2, defaults of --kube-client-qps and --kube-client-burst in config/flags/flags.go;
the duration of a scan that waits for events is from logs of recorded runs.
"""

import math
from collections.abc import Iterable

from ebbtide.lab.simulator.cluster.model import AutoscalerFlags


class Cooldown:
    def __init__(self, flags: AutoscalerFlags) -> None:
        self._local = flags.scale_down_delay_local
        self._after_add_s = flags.scale_down_delay_after_add_s
        self._after_delete_s = flags.scale_down_delay_after_delete_s
        self._over = -math.inf
        self._over_by_group: dict[str, float] = {}

    @property
    def over_at(self) -> float:
        """The end of the delay for all groups."""
        return self._over

    def added(self, groups: Iterable[str], now: float) -> None:
        self._delay(groups, now + self._after_add_s)

    def removal_began(self, now: float) -> None:
        if not self._local:
            self._over = max(self._over, now + self._after_delete_s)

    def removed(self, group: str, now: float) -> None:
        if self._local:
            self._delay([group], now + self._after_delete_s)

    def resting(self, now: float) -> set[str]:
        """Groups with an active local delay."""
        return {group for group, over in self._over_by_group.items() if over > now}

    def next_end(self, now: float) -> float | None:
        return min((over for over in self._over_by_group.values() if over > now), default=None)

    def _delay(self, groups: Iterable[str], over: float) -> None:
        if not self._local:
            self._over = max(self._over, over)
            return
        for group in groups:
            self._over_by_group[group] = max(over, self._over_by_group.get(group, -math.inf))


PER_SECOND = 5.0
AT_ONCE = 10.0
STATUS = 2  # a scan reads and writes its status
LONGEST_STATUS_S = 0.8  # events are in the same queue, but only one precedes each request


class ApiRateLimiter:
    def __init__(self, scan_interval_s: float) -> None:
        self._per_second = max(0.0, PER_SECOND - STATUS / scan_interval_s)  # idle scans write a status, too
        self._tokens = AT_ONCE
        self._at = 0.0

    def status(self, now: float) -> float:
        """Seconds until the status of a scan that ends now is written."""
        self._take(now, STATUS)
        return min(LONGEST_STATUS_S, max(0.0, -self._tokens / PER_SECOND))

    def events(self, now: float, count: int) -> None:
        self._take(now, count)

    def _take(self, now: float, count: int) -> None:
        self._tokens = min(AT_ONCE, self._tokens + (now - self._at) * self._per_second) - count
        self._at = now
