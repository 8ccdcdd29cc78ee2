"""All customers in one table, from their stack files: image, version, place, business hours, cost of nodes, warnings.

Offline, and without rendering: two hundred stacks take seconds. Time is an argument.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from ebbtide.preview.cost.monthly import GroupCost, group_costs, sum_known, unpriced
from ebbtide.preview.render.cost import ALWAYS
from ebbtide.preview.render.words import stacks_text
from ebbtide.prices.missing import how_to_price, named
from ebbtide.prices.tables import place_in_use
from ebbtide.settings import Caution, StackInvalid, StackSettings, warnings_of
from ebbtide.settings.checks.customers import shared_names
from ebbtide.settings.load import read_stack
from ebbtide.text.counts import several
from ebbtide.text.money import whole_dollars
from ebbtide.text.records import plain_values
from ebbtide.text.sheet import Sheet, left, right
from ebbtide.text.terminal import sheet_table

SCHEMA = 1
_DIGEST = 12  # characters of a digest, enough to distinguish images


@dataclass(frozen=True, slots=True, kw_only=True)
class BusinessHoursNow:
    timezone: str
    open: bool
    until: datetime | None  # in the stack's zone; None if the state never changes


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCost:
    """US dollars a month of the node groups; None if no group has a price."""

    always: float | None  # all pods at their minimum, by the calendar
    at_min: float | None  # all groups at their min; for one release
    at_max: float | None
    without: tuple[str, ...]  # groups without a price, which the sums lack
    estimated: tuple[str, ...]  # groups with an estimated price
    prices_of: tuple[str, ...]  # ISO dates


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerRow:
    """One stack. If its file is invalid, only the problems are known."""

    stack: str
    customer: str = ""
    place: str = ""  # the AWS region, or the context of an existing cluster
    cluster_version: str = ""  # "" for an existing cluster
    controller_image: str = ""
    hours: BusinessHoursNow | None = None
    nodes: NodeCost | None = None  # None also for an existing cluster
    warnings: tuple[str, ...] = ()
    blocked: bool = False
    problems: tuple[str, ...] = ()

    @property
    def passes(self) -> bool:
        """True if `ebbtide check` passes."""
        return not self.blocked and not self.problems


def customer_rows(stacks: Sequence[str], now: datetime, root: Path | None = None) -> tuple[CustomerRow, ...]:
    """One row for each stack, in their order."""
    settings: dict[str, StackSettings] = {}
    secrets: dict[str, Sequence[Caution]] = {}
    problems: dict[str, tuple[str, ...]] = {}
    for stack in stacks:
        try:
            stack_file = read_stack(stack, root)
            settings[stack] = stack_file.settings()
            secrets[stack] = stack_file.secret_cautions()
        except StackInvalid as invalid:
            problems[stack] = tuple(map(str, invalid.problems))
    shared = shared_names(tuple(settings.values()))
    return tuple(
        CustomerRow(stack=stack, problems=problems[stack])
        if stack in problems
        else _row(settings[stack], now, secrets[stack], shared.get(settings[stack].stack))
        for stack in stacks
    )


def _row(settings: StackSettings, now: datetime, secrets: Sequence[Caution], shared: str | None) -> CustomerRow:
    warnings = [*secrets, *warnings_of(settings, now.date())]
    existing = settings.cluster.context is not None
    return CustomerRow(
        stack=settings.stack,
        customer=settings.customer,
        place=settings.place,
        cluster_version="" if existing else settings.cluster.version,
        controller_image=settings.controller.image,
        hours=_hours(settings, now),
        nodes=_nodes(settings, now.date()),
        warnings=(*map(str, warnings), *([] if shared is None else [shared])),
        blocked=any(warning.blocks for warning in warnings),
    )


def _hours(settings: StackSettings, now: datetime) -> BusinessHoursNow:
    hours = settings.business_hours.hours((now.year, now.year + 1))
    change = hours.next_change(now)
    return BusinessHoursNow(
        timezone=hours.timezone, open=hours.is_open(now), until=None if change is None else hours.local(change)
    )


def _nodes(settings: StackSettings, day: date) -> NodeCost | None:
    groups = [line for line in group_costs(settings, day) if line.node_group]
    if not groups:
        return None
    return NodeCost(
        always=sum_known(groups, lambda line: line.usd_always),
        at_min=sum_known(groups, lambda line: line.usd_at_min),
        at_max=sum_known(groups, lambda line: line.usd_at_max),
        without=tuple(unpriced(groups)),
        estimated=_names(line for line in groups if line.estimated),
        prices_of=tuple(sorted({line.price_date.isoformat() for line in groups})),
    )


def _names(lines: Iterator[GroupCost]) -> tuple[str, ...]:
    return tuple(line.name for line in lines)


def as_document(rows: Sequence[CustomerRow]) -> dict[str, Any]:
    """The rows as JSON values; instants have their zone's offset."""
    return {"schema": SCHEMA, "stacks": plain_values(tuple(rows))}


_COLUMNS = (
    *left("stack", "customer", "controller", "version", "place", "business hours now"),
    *right("USD a month, always", "max", "warnings"),
)


def customer_parts(rows: Sequence[CustomerRow]) -> Iterator[RenderableType]:
    """The table, then what it leaves out: the warnings of all stacks, each once, and missing prices."""
    yield sheet_table(Sheet(columns=_COLUMNS, rows=[_cells(row) for row in rows]))
    yield from _notes(rows)


def _cells(row: CustomerRow) -> tuple[str, ...]:
    if row.problems:
        return (row.stack, *"-------", several(len(row.problems), "problem"))
    warnings = f"{len(row.warnings)}{', blocked' if row.blocked else ''}"
    hours = "" if row.hours is None else _hours_text(row.hours)
    version = row.cluster_version or "existing"
    return row.stack, row.customer, _image(row.controller_image), version, row.place, hours, *_usd(row.nodes), warnings


def _image(image: str) -> str:
    """The image without its registry, and with the first characters of its digest."""
    name, at, digest = image.rsplit("/", 1)[-1].partition("@")
    return f"{name}{at}{digest[: len('sha256:') + _DIGEST]}"


def _hours_text(hours: BusinessHoursNow) -> str:
    state = "open" if hours.open else "closed"
    until = "always" if hours.until is None else f"until {hours.until:%a} {hours.until.day} {hours.until:%b %H:%M}"
    return f"{state} {until} ({hours.timezone})"


def _usd(nodes: NodeCost | None) -> tuple[str, str]:
    return ("-", "-") if nodes is None else (_amount(nodes.always, nodes), _amount(nodes.at_max, nodes))


def _amount(usd: float | None, nodes: NodeCost) -> str:
    if usd is None:
        return "-"
    return f"{'at least ' if nodes.without else ''}{'about ' if nodes.estimated else ''}{whole_dollars(usd)}"


def _notes(rows: Sequence[CustomerRow]) -> Iterator[str]:
    for row in rows:
        yield from (f"{row.stack}: {problem}" for problem in row.problems)
    stacks_of: dict[str, list[str]] = {}
    for row in rows:
        for warning in row.warnings:
            stacks_of.setdefault(warning, []).append(row.stack)
    for warning, stacks in stacks_of.items():
        yield f"{stacks_text(stacks)}: {warning}"
    for words, field in (("without a price", "without"), ("with an estimated price", "estimated")):
        lacking = Counter(
            (named(getattr(row.nodes, field)), row.place) for row in rows if row.nodes and getattr(row.nodes, field)
        )
        for (groups, place), number in lacking.items():
            yield f"{words} in {place}: {groups} of {several(number, 'stack')}"
    for place in sorted({row.place for row in rows if row.nodes and row.nodes.without}):
        yield f"{how_to_price(place)}"
    if dates := sorted({day for row in rows if row.nodes for day in row.nodes.prices_of}):
        yield f"US dollars of the node groups; always: {ALWAYS}"
        yield f"list prices of {', '.join(dates)} ({place_in_use()})"
