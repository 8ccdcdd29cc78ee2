"""A field of an autoscaler that holds how many pods there are at least, and what an object says of it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ebbtide.vocabulary.labels import PREFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What is kept of an autoscaler. `pods` and `most` are None where they cannot be read."""

    annotations: Mapping[str, str]
    pods: int | None  # at least, as it is now
    most: int | None
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """`least` and `most` are keys of the spec; what is left out means `if_absent` and `most_if_absent`."""

    api: str
    kind: str
    least: str
    most: str
    if_absent: int
    most_if_absent: int | None

    def path(self, namespace: str) -> str:
        return f"/apis/{self.api}/namespaces/{namespace}/{self.kind.lower()}s"

    def observed(self, item: Mapping[str, Any]) -> Observed:
        annotations: Mapping[str, str] = item["metadata"].get("annotations") or {}
        spec: Mapping[str, Any] = item.get("spec") or {}
        return Observed(
            annotations={key: value for key, value in annotations.items() if key.startswith(PREFIX)},
            pods=_whole(spec.get(self.least, self.if_absent)),
            most=_whole(spec.get(self.most, self.most_if_absent)),
            version=item["metadata"]["resourceVersion"],
        )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
