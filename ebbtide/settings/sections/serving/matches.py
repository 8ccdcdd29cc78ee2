"""Which requests a route takes, in Gateway API's own terms. The routes and the check for conflicts both go by this.

Of two routes with the same match one would never be asked: Gateway API chooses by age, so an update could change which.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ebbtide.settings.sections.serving.routes import MODEL_HEADER, RouteSettings, When


@dataclass(frozen=True, slots=True)
class Match:
    """A prefix of the path, and headers beside it, by name and value."""

    path: str
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> tuple[str, frozenset[tuple[str, str]]]:
        """The same for two that take the same requests: a prefix may end in a slash or not."""
        return self.path.rstrip("/"), frozenset(self.headers)

    @property
    def text(self) -> str:
        """As people know it."""
        return " with ".join((self.path, *(f"{name}: {value}" for name, value in self.headers)))


def matches(route: RouteSettings, when: When | None) -> Sequence[Match]:
    """One of them is enough. A model is named by a header, or next in the path."""
    model = route.model if when is None or when.model is None else when.model
    further = () if when is None or when.header is None else (_named(when.header),)
    if model is None:
        return [Match(route.path, further)]
    below = f"{route.path.rstrip('/')}/{model}"
    return [Match(route.path, ((MODEL_HEADER, model), *further)), Match(below, further)]


def _named(header: str) -> tuple[str, str]:
    name, value = header.split(": ", 1)
    return name, value
