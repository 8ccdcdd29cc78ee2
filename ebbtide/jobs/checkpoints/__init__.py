"""Checkpoints: a job stores its state, and resumes there after any failure of its machine.

with checkpoint("s3://bucket/team", every="5m") as saved:
    state = saved.load(default={"epoch": 0})
    for epoch in range(state["epoch"], 100):
        state = step(state)
        saved.offer(state)
"""

from ebbtide.jobs.checkpoints.codecs import Codec
from ebbtide.jobs.checkpoints.errors import (
    CannotLoad,
    CannotSave,
    CheckpointError,
    LeaveJob,
    Paused,
    StoreError,
    Superseded,
)
from ebbtide.jobs.checkpoints.saved import Saved, checkpoint

__all__ = [
    "CannotLoad",
    "CannotSave",
    "CheckpointError",
    "Codec",
    "LeaveJob",
    "Paused",
    "Saved",
    "StoreError",
    "Superseded",
    "checkpoint",
]
