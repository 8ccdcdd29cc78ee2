"""The section of the bundled controller."""

from datetime import timedelta
from importlib.metadata import version
from typing import Annotated

from pydantic import Field

from ebbtide.settings.sections.checked import Settings
from ebbtide.settings.sections.types import Image, Positive, PositiveDuration

CONTROLLER_IMAGE = f"ghcr.io/ebbtide/controller:{version('ebbtide')}"


class ControllerSettings(Settings):
    """The bundled controller."""

    image: Image = Field(
        default=CONTROLLER_IMAGE,
        description="its image; default: this release's. Only a digest never changes",
        examples=["registry.example.com/ebbtide/controller:1.0.0"],
    )
    closing_guard: PositiveDuration = Field(
        default=timedelta(minutes=15),
        description="budgets close this long before opening time: a drain and a start must fit",
        examples=["15m"],
    )
    node_startup: PositiveDuration = Field(
        default=timedelta(minutes=5),
        description="from asking for a node to a ready pod on it; planned work is started this much earlier",
        examples=["5m"],
    )
    replicas: Annotated[Positive, Field(le=2)] = Field(
        default=1,
        description="pods; one acts. A second takes over at once when the first one's node dies",
        examples=["1"],
    )
