"""Checkpoints against the rest of the stack: the notice of spot nodes, and the disks that belong to one pod alone."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from ebbtide.settings.file.problems import Finding, Location, value_at
from ebbtide.settings.sections.checked import readable
from ebbtide.settings.sections.checkpoints import CheckpointSettings
from ebbtide.units.durations import format_duration

LONGEST_SPOT_SAVE = timedelta(seconds=100)
"""Of the two minutes' notice: the rest goes by until the worker is told, and until it has put its job back."""

_WORKLOADS = "ebbtide:workloads"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointsDraft:
    required: bool | None
    save_within: timedelta | None
    claim: str | None  # None where there is a store, too

    @property
    def may_suit_spot(self) -> bool:
        """For jobs of any length. What could not be read is given the doubt, and a long save has its own finding."""
        return self.required is not False


def checkpoints_draft(pool: object) -> CheckpointsDraft | None:
    """Of a pool as the file has it; None without the section."""
    raw = value_at(pool, ("checkpoints",))
    if raw is None:
        return None
    read = readable(CheckpointSettings, raw)
    return CheckpointsDraft(required=read.get("required"), save_within=read.get("save_within"), claim=read.get("claim"))


def own_claims(config: Mapping[str, object]) -> Mapping[str, re.Pattern[str]]:
    """By the place of each volume whose disks a stateful set of the stack claims: how those claims are called."""
    return {
        f"{name}.volumes.{volume}": re.compile(rf"{re.escape(str(volume))}-{re.escape(str(name))}-[0-9]+")
        for name, workload in _entries(config.get(_WORKLOADS)).items()
        for volume, raw in _entries(value_at(workload, ("volumes",))).items()
        if value_at(raw, ("perPod",)) is not None
    }


def _entries(value: object) -> Mapping[object, object]:
    return cast("Mapping[object, object]", value) if isinstance(value, Mapping) else {}


def save_too_long_for_spot(at: Location, draft: CheckpointsDraft | None) -> Iterator[Finding]:
    if draft is not None and draft.save_within is not None and draft.save_within > LONGEST_SPOT_SAVE:
        yield Finding(
            code="spot.long-saves",
            at=(*at, "checkpoints", "saveWithin"),
            wanted="at most 100s on spot nodes, which go two minutes after their notice",
            found=format_duration(draft.save_within),
            example="90s",
            hint="a state that takes longer to save belongs on a flexible group",
        )


def claim_of_one_pod(
    at: Location, draft: CheckpointsDraft | None, own: Mapping[str, re.Pattern[str]]
) -> Iterator[Finding]:
    claim = None if draft is None else draft.claim
    for place, named in own.items() if claim is not None else ():
        if named.fullmatch(claim or "") is not None:
            yield Finding(
                code="checkpoints.claim-of-one-pod",
                at=(*at, "checkpoints", "claim"),
                wanted="a claim that is ReadWriteMany, in the workers' namespace",
                found=f"{claim!r}, a disk of workloads.{place}, which is ReadWriteOnce and in another namespace",
                hint="make a claim of a file system, of EFS say, or take a store",
            )
