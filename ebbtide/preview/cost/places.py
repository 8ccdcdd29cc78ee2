"""Cheaper places for the pods of a stack, a sentence each with the line to write."""

from collections.abc import Iterator

from ebbtide.preview.cost.alternatives import MOST, WORTH_SAYING, Alternative, cheaper_places
from ebbtide.settings.model import StackSettings
from ebbtide.text.counts import percent
from ebbtide.text.money import HOURS_PER_MONTH, whole_dollars


def about_places(settings: StackSettings, year: int) -> Iterator[str]:
    for alternative in cheaper_places(settings, year)[:MOST]:
        if alternative.share >= WORTH_SAYING:
            yield f"{alternative.written}: {_saving(alternative)} by packing alone, on demand"


def _saving(alternative: Alternative) -> str:
    share, usd = percent(alternative.share), alternative.usd_per_hour
    if alternative.for_pods_that_always_run:
        return f"the nodes that always run cost about {whole_dollars(usd * HOURS_PER_MONTH)} USD a month less ({share})"
    return f"while all pods run, their nodes cost about {usd:,.2f} USD an hour less ({share})"
