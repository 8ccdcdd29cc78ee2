"""One turn of a show after the other: send the jobs that are due, run the closer at its time, look, and tell."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from control_plane.playground.evening import Phase, phase_at
from control_plane.playground.jobs import submissions
from control_plane.playground.screen import View
from control_plane.playground.seen import NodeState, Seen
from control_plane.playground.stage import Play, Stage
from control_plane.playground.story import Happening, Story
from controllers.adapters.kube_api import ApiError
from ebbtide.labels import NodeKind

_PATIENCE = 20.0  # seconds that the API server may be silent: a busy machine is slow, not broken
_KEPT = timedelta(days=7)  # for which jobs are planned when the show may go on


class Broken(Exception):
    """A part of the show has ended by itself; the message says which."""


class Show:
    """`tell` hears each happening at once."""

    def __init__(self, play: Play, stage: Stage, tell: Callable[[Happening], None]) -> None:
        self.stage = stage
        self.story = Story(stage.config, play.plan.rates, tell)
        self.last: View | None = None
        self.busiest: View | None = None  # of an evening, for a picture
        self._play = play
        options, start = play.options, stage.clock.start
        self._seconds = options.hours * 3600
        planned = _KEPT if options.keep else timedelta(hours=options.hours)
        self._jobs = submissions(stage.config, start, planned, options.seed)[::-1]
        self._closing = self._next_closing(start)
        self._heard = time.monotonic()

    @property
    def over(self) -> bool:
        return self.stage.clock.seconds() >= self._seconds

    def turn(self) -> View:
        """Raises `Broken` and `RedisError`."""
        self._send_jobs()
        self._close()
        self._require_all()
        try:
            seen = self.stage.look()
        except ApiError as error:
            return self._without(error)
        self._heard = time.monotonic()
        self.story.observe(seen)
        self.last = self._view(seen)
        if _bustle(self.last) > _bustle(self.busiest):
            self.busiest = self.last
        return self.last

    def _send_jobs(self) -> None:
        now = self.stage.clock.seconds()
        while self._jobs and self._jobs[-1].at <= now:
            self.stage.submit(self._jobs.pop())

    def _close(self) -> None:
        now = self.stage.clock.now()
        if self._closing is not None and now >= self._closing:
            self.stage.run_closer()
            self._closing = self._next_closing(now)
        if said := self.stage.closer_error():
            self.story.note(now, said)

    def _next_closing(self, now: datetime) -> datetime | None:
        guard = self.stage.config.closing_guard
        opening = self.stage.config.hours.next_opening(now + guard)
        return None if opening is None else opening - guard

    def _require_all(self) -> None:
        if fallen := self.stage.fallen():
            raise Broken(fallen)
        if self.stage.autoscaler.failed:
            raise Broken("the autoscaler ended by an error")

    def _without(self, error: ApiError) -> View:
        if self.last is None or time.monotonic() > self._heard + _PATIENCE:
            raise Broken(f"the API server gives no answer: {error}")
        return self.last

    def _node_to_ask_about(self, seen: Seen) -> str:
        """A flexible one, if there is any."""
        groups = self._play.settings.node_groups
        ordered = sorted(seen.nodes, key=lambda node: groups[node.group].kind is not NodeKind.FLEXIBLE)
        return ordered[0].name if ordered else "NAME"

    def _view(self, seen: Seen) -> View:
        return View(
            config=self.stage.config,
            stack=self._play.settings.stack,
            paste=self.stage.paste(self._node_to_ask_about(seen)),
            seen=seen,
            totals=self.story.totals,
            happenings=tuple(self.story.happenings),
            usd=self.story.usd_per_hour(seen),
            most={group.name: group.max for group in self._play.plan.groups},
            speed=self.stage.clock.speed,
            share=min(1.0, self.stage.clock.seconds() / self._seconds),
        )


def _bustle(view: View | None) -> tuple[bool, int, int]:
    """How much there is to see in an evening: nodes that leave, pods that moved."""
    if view is None or phase_at(view.config, view.seen.at) is not Phase.NIGHT:
        return (False, 0, 0)
    leaving = [node for node in view.seen.nodes if node.state is NodeState.LEAVING]
    return (any(node.pods for node in leaving), len(view.seen.moved), len(leaving))
