"""A page for the terminal: the decisive facts, or with `full` all parts of the comment in its order."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.console import RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from ebbtide.policies.rule import Severity
from ebbtide.preview.document import (
    ChangeGroup,
    ChangeKind,
    ComingNights,
    CostComparison,
    CustomerPreview,
    FieldChange,
    PreviewDocument,
    ResourceChange,
    StackVerdict,
)
from ebbtide.preview.render.figures import (
    SERVICE_COLUMNS,
    SERVICES_TITLE,
    SIMULATED_COLUMNS,
    basis,
    cost_fields,
    cost_notes,
    hours_lines,
    line_step,
    money_text,
    night_rows,
    service_rows,
    services_over,
    simulated_notes,
    simulated_over,
    simulated_rows,
    simulated_service_rows,
    total_note,
    total_text,
    totals,
)
from ebbtide.preview.render.words import (
    SEVERITIES,
    PageFinding,
    by_component,
    change_title,
    changes_text,
    compared,
    count,
    findings_of,
    group_title,
    headline,
    no_danger,
    policies_text,
    shared_findings,
    worst,
)
from ebbtide.prices.missing import named
from ebbtide.terminal import one_line, table

_VERDICTS = {StackVerdict.SAFE: "bold green", StackVerdict.ATTENTION: "bold yellow", StackVerdict.BLOCKED: "bold red"}
_SEVERITIES = {Severity.BLOCKING: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
_KINDS = {
    ChangeKind.CREATE: ("+", "green"),
    ChangeKind.UPDATE: ("~", "yellow"),
    ChangeKind.REPLACE: ("±", "magenta"),
    ChangeKind.DELETE: ("-", "red"),
}


_SHORT = 8
"""Components with changes that the short text names."""


def text_parts(document: PreviewDocument, *, full: bool) -> Iterator[RenderableType]:
    yield _line(headline(document), _VERDICTS[worst(document)])
    yield _line(compared(document), "dim")
    for note in document.notes:
        yield _line(note, "dim")
    for problem in document.problems:
        yield _line(problem, "yellow")
    alone = len(document.customers) == 1
    if full and not alone:
        yield _overview(document.customers)
    grouped = {stack for group in document.groups for stack in group.stacks}
    for number, group in enumerate(document.groups, start=1):
        yield from _group(number, group, document, full=full)
    for customer in document.customers:
        if full:
            yield from _customer(replace(customer, changes=()) if customer.stack in grouped else customer, alone=alone)
        elif customer.stack not in grouped:
            yield from _in_short(customer, alone=alone)
    if document.total is not None:
        yield _line(total_text(document.total))
    if not full and document.customers:
        yield _line("everything: --full", "dim")


def _in_short(customer: CustomerPreview, *, alone: bool) -> Iterator[RenderableType]:
    """The verdict, dangers, cost, and changes of the nights; an unchanged stack is one line."""
    if not alone:
        yield _line(f"{customer.stack}: {customer.verdict}, {changes_text(customer)}", _VERDICTS[customer.verdict])
    for problem in customer.problems:
        yield _line(problem, "yellow")
    if customer.verdict is StackVerdict.SAFE and not customer.changes:
        return
    yield from _dangers(customer)
    if customer.cost is not None:
        how = " (--full says how to give their prices)" if any(customer.cost.without) else ""
        yield _line(f"US dollars a month: {money_text(customer.cost)}{how}")
        if estimated := [line.name for line in customer.cost.lines if line.estimated]:
            yield _line(f"by estimated prices of {named(estimated)} (--full says from what)")
        yield _line(f"policies: {policies_text(customer.policies)}")
    if customer.nights is not None:
        yield from _nights_in_short(customer.nights, new=customer.new)
    yield from _simulated_in_short(customer)
    yield from _components(customer.changes)


def _simulated_in_short(customer: CustomerPreview) -> Iterator[RenderableType]:
    if customer.simulated is not None:
        yield _line(f"simulated over {simulated_over(customer.simulated)}:")
        yield _table(("", ">before → after"), simulated_rows(customer.simulated))
        if customer.simulated.note:
            yield _line(customer.simulated.note)
    if customer.simulated_services is not None:
        yield _line(f"services simulated over {services_over(customer.simulated_services)}:")
        yield _table(SIMULATED_COLUMNS, simulated_service_rows(customer.simulated_services))


def _components(changes: Sequence[ResourceChange]) -> Iterator[RenderableType]:
    components = [name or "outside of any component" for name in by_component(changes)]
    if components:
        more = f" and {len(components) - _SHORT} more" if len(components) > _SHORT else ""
        yield _line(f"changes in {', '.join(components[:_SHORT])}{more}")


def _group(number: int, group: ChangeGroup, document: PreviewDocument, *, full: bool) -> Iterator[RenderableType]:
    """The changes once, and in the short text the dangers of all members."""
    yield _line(group_title(number, group), _VERDICTS[group.verdict])
    yield Padding(_line(", ".join(group.stacks)), (0, 0, 0, 2), expand=False)
    if full:
        yield from _changes(group.changes)
        return
    members = [customer for customer in document.customers if customer.stack in group.stacks]
    for shared in shared_findings(members):
        stacks = "" if len(shared.stacks) == len(members) else f"{', '.join(shared.stacks)}: "
        yield from _danger(shared.finding, stacks)
    yield from _nights_of_members(members)
    for member in members:
        if member.simulated is not None or member.simulated_services is not None:
            yield _line(f"{member.stack}:")
            yield from _simulated_in_short(member)
    yield from _components(group.changes)


def _nights_of_members(members: Sequence[CustomerPreview]) -> Iterator[RenderableType]:
    """Yield the changes of the coming nights; stacks with equal changes share one entry."""
    alike: dict[tuple[int, tuple[str, ...]], list[CustomerPreview]] = {}
    for member in members:
        if member.nights is not None:
            alike.setdefault((len(member.nights.warnings), member.nights.changes), []).append(member)
    for some in alike.values():
        if len(some) < len(members):
            yield _line(f"{', '.join(member.stack for member in some)}:")
        if some[0].nights is not None:
            yield from _nights_in_short(some[0].nights, new=some[0].new)


def _nights_in_short(nights: ComingNights, *, new: bool) -> Iterator[RenderableType]:
    if nights.warnings:
        yield _line(f"nights: {count(len(nights.warnings), 'warning')}", "yellow")
    for line in nights.changes or (() if new else ("nights: as before",)):
        yield _line(line)


def _customer(customer: CustomerPreview, *, alone: bool) -> Iterator[RenderableType]:
    if not alone:
        yield Rule(_line(f"{customer.stack}: {customer.verdict}", _VERDICTS[customer.verdict]), align="left")
        yield _line(changes_text(customer))
    for problem in customer.problems:
        yield _line(problem, "yellow")
    yield from _dangers(customer)
    if customer.cost is not None:
        yield from _cost(customer.cost)
    if customer.nights is not None:
        yield from _nights(customer.nights)
    if customer.ownership:
        yield _title("ownership")
        yield _table(
            ("object", "field", "owner", ">declared"),
            [(row.object, row.field, row.owner, row.initial) for row in customer.ownership],
        )
    yield from _policies(customer)
    if customer.simulated is not None:
        yield _title(f"simulated over {simulated_over(customer.simulated)}")
        yield _table(("", ">before → after"), simulated_rows(customer.simulated))
        if customer.simulated.note:
            yield _line(customer.simulated.note, "dim")
    if customer.simulated_services is not None:
        yield _title(f"services simulated over {services_over(customer.simulated_services)}")
        yield _table(SIMULATED_COLUMNS, simulated_service_rows(customer.simulated_services))
        for note in simulated_notes(customer.simulated_services):
            yield _line(note, "dim")
    if customer.changes:
        yield from _changes(customer.changes)


def _overview(customers: Sequence[CustomerPreview]) -> RenderableType:
    rows = [
        (
            customer.stack,
            f"{customer.verdict}{' (new)' if customer.new else ''}",
            changes_text(customer),
            *(("-", "-") if customer.cost is None else totals(customer.cost, ("min", "max"))),
            str(len(findings_of(customer))),
        )
        for customer in customers
    ]
    return _table(("customer", "verdict", "changes", ">USD a month, min", ">max", ">dangers"), rows)


def _dangers(customer: CustomerPreview) -> Iterator[RenderableType]:
    yield _title("dangers")
    dangers = findings_of(customer)
    if not dangers:
        yield _line(no_danger([customer]))
    for danger in sorted(dangers, key=lambda danger: SEVERITIES.index(danger.severity)):
        yield from _danger(danger)


def _danger(danger: PageFinding, stacks: str = "") -> Iterator[RenderableType]:
    style = f"bold {_SEVERITIES[danger.severity]}"
    yield Text.assemble((f"{danger.severity}: ", style), one_line(f"{stacks}{danger.what}"))
    for words in (danger.impact and f"impact: {danger.impact}", danger.fix and f"→ {danger.fix}"):
        if words:
            yield Padding(_line(words), (0, 0, 0, 4), expand=False)


def _cost(cost: CostComparison) -> Iterator[RenderableType]:
    yield _title("US dollars a month")
    fields = cost_fields(cost)
    rows = [(line.name, *(line_step(line, field, cost) for field in fields), line.assumption) for line in cost.lines]
    columns = ("line", *(f">at {field}" for field in fields), "price basis")
    yield _table(columns, [*rows, ("total", *totals(cost, fields), total_note(cost))])
    if cost.services:
        yield _line(SERVICES_TITLE)
        yield _table(SERVICE_COLUMNS, service_rows(cost))
    for line in (*cost_notes(cost), *hours_lines(cost), basis(cost)):
        yield _line(line, "dim")


def _nights(nights: ComingNights) -> Iterator[RenderableType]:
    yield _title("coming nights")
    for line in nights.warnings:
        yield _line(f"warning: {line}", "yellow")
    for line in (*nights.changes, *nights.sleep):
        yield _line(line)
    zone, rows = night_rows(nights)
    yield _table((f"budgets are open ({zone})", "UTC", ""), rows)


def _policies(customer: CustomerPreview) -> Iterator[RenderableType]:
    if customer.cost is None:  # no rule was judged
        return
    yield _title(f"policies: {policies_text(customer.policies)}")
    if not customer.policies:
        return
    rows = [
        (p.id, f"excepted: {p.excepted}" if p.excepted else str(p.severity), p.resource, p.reason, p.fix)
        for p in customer.policies
    ]
    yield _table(("rule", "", "resource", "reason", "fix"), rows)


def _changes(changes: Sequence[ResourceChange]) -> Iterator[RenderableType]:
    yield _title("resource changes")
    for component, parts in by_component(changes).items():
        yield _line(component or "outside of any component", "bold")
        for change in parts:
            sign, style = _KINDS[change.kind]
            yield Padding(_line(f"{sign} {change_title(change)}", style), (0, 0, 0, 2), expand=False)
            if change.kind in {ChangeKind.UPDATE, ChangeKind.REPLACE}:
                for field in change.fields:
                    yield Padding(_line(_field(field)), (0, 0, 0, 6), expand=False)


def _field(field: FieldChange) -> str:
    if not field.before and not field.after:
        return field.path
    return f"{field.path}: {field.before or '(none)'} → {field.after or '(none)'}"


def _title(text: str) -> RenderableType:
    return Padding(_line(text, "bold"), (1, 0, 0, 0), expand=False)


def _line(text: str, style: str = "") -> Text:
    return Text(one_line(text), style)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Headers that begin with `>` are aligned to the right. Long cells wrap."""
    return table(columns, ([one_line(cell) for cell in row] for row in rows), fold=None)
