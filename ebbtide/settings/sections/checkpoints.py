"""The section of a pool's checkpoints: where jobs store their state, how often, and the consequences for workers.

Without `required` a worker keeps the grace period of its longest job, and exits early once its job has saved. Only with
`required` the grace period is the time of a save: then a job that opened no checkpoint in time is failed, since
stopping its worker would lose its work.
"""

import json
import re
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar, TypeAlias

from pydantic import BeforeValidator, Field, Strict

from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.checked import Check, Settings
from ebbtide.settings.sections.grammar import choice, exactly_one, text_schema
from ebbtide.settings.sections.pods.aws import parse_bucket
from ebbtide.settings.sections.pods.env import ObjectName
from ebbtide.settings.sections.types import PositiveDuration

CHECKPOINTS_ENV = "EBBTIDE_CHECKPOINTS"
"""Variable with the location of checkpoints for the jobs' library, as JSON."""

CHECKPOINTS_VOLUME = "ebbtide-checkpoints"
CHECKPOINTS_PATH = "/var/lib/ebbtide/checkpoints"
"""Volume of a claim, and its mount path."""

_STORE = r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9!_.*'()-]+)*/*$"
_SAFE_PART = r"[A-Za-z0-9!_.*'()-]+"
"""Source: Amazon S3 user guide, "Naming Amazon S3 objects": safe characters."""
_LONGEST_PREFIX = 512
"""Part of the 1,024 bytes of a key; customer, pool, job and attempt need the rest."""


class Interruptible(StrEnum):
    IN_WINDOW = "inWindow"
    ALWAYS = "always"


def _store(value: object) -> str:
    """Accept `s3://bucket` or `s3://bucket/prefix`, without a trailing slash."""
    example = "s3://acme-checkpoints"
    if not isinstance(value, str) or not value.startswith("s3://"):
        hint = "a volume is named by claim"
        expected = "a bucket of S3: s3://BUCKET or s3://BUCKET/PREFIX"
        raise wanted("checkpoints.store", expected, example=example, hint=hint)
    bucket, _, prefix = value.removeprefix("s3://").rstrip("/").partition("/")
    parts = prefix.split("/") if prefix else []
    if any(re.fullmatch(_SAFE_PART, part) is None or part in (".", "..") for part in parts):
        expected = "a prefix of parts between single slashes: letters, digits and any of !_.*'()-, none of them . or .."
        raise wanted("checkpoints.store", expected, example=f"{example}/prod")
    if len(prefix) > _LONGEST_PREFIX:
        expected = f"a prefix of at most {_LONGEST_PREFIX} characters: a key of S3 ends at 1024 bytes"
        raise wanted("checkpoints.store", expected, found=f"{len(prefix)} characters", example=f"{example}/prod")
    return "/".join(["s3:/", parse_bucket(bucket), *parts])


Store: TypeAlias = Annotated[str, BeforeValidator(_store), text_schema(_STORE)]


def _saved_before_the_next(every: timedelta, save_within: timedelta) -> None:
    if every < save_within:
        expected = "at least saveWithin: with less the next save may be due before the last one has ended"
        raise wanted("checkpoints.every-too-short", expected, example="5m", at="every")


class CheckpointSettings(Settings):
    """Checkpoints of a pool's jobs, so that an interrupted job resumes."""

    checks: ClassVar[tuple[Check, ...]] = (
        exactly_one("store", "claim", of="checkpoints", example="{ store: s3://acme-checkpoints }"),
        Check(("every", "save_within"), _saved_before_the_next),
    )

    store: Store | None = Field(
        default=None,
        description="an S3 bucket with an optional prefix, to which customer and pool are appended; "
        "alternative to claim",
        examples=["s3://acme-checkpoints/prod"],
    )
    claim: ObjectName | None = Field(
        default=None,
        description="an existing PersistentVolumeClaim in the workers' namespace. It must be ReadWriteMany, "
        "since a job may resume on another node; alternative to store",
        examples=["checkpoints-efs"],
    )
    every: PositiveDuration = Field(
        default=timedelta(minutes=5),
        description="usual time between two saves; a killed worker repeats at most this much work",
        examples=["5m"],
    )
    save_within: PositiveDuration = Field(
        default=timedelta(seconds=90),
        description="longest duration of a save; at most 100s on spot nodes, which stop two minutes after their notice",
        examples=["90s"],
    )
    required: Annotated[bool, Strict()] = Field(
        default=False,
        description="a stopped worker gets saveWithin instead of longestJob, and a job without a checkpoint "
        "after openWithin fails",
        examples=["true"],
    )
    open_within: PositiveDuration = Field(
        default=timedelta(minutes=10),
        description="with required: longest time until a job opens its checkpoint, for jobs that load data first",
        examples=["10m"],
    )
    interruptible: Annotated[Interruptible, *choice(*Interruptible, planned={})] = Field(
        default=Interruptible.IN_WINDOW,
        description="when a worker may be evicted: in the disruption window, one at a time, or always, "
        "including business hours",
        examples=["always"],
    )

    @property
    def bucket(self) -> str | None:
        return None if self.store is None else self.store.removeprefix("s3://").partition("/")[0]

    def variable(self, customer: str, pool: str) -> str:
        """Return the value of `CHECKPOINTS_ENV`; durations in seconds."""
        where = CHECKPOINTS_PATH if self.store is None else self.store
        return json.dumps(
            {
                "store": f"{where}/{customer}/{pool}",
                "every": int(self.every.total_seconds()),
                "saveWithin": int(self.save_within.total_seconds()),
                "required": self.required,
                "openWithin": int(self.open_within.total_seconds()),
            }
        )
