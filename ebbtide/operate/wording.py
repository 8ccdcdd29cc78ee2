"""The controllers' reasons and readings in words. A reason that is not listed is shown unchanged."""

from datetime import timedelta
from typing import Any

from ebbtide.operate.objects import Document, at
from ebbtide.text.durations import whole_minutes

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
    "demand-untrusted": "its queues' counts are not trusted yet, so nothing is lowered",
    "cluster-not-settled": "a rollout or a lagging status: nothing is lowered now",
    "no-safe-stop-declared": "no safe stop is declared (safeStop), so it shrinks only when no job can be lost",
    "grace-period-below-the-longest-job": "its pods get less time to stop than longestJob, so it only grows",
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
    "drain-guard-before-opening": "business hours start soon: drains must have ended by then",
    "pods-budgets-not-open": "it opens after the pods' budgets",
    "another-manager": "another manager writes its disruption budgets, so Ebbtide does not",
    "no-such-nodepool": "it is not in the cluster",
    "nodepools-unknown": "NodePools cannot be read",
    "outside-business-hours": "outside business hours",
    "before-business-hours": "business hours start soon",
    "after-business-hours": "business hours ended recently (sleep.after)",
    "overnight": "its planned night work",
    "before-overnight": "its planned night work starts soon",
    "kept-awake": "an operator asked to keep it awake",
    "wake-asked": "an operator woke it",
    "sleep-asked": "an operator sent it to sleep",
    "in-use": "it is in use",
    "idle-for-long": "idle for long enough",
    "idle-but-recent": "idle, but not for long enough yet",
    "not-known-idle": "it is not known to be idle",
    "changed-recently": "its last change is less than a minute old",
    "never-sleeps": "it never sleeps (sleep.when)",
    "owned-by-an-operator": "an operator owns the object and writes its replicas, so it does not sleep",
    "scaled-by-an-autoscaler": "an autoscaler scales it, so it does not sleep",
    "autoscalers-unknown": "autoscalers of its namespace cannot be read, so it is not sent to sleep",
    "more-than-declared": "it has more pods than the stack file says, and by day none is removed",
    "workload-unknown": "the workload controller does not see it",
    "no-such-workload": "it is not in the cluster",
}


def reason_text(reason: object) -> str:
    return REASONS.get(str(reason), str(reason or ""))


def notes_of(row: Document) -> list[str]:
    """Return the note of a pool or budget, and the reason of its reading unless the note contains it."""
    note, why = str(row.get("note") or ""), str(at(row, "reading", "why") or "")
    return [part for part in (note, "" if why in note else why) if part]


def reading_state(reading: object) -> str:
    """Return `known`, `unknown` or `untrusted` by `kind`, or by the keys if an earlier controller wrote no kind."""
    kind = at(reading, "kind")
    if isinstance(kind, str):
        return kind.lower()
    if at(reading, "seen") is not None:
        return "untrusted"
    return "unknown" if at(reading, "why") is not None or at(reading, "waiting") is None else "known"


def counts_of(reading: object) -> Document:
    """Return the counts of a reading, trusted or not; empty without any."""
    counts: Any = at(reading, "seen") or reading
    return counts if at(counts, "waiting") is not None else {}


def demand_text(reading: object) -> str:
    """Format as `7 waiting, 1 in transit, 2 running`, without parts that are zero."""
    counts = counts_of(reading)
    if not counts:
        return "-"
    words_by_key = [
        ("waiting", "waiting"),
        ("inTransit", "in transit"),
        ("running", "running"),
        ("stale", "stale"),
        ("dueSoon", "due soon"),
    ]
    parts = [f"{counts[key]} {words}" for key, words in words_by_key if counts.get(key)]
    oldest = counts.get("oldestWait")
    if isinstance(oldest, int | float) and counts.get("waiting"):
        parts.append(f"oldest {whole_minutes(timedelta(seconds=oldest))}")
    return ", ".join(parts) or "none"


def arrow(now: Any, target: Any) -> str:
    """Format as `3` or `3 → 5`, with a dash for an unknown value."""
    present = "-" if now is None else str(now)
    return present if target is None or target == now else f"{present} → {target}"


RAY_REASONS = {
    "applied": "its spec is the wanted one",
    "asleep": "nothing asks for it",
    "business-hours": "business hours",
    "cluster-unknown": "the workload controller does not see it",
    "drivers-unknown": "whether its drivers are wanted is not known",
    "drivers-wanted": "a pool of drivers has workers, or wants some",
    **{reason: REASONS[reason] for reason in ("idle-but-recent", "idle-for-long", "not-known-idle")},
    "in-doubt": "the clock or the config is unreliable: nothing is sent to sleep",
    "internal-error": "the workload controller failed on it",
    "kept-awake": "an operator asked to keep it awake",
    "never-sleeps": REASONS["never-sleeps"],
    "no-such-raycluster": "it does not exist",
    "not-decided": "what is wanted cannot be read",
    "old-image": "it runs an old image until it can be interrupted",
    "old-spec": "it runs an old spec until it can be interrupted",
    "paused": "an operator paused it",
    "settling": "its workers go before the rest of the spec is written",
    "spec-awake": "the part of the spec that interrupts nothing was written",
    "spec-done": "the new spec is written: it wakes",
    "spec-first": "its first spec was written",
    "spec-pending": "it was suspended to get a new spec",
    "spec-pending-and-idle": "it is idle, and suspended to get a new spec",
    "spec-pending-in-maintenance": "an operator lets the new spec interrupt it",
    "spec-pending-without-a-head": "it has no head that could run anything, and it was suspended to get a new spec",
    "spec-whole": "the new spec is written while it sleeps",
    "wake-asked": "an operator woke it",
    "write-not-seen-yet": "a change was just written",
}


def ray_reason_text(reason: object) -> str:
    return RAY_REASONS.get(str(reason), str(reason or ""))
