"""IANA time zones: known or not, and what was probably meant."""

from difflib import get_close_matches
from functools import cache
from zoneinfo import available_timezones

from ebbtide.settings.wanted import wanted


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def parse_timezone(value: object) -> str:
    """A zone name of the IANA database."""
    if not isinstance(value, str) or value not in _zones():
        near = _meant(str(value))
        raise wanted(
            "an IANA time zone", example="Europe/Berlin", hint=f"did you mean {' or '.join(near)}?" if near else ""
        )
    return value


def _meant(text: str) -> list[str]:
    """Cities first: an operator forgets the continent more often than the city."""
    asked = text.replace(" ", "_").casefold()
    by_city = [zone for zone in sorted(_zones()) if "/" in zone and zone.rpartition("/")[2].casefold() == asked]
    if by_city:
        return by_city[:2]
    folded = {zone.casefold(): zone for zone in sorted(_zones())}
    return [folded[near] for near in get_close_matches(asked, folded, n=1, cutoff=0.7)]
