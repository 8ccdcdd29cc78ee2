"""A maintenance of Ray clusters: for a stated time, pending specs may interrupt what runs there.

The workload controller does the work; this module only writes `apply-until` and removes it. Each write is recorded
before it is sent, as in a maintenance of budgets.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from controllers.adapters.kube_api import ApiError, KubeApi
from ebbtide.operate.api import MANAGER, Target, patch_surely
from ebbtide.operate.instants import spoken
from ebbtide.operate.objects import rfc3339
from ebbtide.operate.ray.text import drivers_text, number, pending_lines
from ebbtide.operate.ray.view import RayView
from ebbtide.operate.wording import counts_of
from ebbtide.text.durations import whole_minutes
from ebbtide.text.one_line import collapsed
from ebbtide.vocabulary.labels import APPLY_UNTIL

_POLL = timedelta(seconds=5)  # between two readings of the clusters


def nothing_to_apply(views: Sequence[RayView]) -> bool:
    """Return True if all clusters are known to have no pending change."""
    return all(view.pending == () for view in views)


def plan_lines(views: Sequence[RayView], until: datetime, timezone: str, why: str) -> Iterator[str]:
    """Describe each cluster's pending changes and what they interrupt, for the operator's confirmation."""
    yield f"maintenance until {spoken(until, timezone)}: {why}"
    for view in views:
        yield f"  ray {view.name}, to apply: {', '.join(pending_lines(view)) or 'nothing'}"
        yield f"    interrupted: {'; '.join(_interrupted(view))}"
        if view.held:
            yield f"  note: {view.held}, so nothing is applied before: ebbtide resume {view.name}"
    yield "  Ctrl-C ends it early; an interruption that has begun is completed"


def _interrupted(view: RayView) -> Iterator[str]:
    """Yield the drivers, their jobs, the head's report and the pods that end."""
    for drivers in view.drivers:
        running = counts_of(drivers.reading).get("running") if drivers.reading is not None else None
        yield f"drivers {drivers_text(drivers)}, with {number(running)} jobs running"
    if view.activity in (None, "not read"):
        yield "what else runs there is not known"
    elif view.activity == "idle":
        yield "the head says that nothing runs there"
    else:
        yield f"the head says: {view.activity}"
    pods = [group.running for group in (view.head, *view.groups)]
    yield f"{'unknown' if None in pods else sum(filter(None, pods))} pods go, the head among them"


class Applying:
    """Opens, watches and closes; `close` may be called at any point, and repeatedly."""

    def __init__(
        self, api: KubeApi, targets: Sequence[Target], *, until: datetime, tell: Callable[[str], None]
    ) -> None:
        self._api, self._targets, self._until, self._tell = api, targets, until, tell
        self._opened: list[Target] = []

    def open(self) -> None:
        """Allow the new specs to interrupt. Raises `ApiError`."""
        for target in self._targets:
            self._opened.append(target)
            body = {"metadata": {"annotations": {APPLY_UNTIL: rfc3339(self._until)}}}
            self._api.patch(target.path, body, fieldManager=MANAGER)
            self._tell(f"{target}: its new spec may interrupt it now")

    def watch(self, stop: threading.Event, look: Callable[[], Sequence[RayView]]) -> None:
        """Report the clusters' progress until all are done, `stop` is set, or the time is over."""
        reported = ""
        while not stop.is_set() and (remaining := self._until - datetime.now(UTC)) > timedelta():
            try:
                views = look()
            except ApiError as error:
                views, line = (), f"cannot read the clusters now: {collapsed(error)}"
            else:
                line = "; ".join(map(_progress, views))
            if line != reported:
                self._tell(f"{line} ({whole_minutes(remaining)} left)")
                reported = line
            if views and all(map(is_done, views)):
                self._tell("ending: all is applied")
                return
            stop.wait(min(_POLL, remaining).total_seconds())
        self._tell("ending: on request" if stop.is_set() else "ending: the time is over")

    def close(self) -> list[str]:
        """End the maintenance. Return the commands that undo the rest by hand; usually none."""
        body = {"metadata": {"annotations": {APPLY_UNTIL: None}}}
        return [
            f"ebbtide resume {target.name}"
            for target in self._opened
            if not patch_surely(self._api, target.path, body, f"end the maintenance of {target}", self._tell)
        ]


def is_done(view: RayView) -> bool:
    """Return True if the cluster has its new spec and is not suspended for it."""
    return view.pending == () and view.state in ("awake", "asleep") and view.asleep_for != "spec"


def _progress(view: RayView) -> str:
    pending = "unknown" if view.pending is None else len(view.pending)
    pods = [count for group in (view.head, *view.groups) for count in (group.running, group.pending, group.ending)]
    count = "unknown" if None in pods else sum(filter(None, pods))
    return f"ray {view.name} is {view.state}: fields pending: {pending}, pods: {count}"
