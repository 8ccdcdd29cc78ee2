"""Raw objects of the API server and documents of the controller; a key that is missing reads as None."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast

from ebbtide.vocabulary.labels import CLOSED_MINIMUM

Document: TypeAlias = Mapping[str, Any]


def at(document: object, *path: str) -> Any:
    """The value at a path of keys; None where any is missing."""
    for key in path:
        if not isinstance(document, Mapping):
            return None
        document = cast("Document", document).get(key)
    return document


def words_at(document: object, *path: str) -> Mapping[str, str]:
    """The mapping of text to text at a path, as labels and annotations are; empty where there is none."""
    found: Mapping[str, str] | None = at(document, *path)
    return found or {}


def rows_at(document: object, *path: str) -> list[Document]:
    """The objects in the list at a path."""
    found = at(document, *path)
    rows = cast("Sequence[object]", found) if isinstance(found, list) else ()
    return [cast("Document", row) for row in rows if isinstance(row, Mapping)]


def annotations_of(item: Document) -> Mapping[str, str]:
    return words_at(item, "metadata", "annotations")


def labels_of(item: Document) -> Mapping[str, str]:
    return words_at(item, "metadata", "labels")


def max_unavailable_of(budget: Document) -> Any:
    """Of a PodDisruptionBudget. One with neither this number nor a minimum allows no disruption, nor does one whose
    minimum no cluster reaches.
    """
    stated, least = at(budget, "spec", "maxUnavailable"), at(budget, "spec", "minAvailable")
    shut = least is None or (isinstance(least, int) and least >= CLOSED_MINIMUM)
    return 0 if stated is None and shut else stated


def parse_instant(text: object) -> datetime | None:
    """An RFC 3339 instant as the API server and the controller write them; None where there is none."""
    try:
        parsed = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return parsed.astimezone(UTC) if parsed is not None and parsed.tzinfo is not None else None


def rfc3339(instant: datetime) -> str:
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
