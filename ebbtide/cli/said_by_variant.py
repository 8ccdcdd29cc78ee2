"""What is said of single variants on the command line: `--service-time large=60ms`, `--share large=20%`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import typer

from ebbtide.advice.services.variants import ServiceTime, variant_names
from ebbtide.cli.service_history import Found
from ebbtide.settings.sections.serving.services import ServiceSettings
from ebbtide.settings.sections.types import parse_latency, parse_percent


@dataclass(frozen=True, slots=True)
class SaidByVariant:
    """What is said of single variants, by their key."""

    stated_times: Mapping[str, timedelta]
    stated_shares: Mapping[str, float]

    @classmethod
    def of(cls, name: str, service: ServiceSettings, times: Sequence[str], shares: Sequence[str]) -> "SaidByVariant":
        called = dict(variant_names(service, name))
        found_times: dict[str, timedelta] = {}
        found_shares: dict[str, float] = {}
        for text in times:
            variant, value = _pair("--service-time", text, called, "60ms")
            found_times[variant] = _parsed("--service-time", text, value, parse_latency, "60ms")
        for text in shares:
            variant, value = _pair("--share", text, called, "20%")
            found_shares[variant] = _parsed("--share", text, value, parse_percent, "20%") / 100
        if sum(found_shares.values()) > 1 + 1e-9:
            raise typer.BadParameter(f"--share: wanted at most 100% in all, found {', '.join(shares)}")
        return cls(found_times, found_shares)

    def times(self, history: Found) -> Mapping[str, ServiceTime]:
        """Of those that neither was said nor recorded the stack file's holds."""
        recorded = {
            variant: ServiceTime(timedelta(seconds=it), "at quiet times, by Prometheus")
            for variant, it in history.latencies.items()
        }
        stated = {variant: ServiceTime(it, "--service-time") for variant, it in self.stated_times.items()}
        return {**recorded, **stated}

    def shares(self, history: Found) -> Mapping[str, float]:
        return self.stated_shares or history.shares


_Value = TypeVar("_Value")


def _pair(option: str, text: str, called: Mapping[str, str], example: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or name not in called:
        known = ", ".join(called)
        raise typer.BadParameter(
            f"{option}: wanted VARIANT={example}, with one of {known}, found {text!r} (for example "
            f"{next(iter(called))}={example})"
        )
    return called[name], value


def _parsed(option: str, text: str, value: str, parse: Callable[[object], _Value], example: str) -> _Value:
    try:
        return parse(value)
    except ValueError:
        raise typer.BadParameter(f"{option}: wanted VARIANT={example}, found {text!r}") from None
