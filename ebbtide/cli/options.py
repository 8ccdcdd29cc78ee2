"""Options that several commands read alike."""

from datetime import timedelta

import typer

from ebbtide.settings.types import parse_positive_duration


def length(text: str) -> timedelta:
    """A duration as stack files write it. Raises `typer.BadParameter`."""
    try:
        return parse_positive_duration(text)
    except ValueError:
        raise typer.BadParameter(f"wanted a duration above zero, found {text!r} (for example 8h)") from None
