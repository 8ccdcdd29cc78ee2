"""The section of the rollout. Only the workflow `up` reads it: no resource depends on it."""

from enum import StrEnum

from pydantic import Field

from ebbtide.settings.sections.checked import Settings


class Wave(StrEnum):
    """The waves of a rollout, in order."""

    CANARY = "canary"
    EARLY = "early"
    REST = "rest"


class RolloutSettings(Settings):
    """When a release reaches this stack."""

    wave: Wave = Field(
        default=Wave.REST,
        description="wave of the stack in a rollout; a wave begins when all stacks of the earlier waves have succeeded",
        examples=["canary"],
    )
