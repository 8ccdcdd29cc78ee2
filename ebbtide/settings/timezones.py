"""IANA time zones: known or not, and what was probably meant."""

from difflib import get_close_matches

from ebbtide.settings.wanted import wanted
from ebbtide.vocabulary.windows import zone_names


def parse_timezone(value: object) -> str:
    """A zone name of the IANA database."""
    if not isinstance(value, str) or value not in zone_names():
        near = _meant(str(value))
        raise wanted(
            "an IANA time zone", example="Europe/Berlin", hint=f"did you mean {' or '.join(near)}?" if near else ""
        )
    return value


def _meant(text: str) -> list[str]:
    """Cities first: an operator forgets the continent more often than the city."""
    asked = text.replace(" ", "_").casefold()
    by_city = [zone for zone in sorted(zone_names()) if "/" in zone and zone.rpartition("/")[2].casefold() == asked]
    if by_city:
        return by_city[:2]
    folded = {zone.casefold(): zone for zone in sorted(zone_names())}
    return [folded[near] for near in get_close_matches(asked, folded, n=1, cutoff=0.7)]
