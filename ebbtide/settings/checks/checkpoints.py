"""Checkpoints against the rest of the stack: the notice of spot nodes, and the disks that belong to one pod alone."""

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta

from ebbtide.settings.checks.read import Read, Rule
from ebbtide.settings.file.keys import GROUPS, WORKERS, WORKLOADS
from ebbtide.settings.file.problems import Finding
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.units.durations import format_duration

LONGEST_SPOT_SAVE = timedelta(seconds=100)
"""Of the two minutes' notice: the rest goes by until the worker is told, and until it has put its job back."""


def _saves_are_short_on_spot(read: Read) -> Iterator[Finding]:
    for name, pool in read.stack.workers.items():
        saved = pool.checkpoints
        if saved is not None and read.stack.on_spot(pool) and saved.save_within > LONGEST_SPOT_SAVE:
            yield Finding(
                code="spot.long-saves",
                at=(WORKERS, name, "checkpoints", "saveWithin"),
                wanted="at most 100s on spot nodes, which go two minutes after their notice",
                found=format_duration(saved.save_within),
                example="90s",
                hint="a state that takes longer to save belongs on a flexible group",
            )


def _claims_are_for_several_pods(read: Read) -> Iterator[Finding]:
    own = _own_claims(read.stack.workloads)
    for name, pool in read.stack.workers.items():
        claim = None if pool.checkpoints is None else pool.checkpoints.claim
        for place, named in own.items() if claim is not None else ():
            if named.fullmatch(claim or "") is not None:
                yield Finding(
                    code="checkpoints.claim-of-one-pod",
                    at=(WORKERS, name, "checkpoints", "claim"),
                    wanted="a claim that is ReadWriteMany, in the workers' namespace",
                    found=f"{claim!r}, a disk of workloads.{place}, which is ReadWriteOnce and in another namespace",
                    hint="create a claim of a shared file system such as EFS, or use a store",
                )


def _own_claims(workloads: Mapping[str, WorkloadSettings]) -> Mapping[str, re.Pattern[str]]:
    """By the place of each volume whose disks a stateful set of the stack claims: how those claims are called."""
    return {
        f"{name}.volumes.{volume}": re.compile(rf"{re.escape(volume)}-{re.escape(name)}-[0-9]+")
        for name, workload in workloads.items()
        for volume, given in workload.volumes.items()
        if given.per_pod is not None
    }


def _names_are_free(read: Read) -> Iterator[Finding]:
    for name, pool in read.stack.workers.items():
        if pool.checkpoints is not None and name in read.names(WORKLOADS):
            yield Finding(
                code="name.taken",
                at=(WORKERS, name),
                wanted="another name than any workload's, for a pool with checkpoints",
                found=f"{name!r}, which is also in {WORKLOADS}",
                example=f"{name}-jobs",
                hint="the controller identifies the budgets that it opens by their names only",
            )


RULES = (
    Rule((WORKERS, GROUPS), _saves_are_short_on_spot),
    Rule((WORKERS, WORKLOADS), _claims_are_for_several_pods),
    Rule((WORKERS,), _names_are_free),
)
