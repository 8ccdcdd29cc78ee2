"""Check checkpoints against spot nodes, whose notice is short, and against disks that only one pod may mount."""

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta

from ebbtide.settings.capacity.placement import home_kind
from ebbtide.settings.checks.parsed import CheckRule, ParsedSections
from ebbtide.settings.file.keys import GROUPS, WORKERS, WORKLOADS
from ebbtide.settings.file.problems import Finding
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.text.durations import format_duration
from ebbtide.vocabulary.labels import Category

LONGEST_SPOT_SAVE = timedelta(seconds=100)
"""Part of the two minutes' notice. The remaining time passes until the worker learns of it and requeues its job."""


def _saves_are_short_on_spot(parsed: ParsedSections) -> Iterator[Finding]:
    for name, pool in parsed.stack.workers.items():
        saved = pool.checkpoints
        if saved is not None and parsed.stack.on_spot(pool) and saved.save_within > LONGEST_SPOT_SAVE:
            kind = home_kind(Category.WORKER, pool.gpu.count)
            yield Finding(
                code="spot.long-saves",
                at=(WORKERS, name, "checkpoints", "saveWithin"),
                wanted="at most 100s on spot nodes, which go two minutes after their notice",
                found=format_duration(saved.save_within),
                example="90s",
                hint=f"a state that takes longer to save belongs on a {kind} group",
            )


def _claims_are_for_several_pods(parsed: ParsedSections) -> Iterator[Finding]:
    owned_claims = _claim_patterns(parsed.stack.workloads)
    for name, pool in parsed.stack.workers.items():
        claim = None if pool.checkpoints is None else pool.checkpoints.claim
        for place, pattern in owned_claims.items() if claim is not None else ():
            if pattern.fullmatch(claim or "") is not None:
                yield Finding(
                    code="checkpoints.claim-of-one-pod",
                    at=(WORKERS, name, "checkpoints", "claim"),
                    wanted="a claim that is ReadWriteMany, in the workers' namespace",
                    found=f"{claim!r}, a disk of workloads.{place}, which is ReadWriteOnce and in another namespace",
                    hint="create a claim of a shared file system such as EFS, or use a store",
                )


def _claim_patterns(workloads: Mapping[str, WorkloadSettings]) -> Mapping[str, re.Pattern[str]]:
    """Return a pattern of the names of a stateful set's claims, by the path of the volume."""
    return {
        f"{name}.volumes.{volume}": re.compile(rf"{re.escape(volume)}-{re.escape(name)}-[0-9]+")
        for name, workload in workloads.items()
        for volume, settings in workload.volumes.items()
        if settings.per_pod is not None
    }


def _names_are_free(parsed: ParsedSections) -> Iterator[Finding]:
    for name, pool in parsed.stack.workers.items():
        if pool.checkpoints is not None and name in parsed.names(WORKLOADS):
            yield Finding(
                code="name.taken",
                at=(WORKERS, name),
                wanted="another name than any workload's, for a pool with checkpoints",
                found=f"{name!r}, which is also in {WORKLOADS}",
                example=f"{name}-jobs",
                hint="the controller identifies the budgets that it opens by their names only",
            )


RULES = (
    CheckRule((WORKERS, GROUPS), _saves_are_short_on_spot),
    CheckRule((WORKERS, WORKLOADS), _claims_are_for_several_pods),
    CheckRule((WORKERS,), _names_are_free),
)
