"""A page as a comment on a pull request, within the length that GitHub allows.

The verdict comes first and every danger is visible; the other parts are folded. Customers with equal changes are one
group, whose changes are shown once. Dangers that several customers share are one line with all names, or groups.

A comment holds 65,536 characters, which fifty customers exceed. So the folded parts are added until the limit: the
changes of groups, the parts of the customers in no group, and of the groups' members. Among customers they are
added by rank: the cost first and resource changes last, or second if there are groups. A line names the omissions.
The table of customers is dropped next, then the advice on dangers, then the groups; dangers only after all of these.
Each blocked customer is always named.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ebbtide.preview.document import ChangeGroup, ChangeKind, CustomerPreview, PreviewDocument, StackVerdict
from ebbtide.preview.groups import cost_total
from ebbtide.preview.render.blocks import Block, Finding, Heading, Items, Line, Names, Section
from ebbtide.preview.render.cost import always_and_at_max, total_steps, total_text
from ebbtide.preview.render.markdown import SIGNS, code, escaped, joined, markdown
from ebbtide.preview.render.sections import SECTIONS, MakeSection, differences
from ebbtide.preview.render.verdicts import TONES, findings_of, frame_of, no_danger, problems, shared_findings, top
from ebbtide.preview.render.words import NAMED, group_title, policy_warnings, verdict_text
from ebbtide.text.counts import several
from ebbtide.text.sheet import Column, Sheet

LIMIT = 64_000
_RESERVE = 600  # for the line about omitted parts

_BESIDE_GROUPS = (SECTIONS[0], SECTIONS[-1], *SECTIONS[1:-1])
"""If there are groups, readers look for the changes of the customers in no group."""


def as_comment(document: PreviewDocument, limit: int = LIMIT) -> str:
    """Return Markdown of at most `limit` characters."""
    total = f"\n**Total**: {escaped(total_text(document.total))}.\n" if document.total else ""
    groups = [_apart(_group(number, group, (Names(group.stacks),))) for number, group in _numbered(document)]
    room = limit - _RESERVE - len(total) - sum(map(len, groups))
    head = _head(document, room)
    if head is None:
        ungrouped = replace(document, groups=())
        head = _head(ungrouped, limit - _RESERVE - len(total))
        if head is None:
            head = _cut(document, room)
        else:
            document, groups, room = ungrouped, [], limit - _RESERVE - len(total)
    room -= len(head)
    left_out: Counter[str] = Counter()
    for number, group in _numbered(document):
        longer = _apart(_group(number, group, _changes_and_costs(group, document.customers)))
        growth = len(longer) - len(groups[number - 1])
        if growth > room:
            left_out["changes"] += len(group.stacks)
            continue
        room -= growth
        groups[number - 1] = longer
    ranks = _BESIDE_GROUPS if groups else SECTIONS
    customers = ""
    for some in _in_no_group_and_in_one(document):
        added, lacking = _customers(some, 0 if left_out else room, ranks, alone=len(document.customers) == 1)
        customers += added
        room -= len(added)
        left_out += lacking
    note = _left_out_text(left_out)
    return head + "".join(groups) + customers + total + (f"\n{note}\n" if note else "")


def _apart(block: Block) -> str:
    """The block between two empty lines, or after another one."""
    return f"\n{markdown(block)}\n"


def _numbered(document: PreviewDocument) -> Iterable[tuple[int, ChangeGroup]]:
    return enumerate(document.groups, start=1)


def _group(number: int, group: ChangeGroup, body: Sequence[Block]) -> Section:
    title = group_title(number, group)
    return Section(kind="changes", title=title, summary=(title, ""), tone=TONES[group.verdict], body=tuple(body))


def _changes_and_costs(group: ChangeGroup, customers: Sequence[CustomerPreview]) -> list[Block]:
    """The changes of a group, and the cost of each of its stacks."""
    costs = {customer.stack: customer.cost for customer in customers}
    sheet = Sheet(
        columns=_columns(">USD a month, always", ">max"),
        rows=[(stack, *always_and_at_max(costs[stack])) for stack in group.stacks],
    )
    return [*([differences(group.changes)] if group.changes else []), sheet]


def _in_no_group_and_in_one(document: PreviewDocument) -> tuple[list[CustomerPreview], list[CustomerPreview]]:
    """A group shows the changes of its members."""
    grouped = {stack for group in document.groups for stack in group.stacks}
    others = [customer for customer in document.customers if customer.stack not in grouped]
    return others, [replace(customer, changes=()) for customer in document.customers if customer.stack in grouped]


def _customers(
    customers: Sequence[CustomerPreview], room: int, ranks: Sequence[MakeSection], *, alone: bool
) -> tuple[str, Counter[str]]:
    """The customers with the sections that fit, and the number of omitted sections of each kind.

    After the first kind that does not fit completely, no lower rank is added, so that only the end is missing.
    """
    room -= sum(len(_customer(customer, (), alone=alone)) for customer in customers)
    chosen: list[list[Section]] = [[] for _ in customers]
    left_out: Counter[str] = Counter()
    for make in ranks:
        full = bool(left_out)
        for sections, customer in zip(chosen, customers, strict=True):
            section = make(customer)
            if section is None:
                continue
            length = len(_line(section))
            if full or length > room:
                left_out[section.kind] += 1
                continue
            room -= length
            sections.append(section)
    shown = zip(customers, chosen, strict=True)
    return "".join(_customer(customer, sections, alone=alone) for customer, sections in shown if sections), left_out


def _customer(customer: CustomerPreview, sections: Sequence[Section], *, alone: bool) -> str:
    """Among several customers, each is folded under its name."""
    if alone:
        return "".join(map(_line, sections))
    return _apart(frame_of(customer, sections))


def _left_out_text(left_out: Counter[str]) -> str:
    if not left_out:
        return ""
    parts = ", ".join(f"{name} of {several(number, 'customer')}" for name, number in left_out.items())
    return f"_Left out for length: {parts}. `ebbtide preview` in a terminal, or `--format json`, shows them all._"


def _head(document: PreviewDocument, limit: int) -> str | None:
    """The verdict, the table of customers, problems and dangers, in the longest form that fits; None if none does."""
    overview = [_overview(document)] if len(document.customers) > 1 else []
    found = shared_findings(document.customers)
    merged = _merged(found)
    without_advice = "the advice on each danger"
    for table, shown, lacking in (
        (overview, found, ()),
        ([], found, ("the table",)),
        ([], merged, ("the table", without_advice) if overview else (without_advice,)),
    ):
        note = f"_Left out for length: {' and '.join(lacking)}._\n" if lacking else ""
        text = f"{joined([*_beginning(document), *table, *_dangers(shown, document)])}\n\n{note}"
        if len(text) <= limit:
            return text
    return None


def _beginning(document: PreviewDocument) -> list[Block]:
    of_customers = dict.fromkeys(line for customer in document.customers for line in customer.problems)
    return [*top(document), *problems(of_customers)]


def _cut(document: PreviewDocument, limit: int) -> str:
    """The blocked stacks, the worst dangers that fit into a comment, and the number of the others with their stacks."""
    beginning = f"{joined(_beginning(document))}\n"
    dangers = _merged(shared_findings(document.customers))
    lines = [_line(Items((_labelled(danger, document),))) for danger in dangers]
    blocked = [customer.stack for customer in document.customers if customer.verdict is StackVerdict.BLOCKED]
    many_stacks = len(document.customers) > 1
    text = beginning[: limit // 2] + "\n"
    text += f"⛔ blocked: {markdown(Names(tuple(blocked)))}\n\n" if blocked and many_stacks else ""
    names = sum(len(code(customer.stack)) + 2 for customer in document.customers) if many_stacks else 0
    shown = 0
    while shown < len(lines) and len(text) + len(lines[shown]) + names + _RESERVE <= limit:
        text += lines[shown]
        shown += 1
    stacks = dict.fromkeys(code(stack) for danger in dangers[shown:] for stack in danger.names)
    of = f" of {', '.join(stacks)}" if many_stacks and len(text) + names + _RESERVE <= limit else ""
    return f"{text}\n**{several(len(lines) - shown, 'more danger')}**{of}: see `ebbtide preview` in a terminal.\n"


def _dangers(dangers: Sequence[Finding], document: PreviewDocument) -> tuple[Block, ...]:
    several_stacks = len(document.customers) > 1
    warned = tuple(Line(f"{line}.") for line in policy_warnings(document.customers)) if several_stacks else ()
    if not dangers:
        return (Line(no_danger(document.customers)), *warned)
    return Heading("Dangers"), Items(tuple(_labelled(danger, document) for danger in dangers)), *warned


def _labelled(danger: Finding, document: PreviewDocument) -> Finding:
    """`the 184 stacks of group 1` replaces the names of a complete group; a stack alone needs no name."""
    if len(document.customers) == 1:
        return replace(danger, names=())
    if len(danger.names) <= NAMED:
        return danger
    if len(danger.names) == len(document.customers):
        return replace(danger, groups=(f"all {len(danger.names)} stacks",), names=())
    groups: list[str] = []
    others = dict.fromkeys(danger.names)
    for number, group in _numbered(document):
        if len(group.stacks) > NAMED and others.keys() >= set(group.stacks):
            groups.append(f"the {len(group.stacks)} stacks of group {number}")
            for stack in group.stacks:
                del others[stack]
    return replace(danger, groups=tuple(groups), names=tuple(others))


def _merged(dangers: Sequence[Finding]) -> list[Finding]:
    """The dangers without their advice; those that are then equal are one."""
    stacks: dict[Finding, dict[str, None]] = {}
    for danger in dangers:
        stacks.setdefault(replace(danger, advice=(), names=()), {}).update(dict.fromkeys(danger.names))
    return [replace(danger, names=tuple(names)) for danger, names in stacks.items()]


def _overview(document: PreviewDocument) -> Sheet:
    """One row for each customer, or for a group of many; the customers in no group come first."""
    groups = [(number, group) for number, group in _numbered(document) if len(group.stacks) > NAMED]
    grouped = {stack for _, group in groups for stack in group.stacks}
    rows = [_overview_row(customer) for customer in document.customers if customer.stack not in grouped]
    rows += [_group_row(number, group, document.customers) for number, group in groups]
    counts = (f">{kind}" for kind in ChangeKind)
    return Sheet(columns=_columns("verdict", *counts, ">USD a month, always", ">max", ">dangers"), rows=rows)


def _overview_row(customer: CustomerPreview) -> tuple[str, ...]:
    counts = map(str, customer.counts.values())
    return (
        customer.stack,
        _verdict(customer),
        *counts,
        *always_and_at_max(customer.cost),
        str(len(findings_of(customer))),
    )


def _group_row(number: int, group: ChangeGroup, customers: Sequence[CustomerPreview]) -> tuple[str, ...]:
    members = [customer for customer in customers if customer.stack in group.stacks]
    total = cost_total(members)
    counts = map(str, members[0].counts.values())
    money = always_and_at_max(None) if total is None else total_steps(total)
    dangers = len({finding for member in members for finding in findings_of(member)})
    return (f"{len(members)} stacks of group {number}", _verdict(members[0]), *counts, *money, str(dangers))


def _verdict(customer: CustomerPreview) -> str:
    return f"{SIGNS[TONES[customer.verdict]]} {verdict_text(customer)}"


def _columns(*names: str) -> list[Column]:
    """The column of customers, and others with cells on one line; a `>` aligns one to the right."""
    more = (Column(name.removeprefix(">"), right=name.startswith(">"), unbroken=True) for name in names)
    return [Column("customer"), *more]


def _line(block: Block) -> str:
    return f"{markdown(block)}\n"
