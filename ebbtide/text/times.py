"""Instants as text."""

from datetime import datetime


def parsed_time(text: str) -> datetime | None:
    """Return an ISO 8601 time of 1970 to 2999, with or without a zone; None for other text."""
    try:
        time = datetime.fromisoformat(text.removesuffix(" UTC") + "Z" if text.endswith(" UTC") else text)
    except ValueError:
        return None
    return time if 1970 <= time.year < 3000 else None  # 0001-01-01 is Go's time zero
