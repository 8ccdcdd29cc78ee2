"""The controller's reasons and readings in words. A reason that is not listed is shown as it came."""

from datetime import timedelta
from typing import Any

from ebbtide.cli.controller_status import Document, at
from ebbtide.cli.instants import lasting

REASONS = {
    "demand-above-capacity": "more jobs than its workers take",
    "below-the-planned-floor": "planned work or the morning asks for more",
    "below-the-minimum": "its minimum asks for more",
    "one-worker-for-stale-or-due-jobs": "stale or soon-due jobs need one worker to move them",
    "a-worker-is-out-of-reach": "a worker's node is silent: it is replaced, and nothing is lowered",
    "workers-fail-to-start": "its workers crash in a loop or cannot get their image, and more would not help",
    "at-target": "it has what it needs",
    "demand-low-but-recent": "demand fell, but not for the whole calm window yet",
    "every-spare-worker-may-be-busy": "no worker is proven idle yet, and busy ones are never stopped",
    "demand-stayed-low": "demand stayed low for the calm window",
    "empty-for-the-calm-window": "nothing was seen for the calm window",
    "demand-unknown": "its queues could not be read, so the last decision holds",
    "demand-untrusted": "what Redis says proves nothing yet, so nothing is lowered",
    "cluster-not-settled": "a rollout or a lagging status: nothing is lowered now",
    "no-safe-stop-declared": "no safe stop is declared (safeStop), so only a pool where nothing can be lost shrinks",
    "growth-limit-of-this-minute": "its growth limit is reached for this minute",
    "cluster-creates-no-more-pods": "the cluster creates no more pods",
    "kept-up-by-an-operator": "an operator asked to keep it up",
    "paused-by-an-operator": "an operator paused it",
    "another-writer-of-replicas": "somebody else writes its replicas, so the controller keeps its hands off",
    "clock-or-config-in-doubt": "the clocks or the config are in doubt: nothing is lowered, nothing opened",
    "not-in-the-cluster": "it is not in the cluster",
    "disruption-window-open": "the night's window is open",
    "business-hours": "business hours",
    "closing-guard-before-opening": "opening time is near: what was evicted must be back by then",
    "budget-status-not-caught-up": "its status has not caught up yet",
    "controller-stops": "the controller is on its way out",
    "held-by-an-operator": "an operator asked to keep it closed",
}


def reason_text(reason: object) -> str:
    return REASONS.get(str(reason), str(reason or ""))


def reading_state(reading: object) -> str:
    """`known`, `unknown` or `untrusted`: by its own word, or else by its shape."""
    for key in ("kind", "state", "trust", "type"):
        said = at(reading, key)
        if isinstance(said, str):
            return said.lower()
    if at(reading, "seen") is not None:
        return "untrusted"
    return "unknown" if at(reading, "why") is not None or at(reading, "waiting") is None else "known"


def counts_of(reading: object) -> Document:
    """The counts of a reading, whoever vouches for them; empty where there are none."""
    found: Any = at(reading, "seen") or reading
    return found if at(found, "waiting") is not None else {}


def demand_text(reading: object) -> str:
    """`7 waiting, 1 in transit, 2 running`; parts that are zero are left out."""
    counts = counts_of(reading)
    if not counts:
        return "-"
    named = [
        ("waiting", "waiting"),
        ("inTransit", "in transit"),
        ("running", "running"),
        ("stale", "stale"),
        ("dueSoon", "due soon"),
    ]
    parts = [f"{counts[key]} {words}" for key, words in named if counts.get(key)]
    oldest = counts.get("oldestWait")
    if isinstance(oldest, int | float) and counts.get("waiting"):
        parts.append(f"oldest {lasting(timedelta(seconds=oldest))}")
    return ", ".join(parts) or "none"


def arrow(now: Any, wanted: Any) -> str:
    """`3` or `3 → 5`; a dash for what is not known."""
    shown = "-" if now is None else str(now)
    return shown if wanted is None or wanted == now else f"{shown} → {wanted}"
