"""A page for the terminal: the decisive facts, or with `full` all parts of the comment in its order."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.console import RenderableType

from ebbtide.preview.document import CustomerPreview, PreviewDocument, StackVerdict
from ebbtide.preview.render.blocks import Block, Heading, Items, Line, Names, Title, Tone
from ebbtide.preview.render.cost import always_and_at_max, cost_section, total_text
from ebbtide.preview.render.sections import (
    changes_section,
    components_in_short,
    differences,
    nights_section,
    policies_section,
    sections_of,
)
from ebbtide.preview.render.simulation import simulated_section, simulated_services_section
from ebbtide.preview.render.terminal import on_terminal
from ebbtide.preview.render.verdicts import TONES, findings_of, frame_of, no_danger, problems, shared_findings, top
from ebbtide.preview.render.words import changes_text, group_title, policy_warnings, verdict_text
from ebbtide.text.sheet import Sheet, left, right

_REPLAYS = (simulated_section, simulated_services_section)
_SHORT = (cost_section, policies_section, nights_section, *_REPLAYS, changes_section)


def text_parts(document: PreviewDocument, *, full: bool) -> Iterator[RenderableType]:
    return on_terminal(_page(document, full=full))


def _page(document: PreviewDocument, *, full: bool) -> Iterator[Block]:
    yield from top(document)
    alone = len(document.customers) == 1
    if full and not alone:
        yield _overview(document.customers)
    for number, group in enumerate(document.groups, start=1):
        yield Title(group_title(number, group), TONES[group.verdict])
        yield Names(group.stacks)
        if full:
            yield Heading("resource changes")
            yield differences(group.changes)
        else:
            yield from _members([customer for customer in document.customers if customer.stack in group.stacks])
            yield from components_in_short(group.changes)
    grouped = {stack for group in document.groups for stack in group.stacks}
    for customer in document.customers:
        if full:
            yield from _in_full(replace(customer, changes=()) if customer.stack in grouped else customer, alone=alone)
        elif customer.stack not in grouped:
            yield from _in_short(customer, alone=alone)
    if document.total is not None:
        yield Line(total_text(document.total))
    if not full and document.customers:
        yield Line("everything: --full", Tone.ASIDE)


def _overview(customers: Sequence[CustomerPreview]) -> Sheet:
    columns = left("customer", "verdict", "changes", fold=True)
    return Sheet(
        columns=[*columns, *right("USD a month, always", "max", "dangers", fold=True)],
        rows=[
            (
                customer.stack,
                verdict_text(customer),
                changes_text(customer),
                *always_and_at_max(customer.cost),
                str(len(findings_of(customer))),
            )
            for customer in customers
        ],
    )


def _in_full(customer: CustomerPreview, *, alone: bool) -> Iterator[Block]:
    body = (*problems(customer.problems), *_findings(customer), *sections_of(customer))
    return iter(body if alone else [frame_of(customer, body)])


def _in_short(customer: CustomerPreview, *, alone: bool) -> Iterator[Block]:
    """The verdict, dangers, cost, and changes of the nights; an unchanged stack is one line."""
    if not alone:
        yield Title(f"{customer.stack}: {customer.verdict}, {changes_text(customer)}", TONES[customer.verdict])
    yield from problems(customer.problems)
    if customer.verdict is StackVerdict.SAFE and not customer.changes:
        return
    yield from _findings(customer)
    for section in sections_of(customer, _SHORT):
        yield from section.short


def _findings(customer: CustomerPreview) -> Iterator[Block]:
    yield Heading("dangers")
    found = findings_of(customer)
    yield Items(tuple(found)) if found else Line(no_danger([customer]))


def _members(members: Sequence[CustomerPreview]) -> Iterator[Block]:
    """The dangers, nights and replays of a group; what all members share is without their names."""
    for finding in shared_findings(members):
        shared_by_all = len(finding.names) == len(members)
        yield Items((replace(finding, names=()) if shared_by_all else finding,))
    yield from map(Line, policy_warnings(members))
    alike: dict[tuple[Block, ...], list[str]] = {}
    for member in members:
        if nights := nights_section(member):
            alike.setdefault(nights.short, []).append(member.stack)
    for nights, stacks in alike.items():
        if len(stacks) < len(members):
            yield Line(f"{', '.join(stacks)}:")
        yield from nights
    for member in members:
        if replays := sections_of(member, _REPLAYS):
            yield Line(f"{member.stack}:")
            for section in replays:
                yield from section.short
