"""The workload controller's reasons in words. A reason that is not listed is shown as it is."""

REASONS = {
    "applied": "its spec is the wanted one",
    "asleep": "nothing asks for it",
    "business-hours": "business hours",
    "cluster-unknown": "the workload controller does not see it",
    "drivers-unknown": "whether its drivers are wanted is not known",
    "drivers-wanted": "a pool of drivers has workers, or wants some",
    "idle-but-recent": "idle, but not for long enough yet",
    "idle-for-long": "idle for long enough",
    "in-doubt": "the clock or the config is unreliable: nothing is sent to sleep",
    "internal-error": "the workload controller failed on it",
    "kept-awake": "an operator asked to keep it awake",
    "never-sleeps": "it never sleeps (sleep.when)",
    "no-such-raycluster": "it does not exist",
    "not-decided": "what is wanted cannot be read",
    "not-known-idle": "it is not known to be idle",
    "old-image": "it runs an old image until it can be interrupted",
    "old-spec": "it runs an old spec until it can be interrupted",
    "paused": "an operator paused it",
    "settling": "its workers go before the rest of the spec is written",
    "spec-awake": "a part of the spec was written that interrupts nothing",
    "spec-done": "the new spec is written: it wakes",
    "spec-first": "its first spec was written",
    "spec-pending": "it was suspended to get a new spec",
    "spec-pending-and-idle": "it is idle, and suspended to get a new spec",
    "spec-pending-in-maintenance": "an operator lets the new spec interrupt it",
    "spec-pending-without-a-head": "no head is there that could run anything, and it was suspended to get a new spec",
    "spec-whole": "the new spec is written while it sleeps",
    "wake-asked": "an operator woke it",
    "write-not-seen-yet": "a change was just written",
}


def reason_text(reason: object) -> str:
    return REASONS.get(str(reason), str(reason or ""))
