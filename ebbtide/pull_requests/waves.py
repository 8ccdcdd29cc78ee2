"""The waves of a rollout: which stacks may be changed now, which wait, and why.

GitHub's workflow engine runs the waves, and its deployments show what is live. This module keeps no state, so that a
run that was cancelled, or overtaken by a newer commit, leaves nothing to repair.

A stack that is deferred or failed holds all later waves.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

from ebbtide.pull_requests.changed_stacks import changed_stacks, commits_of_head
from ebbtide.pull_requests.deployments import Deployed
from ebbtide.settings.sections.rollout import Wave
from ebbtide.vocabulary.windows import DisruptionWindow

MOST_STACKS = 256
"""Jobs of one matrix; GitHub refuses more."""


class WaveTooLarge(Exception):
    """The message says which wave, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remaining:
    """A stack that HEAD changes."""

    stack: str
    wave: Wave
    window: DisruptionWindow
    failed_at: datetime | None = None  # when its newest deployment failed, if HEAD has not changed the stack since


@dataclass(frozen=True, slots=True, kw_only=True)
class WavePlan:
    now: tuple[str, ...]
    deferred: Mapping[str, datetime | None]  # until when, in the local time of the stack; None: without an end
    failed: tuple[str, ...]  # held until a commit changes them or a person retries
    held: tuple[str, ...]  # wait for an earlier wave

    @property
    def complete(self) -> bool:
        """True if the wave holds no later one once its stacks of `now` have succeeded."""
        return not (self.deferred or self.failed or self.held)


def undeployed(deployed: Mapping[str, Deployed], root: Path) -> dict[str, datetime | None]:
    """Return the stacks that HEAD changes, each with the time at which the same change failed, or None.

    A live commit that is not in the history of HEAD, after a force push for example, counts as unknown: the stack
    remains to be brought up. Raises `GitFailed`.
    """
    history = commits_of_head(root)

    @cache
    def changed_since(commit: str) -> frozenset[str]:
        return frozenset(changed_stacks(commit, root).stacks)

    def is_current(stack: str, commit: str | None) -> bool:
        return commit is not None and commit in history and stack not in changed_since(commit)

    remaining: dict[str, datetime | None] = {}
    for stack, known in deployed.items():
        if not is_current(stack, known.live):
            failure = known.failure
            remaining[stack] = failure.at if failure and is_current(stack, failure.commit) else None
    return remaining


def plan_waves(stacks: Collection[Remaining], now: datetime, *, during_business_hours: bool) -> dict[Wave, WavePlan]:
    """Return the plan of each wave, in order. Raises `WaveTooLarge`.

    A failure outside the disruption window is no failure: the job only refused to change a stack in business hours.
    """
    plans: dict[Wave, WavePlan] = {}
    for wave in Wave:
        members = [item for item in stacks if item.wave is wave]
        if len(members) > MOST_STACKS:
            raise WaveTooLarge(
                f"wave {wave}: expected at most {MOST_STACKS} stacks, the limit of GitHub's matrix, got {len(members)} "
                "(for example, set ebbtide:rollout: { wave: early } in some stack files)"
            )
        failed = {item.stack for item in members if item.failed_at is not None and item.window.is_open(item.failed_at)}
        deferred = {
            item.stack: _local(item.window, item.window.next_change(now))
            for item in members
            if item.stack not in failed and not during_business_hours and not item.window.is_open(now)
        }
        ready = tuple(item.stack for item in members if item.stack not in {*failed, *deferred})
        is_held = not all(plan.complete for plan in plans.values())
        plans[wave] = WavePlan(
            now=() if is_held else ready,
            deferred=deferred,
            failed=tuple(sorted(failed)),
            held=ready if is_held else (),
        )
    return plans


def reasons(plans: Mapping[Wave, WavePlan]) -> Iterator[str]:
    """Yield one line for the stacks of each wave that may be changed now, and the lines of those that wait."""
    for wave, plan in plans.items():
        if plan.now:
            yield f"{wave}: {', '.join(plan.now)}"
        for stack, until in plan.deferred.items():
            yield f"{wave}: {stack} is deferred: business hours {_until(until)}"
        for stack in plan.failed:
            yield f"{wave}: {stack} failed: it waits for a commit that changes it, or for Run workflow"
        if plan.held:
            yield f"{wave}: held by an earlier wave: {', '.join(plan.held)}"
    if not any(plan.now or not plan.complete for plan in plans.values()):
        yield "nothing is left to bring up"


def document(plans: Mapping[Wave, WavePlan]) -> dict[str, object]:
    """Return the plans as JSON: `now` is the matrix of a wave."""
    return {
        str(wave): {
            "now": plan.now,
            "deferred": {stack: until and until.isoformat() for stack, until in plan.deferred.items()},
            "failed": plan.failed,
            "held": plan.held,
        }
        for wave, plan in plans.items()
    }


def _local(window: DisruptionWindow, instant: datetime | None) -> datetime | None:
    return window.hours.local(instant) if instant else None


def _until(instant: datetime | None) -> str:
    return f"until {instant:%a %Y-%m-%d %H:%M %Z}" if instant else "without an end"
