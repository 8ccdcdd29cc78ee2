"""Errors of checkpoints, by what happens next.

LeaveJob            the job ends here without a result; the worker decides where it goes (never caught by a job)
├── Paused          the worker stops, and the state is saved: back to the head of the queue
├── Superseded      another attempt of the same job is newer: this one leaves everything to it
└── NeverOpened     it has opened no checkpoint in time, and its pool requires one: it fails with this one line
CheckpointError     the job fails with this one line
├── CannotSave      the state itself cannot be written; it would fail again
├── CannotLoad      there are checkpoints, and none of them can be used
└── StoreError      the store cannot be used now; a running job continues and tries again at its next offer
"""


class LeaveJob(BaseException):
    """Not an `Exception`: a training loop that skips a bad batch with `except Exception` must not swallow it."""


class Paused(LeaveJob):
    pass


class Superseded(LeaveJob):
    pass


class NeverOpened(LeaveJob):
    pass


class CheckpointError(Exception):
    pass


class CannotSave(CheckpointError):
    pass


class CannotLoad(CheckpointError):
    pass


class StoreError(CheckpointError):
    def __init__(self, store: str, problem: str) -> None:
        super().__init__(f"checkpoints in {store}: {problem}")
