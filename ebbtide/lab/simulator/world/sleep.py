"""Times of a replay at which workloads sleep by the clock, from the workload controller's own calendar.

No operator wakes anything. Workloads that sleep when idle are awake at all times: a replay does not model their use.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from controllers.workloads.sleep.calendar import sleep_at
from ebbtide.settings.capacity.process_documents import sleepers_of
from ebbtide.settings.model import StackSettings
from ebbtide.vocabulary.windows import BusinessHours


@dataclass(frozen=True, slots=True, kw_only=True)
class Asleep:
    """A workload has `pods` instead of `awake` from `begin` to `end`, in seconds from the start of the replay."""

    workload: str
    begin: float
    end: float
    pods: int
    awake: int


def planned_sleep(settings: StackSettings, hours: BusinessHours, start: datetime, end_s: float) -> Iterator[Asleep]:
    """Yield each sleep that begins within `end_s` of `start`. It may end later."""
    begin = start.astimezone(UTC)
    for policy in (policy for policy in sleepers_of(settings) if policy.idle_after is None):
        at = 0.0
        while at < end_s:
            calendar = sleep_at(begin + timedelta(seconds=at), policy, hours)
            until = end_s if calendar.until is None else (calendar.until - begin).total_seconds()
            if not calendar.awake:
                yield Asleep(workload=policy.name, begin=at, end=until, pods=policy.asleep, awake=policy.replicas)
            at = until
