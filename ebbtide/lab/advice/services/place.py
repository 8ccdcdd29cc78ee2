"""The position of a service's scale in the stack file, and the changes that set another scale.

A candidate setting is a changed stack file, and is validated like any other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from ebbtide.settings import StackSettings
from ebbtide.settings.file.contents import FileReader
from ebbtide.settings.file.keys import SERVICES, VARIANTS
from ebbtide.settings.file.problems import Location, value_at
from ebbtide.settings.load import StackFile, file_of_text
from ebbtide.settings.patch import Change, exchanged, patched
from ebbtide.settings.sections.serving.services import SINGLE_VARIANT, ServiceSettings, VariantSettings, pod_name


@dataclass(frozen=True, kw_only=True)
class StackText:
    """Text of a valid stack file; a candidate setting is a list of changes to it."""

    text: str
    file: str  # its name in messages and patches
    stack: str
    reader: FileReader

    @cached_property
    def settings(self) -> StackSettings:
        return self.with_changes(())

    @cached_property
    def source(self) -> StackFile:
        return file_of_text(self.text, stack=self.stack, file=self.file, reader=self.reader)

    @property
    def values(self) -> Mapping[str, object]:
        """Values of the stack file and its bases, as YAML reads them."""
        return self.source.merged.config

    def with_changes(self, changes: Sequence[Change]) -> StackSettings:
        """Apply the changes only to the values, since parsing a large text is slow. Raises `StackInvalid`."""
        values = self.values
        for change in changes:
            values = exchanged(values, change.at, change.after)
        return self.source.settings(values)

    def changed(self, changes: Sequence[Change]) -> str:
        return patched(self.text, self.file, changes, self.reader) if changes else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantScale:
    """The part of the key `scale` that advice may change; `metrics` as written: `{"inFlight": 3, "latency": "9ms"}`."""

    metrics: Mapping[str, object]
    min: int
    max: int

    @property
    def text(self) -> str:
        entries = {"min": self.min, "max": self.max, **self.metrics}
        return ", ".join(f"{key} {_plain(value)}" for key, value in entries.items())


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return str(cast("Mapping[str, object]", value).get("target", ""))
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleEntry:
    """Position and content of a variant's scale in the stack file."""

    service: str
    variant: str
    at: Location
    own: bool  # False: several variants share the service's scale
    written: Mapping[str, Any]  # the key `scale`; empty if it is left out
    settings: VariantSettings
    of: ServiceSettings

    @property
    def pods(self) -> str:
        return pod_name(self.service, self.variant)

    @property
    def scale(self) -> VariantScale:
        metrics: Mapping[str, object] = self.written.get("metrics") or {}
        return VariantScale(metrics=metrics, min=self.settings.scale.min, max=self.settings.scale.max)


def place_of(stack: StackText, pods: str) -> ScaleEntry | None:
    """Return the place of the variant whose pods have this name."""
    for name, service in stack.settings.services.items():
        for variant, settings in service.variants.items():
            if pod_name(name, variant) == pods:
                return _place(stack, name, variant, service, settings)
    return None


def _place(
    stack: StackText, name: str, variant: str, service: ServiceSettings, settings: VariantSettings
) -> ScaleEntry:
    at_service: Location = (SERVICES, name, "scale")
    at_variant: Location = (SERVICES, name, VARIANTS, variant, "scale")
    own = variant != SINGLE_VARIANT and value_at(stack.values, at_variant) is not None
    alone = len(service.variants) == 1
    return ScaleEntry(
        service=name,
        variant=variant,
        at=at_service if variant == SINGLE_VARIANT or (alone and not own) else at_variant,
        own=own or alone,
        written=cast("Mapping[str, Any]", value_at(stack.values, at_variant if own else at_service) or {}),
        settings=settings,
        of=service,
    )


def changes_to(place: ScaleEntry, scale: VariantScale, reason: str) -> list[Change]:
    """Return the changes that set this scale; none if the file has it.

    If the service has the scale for several variants, the variant gets its own.
    """
    now, written = place.scale, place.written
    if scale == now:
        return []
    if not place.own or not written:
        section = {**written, "metrics": dict(scale.metrics), "min": scale.min, "max": scale.max}
        return [Change(at=place.at, before=None, after=section, reason=reason)]
    changes: list[Change] = []
    if scale.metrics.keys() == now.metrics.keys():
        changes += [
            Change(at=(*place.at, "metrics", key), before=now.metrics[key], after=value, reason=reason)
            for key, value in scale.metrics.items()
            if value != now.metrics[key]
        ]
    else:
        at = (*place.at, "metrics")
        changes.append(Change(at=at, before=written.get("metrics"), after=dict(scale.metrics), reason=reason))
    for key, before, after in (("min", now.min, scale.min), ("max", now.max, scale.max)):
        if before != after:
            changes.append(Change(at=(*place.at, key), before=written.get(key), after=after, reason=reason))
    return changes
