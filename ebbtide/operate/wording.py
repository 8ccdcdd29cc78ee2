"""The controller's reasons and readings in words. A reason that is not listed is shown as it is."""

from datetime import timedelta
from typing import Any

from ebbtide.operate.objects import Document, at
from ebbtide.units.durations import whole_minutes

REASONS = {
    "demand-above-capacity": "more jobs than its workers take",
    "below-the-planned-floor": "its planned floor is higher (planned work, or the start of business hours)",
    "below-the-minimum": "its minimum is higher",
    "one-worker-for-stale-or-due-jobs": "stale or due jobs need a free worker to move them",
    "a-worker-is-out-of-reach": "a worker's node does not answer: the worker is replaced, and nothing is lowered",
    "workers-fail-to-start": "its workers crash repeatedly or cannot get their image; more would not help",
    "at-target": "it has what it needs",
    "demand-low-but-recent": "demand fell, but the stabilization window has not passed yet",
    "every-spare-worker-may-be-busy": "no worker is proven idle yet, and busy ones are never stopped",
    "demand-stayed-low": "demand stayed low for the stabilization window",
    "empty-for-the-stabilization-window": "there were no jobs for the stabilization window",
    "demand-unknown": "its queues could not be read, so the last decision stays",
    "demand-untrusted": "what Redis reports is not trusted yet, so nothing is lowered",
    "cluster-not-settled": "a rollout or a lagging status: nothing is lowered now",
    "no-safe-stop-declared": "no safe stop is declared (safeStop), so it shrinks only when no job can be lost",
    "growth-limit-of-this-minute": "its growth limit for this minute is reached",
    "cluster-creates-no-more-pods": "the cluster creates no more pods",
    "kept-up-by-an-operator": "an operator asked to keep its workers",
    "paused-by-an-operator": "an operator paused it",
    "another-writer-of-replicas": "another manager writes its replicas, so the controller does not",
    "clock-or-config-in-doubt": "the clock or the config is unreliable: nothing is lowered, nothing is opened",
    "not-in-the-cluster": "it is not in the cluster",
    "disruption-window-open": "the disruption window is open",
    "jobs-may-be-interrupted-at-any-time": "its jobs have checkpoints and may be interrupted at any time",
    "business-hours": "business hours",
    "closing-guard-before-opening": "business hours start soon: evicted pods must be back by then",
    "budget-status-not-caught-up": "its status has not caught up yet",
    "controller-stops": "the controller is shutting down",
    "held-by-an-operator": "an operator asked to keep it closed",
}


def reason_text(reason: object) -> str:
    return REASONS.get(str(reason), str(reason or ""))


def reading_state(reading: object) -> str:
    """`known`, `unknown` or `untrusted`: by its `kind`, or by its keys where an earlier controller wrote none."""
    kind = at(reading, "kind")
    if isinstance(kind, str):
        return kind.lower()
    if at(reading, "seen") is not None:
        return "untrusted"
    return "unknown" if at(reading, "why") is not None or at(reading, "waiting") is None else "known"


def counts_of(reading: object) -> Document:
    """The counts of a reading, trusted or not; empty where there are none."""
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
        parts.append(f"oldest {whole_minutes(timedelta(seconds=oldest))}")
    return ", ".join(parts) or "none"


def arrow(now: Any, wanted: Any) -> str:
    """`3` or `3 → 5`; a dash for what is not known."""
    shown = "-" if now is None else str(now)
    return shown if wanted is None or wanted == now else f"{shown} → {wanted}"
