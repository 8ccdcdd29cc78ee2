"""Where a service's scale stands in the stack file's text, and the changes that make the file say another.

A setting is a stack file: what the changes make of its values is checked as any other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from ebbtide.settings import StackSettings
from ebbtide.settings.file.contents import Beside, no_files
from ebbtide.settings.file.document import read_document
from ebbtide.settings.file.entries import SERVICES, VARIANTS
from ebbtide.settings.file.problems import Location, value_at
from ebbtide.settings.load import parse_stack
from ebbtide.settings.patch import Change, exchanged, patched
from ebbtide.settings.sections.serving.services import ALONE, ServiceSettings, VariantSettings, pod_name


@dataclass(frozen=True, kw_only=True)
class StackText:
    """A sound stack file as it is written, which a setting is a change of."""

    text: str
    file: str  # what messages and patches call it
    stack: str
    beside: Beside = no_files

    @cached_property
    def settings(self) -> StackSettings:
        return self.with_changes(())

    @cached_property
    def values(self) -> Mapping[str, object]:
        """Below `config:`, as YAML reads them."""
        return read_document(self.text, self.file).config

    def with_changes(self, changes: Sequence[Change]) -> StackSettings:
        """By the values alone: a text of many services takes long to be read. Raises `StackInvalid`."""
        values = self.values
        for change in changes:
            values = exchanged(values, change.at, change.after)
        return parse_stack(values, stack=self.stack, file=self.file, beside=self.beside)

    def changed(self, changes: Sequence[Change]) -> str:
        return patched(self.text, self.file, changes) if changes else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """What may be advised of the key `scale`. `metrics` as they are written: `{"inFlight": 3, "latency": "300ms"}`."""

    metrics: Mapping[str, object]
    min: int
    max: int

    @property
    def text(self) -> str:
        told = {"min": self.min, "max": self.max, **self.metrics}
        return ", ".join(f"{key} {_plain(value)}" for key, value in told.items())


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return str(cast("Mapping[str, object]", value).get("target", ""))
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the scale of a service's variant stands in the stack file, and what it says."""

    service: str
    variant: str
    at: Location
    own: bool  # False: it stands at the service, for several variants
    written: Mapping[str, Any]  # the key `scale`; nothing where it is left out
    settings: VariantSettings
    of: ServiceSettings

    @property
    def pods(self) -> str:
        return pod_name(self.service, self.variant)

    @property
    def scale(self) -> Scale:
        metrics: Mapping[str, object] = self.written.get("metrics") or {}
        return Scale(metrics=metrics, min=self.settings.scale.min, max=self.settings.scale.max)


def place_of(stack: StackText, pods: str) -> Place | None:
    """Of the variant whose pods have this name."""
    for service, it in stack.settings.services.items():
        for variant, its in it.variants.items():
            if pod_name(service, variant) == pods:
                return _place(stack, service, variant, it, its)
    return None


def _place(stack: StackText, name: str, variant: str, service: ServiceSettings, its: VariantSettings) -> Place:
    at_service: Location = (SERVICES, name, "scale")
    at_variant: Location = (SERVICES, name, VARIANTS, variant, "scale")
    own = variant != ALONE and value_at(stack.values, at_variant) is not None
    alone = len(service.variants) == 1
    return Place(
        service=name,
        variant=variant,
        at=at_service if variant == ALONE or (alone and not own) else at_variant,
        own=own or alone,
        written=cast("Mapping[str, Any]", value_at(stack.values, at_variant if own else at_service) or {}),
        settings=its,
        of=service,
    )


def changes_to(place: Place, wanted: Scale, reason: str) -> list[Change]:
    """What has to be written so that the file says this; nothing where it does.

    Where the scale stands at the service for several variants, the variant gets one of its own.
    """
    now, written = place.scale, place.written
    if wanted == now:
        return []
    if not place.own or not written:
        whole = {**written, "metrics": dict(wanted.metrics), "min": wanted.min, "max": wanted.max}
        return [Change(at=place.at, before=None, after=whole, reason=reason)]
    found: list[Change] = []
    if wanted.metrics.keys() == now.metrics.keys():
        found += [
            Change(at=(*place.at, "metrics", key), before=now.metrics[key], after=value, reason=reason)
            for key, value in wanted.metrics.items()
            if value != now.metrics[key]
        ]
    else:
        at = (*place.at, "metrics")
        found.append(Change(at=at, before=written.get("metrics"), after=dict(wanted.metrics), reason=reason))
    for key, before, after in (("min", now.min, wanted.min), ("max", now.max, wanted.max)):
        if before != after:
            found.append(Change(at=(*place.at, key), before=written.get(key), after=after, reason=reason))
    return found
