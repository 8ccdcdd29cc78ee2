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
        description="image of the controller; default: this release's. Only a digest never changes",
        examples=["registry.example.com/ebbtide/controller:1.0.0"],
    )
    closing_guard: PositiveDuration = Field(
        default=timedelta(minutes=15),
        description="time before opening at which budgets close; enough for a drain and the start of a pod",
        examples=["15m"],
    )
    node_startup: PositiveDuration = Field(
        default=timedelta(minutes=5),
        description="time from the request for a node to a ready pod on it; planned work starts this much earlier",
        examples=["5m"],
    )
    replicas: Annotated[Positive, Field(le=2)] = Field(
        default=1,
        description="pods, one of which is active. A second one takes over immediately if the first one's node fails",
        examples=["1"],
    )
