"""A page as a comment on a pull request, in GitHub Flavored Markdown.

The verdict comes first and every danger is visible; the other parts are folded. Customers with equal changes are one
group, whose changes are shown once. A comment holds 65,536 characters, which fifty customers exceed. So the folded
parts are added by rank, customer after customer, until the limit: first the changes of groups, then the parts of the
customers in no group, then those of the groups' members. Of these, resource changes are dropped first and the cost
last, and a line names the omissions. Dangers that several customers share are one line with all names, or the names of
groups. Dangers are never dropped before all folded parts are; first they lose their advice. Each blocked customer is
named in any case.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ebbtide.policies.rule import Severity
from ebbtide.preview.document import ChangeGroup, CostComparison, CustomerPreview, PreviewDocument, StackVerdict
from ebbtide.preview.groups import cost_total
from ebbtide.preview.render.figures import NAMED, total_steps, total_text, totals
from ebbtide.preview.render.markdown_parts import (
    Row,
    code,
    cost_section,
    differences,
    differences_section,
    escaped,
    nights_section,
    ownership_section,
    policies_section,
    simulated_section,
    simulated_services_section,
    table,
)
from ebbtide.preview.render.words import (
    PageFinding,
    SharedFinding,
    changes_text,
    compared,
    count,
    findings_of,
    group_title,
    headline,
    labels_of,
    no_danger,
    shared_findings,
    worst,
)

LIMIT = 64_000
_RESERVE = 600  # for the line that says what was left out
_SIGNS = {StackVerdict.SAFE: "✅", StackVerdict.ATTENTION: "⚠️", StackVerdict.BLOCKED: "⛔"}
_MARKS = {Severity.BLOCKING: "⛔", Severity.WARNING: "⚠️", Severity.NOTE: "📝"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rank:
    """A kind of folded part; `make` returns its summary and body, or None if the customer has none."""

    name: str
    make: Callable[[CustomerPreview], tuple[str, str] | None]


_RANKS = (
    _Rank(name="cost", make=cost_section),
    _Rank(name="coming nights", make=nights_section),
    _Rank(name="ownership", make=ownership_section),
    _Rank(name="policies", make=policies_section),
    _Rank(name="simulation", make=simulated_section),
    _Rank(name="simulation of services", make=simulated_services_section),
    _Rank(name="resource changes", make=differences_section),
)


def markdown(document: PreviewDocument, limit: int = LIMIT) -> str:
    """At most `limit` characters."""
    several = len(document.customers) > 1
    total = f"\n**Total**: {escaped(total_text(document.total))}.\n" if document.total else ""
    groups = [_group(number, group) for number, group in enumerate(document.groups, start=1)]
    room = limit - _RESERVE - len(total) - sum(map(len, groups))
    head = _head(document, room)
    room -= len(head)
    left_out: Counter[str] = Counter()
    for number, group in enumerate(document.groups, start=1):
        longer = _group(number, group, _members_of(group, document.customers))
        if len(longer) - len(groups[number - 1]) > room:
            left_out["changes"] += len(group.stacks)
            continue
        room -= len(longer) - len(groups[number - 1])
        groups[number - 1] = longer
    grouped = {stack for group in document.groups for stack in group.stacks}
    others = [customer for customer in document.customers if customer.stack not in grouped]
    members = [replace(customer, changes=()) for customer in document.customers if customer.stack in grouped]
    framed = ""
    for customers in (others, members):
        frames = [_frame(customer) if several else ("", "") for customer in customers]
        space = room - sum(len(begin) + len(end) for begin, end in frames)
        bodies, lacking = _chosen(customers, 0 if left_out else space)
        left_out += lacking
        added = [begin + "".join(parts) + end for (begin, end), parts in zip(frames, bodies, strict=True) if parts]
        framed += "".join(added)
        room -= sum(map(len, added))
    note = _left_out_text(left_out)
    return head + "".join(groups) + framed + total + (f"\n{note}\n" if note else "")


def _group(number: int, group: ChangeGroup, body: str = "") -> str:
    """The group's title and its stacks; `body` replaces their names."""
    names = body or ", ".join(code(stack) for stack in group.stacks)
    return "\n" + _folded(f"{_SIGNS[group.verdict]} <b>{escaped(group_title(number, group))}</b>", names)


def _members_of(group: ChangeGroup, customers: Sequence[CustomerPreview]) -> str:
    """The changes of a group, and the cost of each of its stacks."""
    costs = {customer.stack: customer.cost for customer in customers}
    rows = [(escaped(stack), *_money(costs[stack])) for stack in group.stacks]
    return "\n\n".join(
        part
        for part in (
            differences(group.changes) if group.changes else "",
            table(("customer", ">USD a month, min", ">max"), rows),
        )
        if part
    )


def _chosen(customers: Sequence[CustomerPreview], room: int) -> tuple[list[list[str]], Counter[str]]:
    """The folded parts of each customer that fit, and the number of omitted parts of each kind.

    After the first kind that does not fit completely, no lower rank is added, so that only the end is missing.
    """
    bodies: list[list[str]] = [[] for _ in customers]
    left_out: Counter[str] = Counter()
    for rank in _RANKS:
        full = bool(left_out)
        for body, customer in zip(bodies, customers, strict=True):
            section = rank.make(customer)
            if section is None:
                continue
            part = _folded(*section)
            if full or len(part) > room:
                left_out[rank.name] += 1
                continue
            room -= len(part)
            body.append(part)
    return bodies, left_out


def _folded(summary: str, body: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>\n"


def _frame(customer: CustomerPreview) -> tuple[str, str]:
    """Among several customers, each is folded under its name."""
    title = f"<b>{escaped(customer.stack)}</b>: {customer.verdict}, {changes_text(customer)}"
    return (
        f"\n<details><summary>{_SIGNS[customer.verdict]} {title}</summary>\n<blockquote>\n\n",
        "\n</blockquote>\n</details>\n",
    )


def _left_out_text(left_out: Counter[str]) -> str:
    if not left_out:
        return ""
    parts = ", ".join(f"{name} of {count(number, 'customer')}" for name, number in left_out.items())
    return f"_Left out for length: {parts}. `ebbtide preview` in a terminal, or `--format json`, shows them all._"


def _head(document: PreviewDocument, limit: int) -> str:
    """The verdict, the table of customers, problems and dangers, in the longest form that fits."""
    top = f"### {_SIGNS[worst(document)]} {escaped(headline(document))}\n\n{escaped(compared(document))}\n"
    top += _problems(document)
    dangers = shared_findings(document.customers)
    several = len(document.customers) > 1
    shorter = [_without_advice(shared) for shared in dangers]
    merged = _merged(shorter)
    overview = _overview(document) if several else ""
    for table_text, shown, note in (
        (overview, dangers, ""),
        (overview, merged, "_The advice on each danger is left out for length._\n"),
        ("", merged, "_The table and the advice on each danger are left out for length._\n"),
    ):
        listed = _dangers(shown, document) if shown else f"\n{no_danger(document.customers)}\n\n"
        text = top + table_text + listed + note
        if len(text) <= limit:
            return text
    return _cut(top, merged, limit, document)


def _cut(top: str, dangers: Sequence[SharedFinding], limit: int, document: PreviewDocument) -> str:
    """The blocked stacks, the worst dangers that fit into a comment, and the number of the others with their stacks."""
    lines = _danger_lines(dangers, document)
    blocked = [customer.stack for customer in document.customers if customer.verdict is StackVerdict.BLOCKED]
    several = len(document.customers) > 1
    text = top[: limit // 2] + "\n"
    text += f"⛔ blocked: {', '.join(map(code, blocked))}\n\n" if blocked and several else ""
    names = sum(len(code(customer.stack)) + 2 for customer in document.customers) if several else 0
    shown = 0
    while shown < len(lines) and len(text) + len(lines[shown]) + names + _RESERVE <= limit:
        text += lines[shown]
        shown += 1
    stacks = dict.fromkeys(code(stack) for shared in dangers[shown:] for stack in shared.stacks)
    of = f" of {', '.join(stacks)}" if several and len(text) + names + _RESERVE <= limit else ""
    return f"{text}\n**{count(len(lines) - shown, 'more danger')}**{of}: see `ebbtide preview` in a terminal.\n"


def _problems(document: PreviewDocument) -> str:
    problems = dict.fromkeys(line for customer in document.customers for line in customer.problems)
    notes = "".join(f"\n> {escaped(line)}\n" for line in document.notes)
    return notes + "".join(f"\n> ⚠️ {escaped(line)}\n" for line in (*document.problems, *problems))


def _overview(document: PreviewDocument) -> str:
    """One row for each customer, or for a group of many; the customers in no group come first."""
    header = ("customer", "verdict", ">create", ">update", ">replace", ">delete", ">USD a month, min", ">max")
    groups = [(number, group) for number, group in enumerate(document.groups, start=1) if len(group.stacks) > NAMED]
    grouped = {stack for _, group in groups for stack in group.stacks}
    rows = [_overview_row(customer) for customer in document.customers if customer.stack not in grouped]
    rows += [_group_row(number, group, document.customers) for number, group in groups]
    return "\n" + table((*header, ">dangers"), rows) + "\n"


def _overview_row(customer: CustomerPreview) -> Row:
    new = " (new)" if customer.new else ""
    counts = [str(number) for number in customer.counts.values()]
    verdict = _unbroken(f"{_SIGNS[customer.verdict]} {customer.verdict}{new}")
    dangers = str(len(findings_of(customer)))
    return (escaped(customer.stack), verdict, *counts, *_money(customer.cost), dangers)


def _group_row(number: int, group: ChangeGroup, customers: Sequence[CustomerPreview]) -> Row:
    members = [customer for customer in customers if customer.stack in group.stacks]
    total = cost_total(members)
    verdict = _unbroken(f"{_SIGNS[group.verdict]} {group.verdict}{' (new)' if members[0].new else ''}")
    counts = [str(number) for number in members[0].counts.values()]
    money = ("-", "-") if total is None else map(_unbroken, total_steps(total))
    dangers = len({finding for member in members for finding in findings_of(member)})
    return (f"{len(members)} stacks of group {number}", verdict, *counts, *money, str(dangers))


def _money(cost: CostComparison | None) -> Sequence[str]:
    return ("-", "-") if cost is None else [_unbroken(amount) for amount in totals(cost, ("min", "max"))]


def _unbroken(text: str) -> str:
    """Keep the text on one line in a narrow column."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def _dangers(dangers: Sequence[SharedFinding], document: PreviewDocument) -> str:
    return "\n#### Dangers\n\n" + "".join(_danger_lines(dangers, document)) + "\n"


def _danger_lines(dangers: Sequence[SharedFinding], document: PreviewDocument) -> list[str]:
    return [_danger_line(shared, document) for shared in dangers]


def _danger_line(shared: SharedFinding, document: PreviewDocument) -> str:
    danger = shared.finding
    labels, stacks = labels_of(shared.stacks, document)
    names = f"{', '.join([*labels, *map(code, stacks)])}: " if len(document.customers) > 1 else ""
    impact = f"<br>impact: {escaped(danger.impact)}" if danger.impact else ""
    fix = f"<br>→ {escaped(danger.fix)}" if danger.fix else ""
    return f"- {_MARKS[danger.severity]} {names}<b>{escaped(danger.what)}</b>{impact}{fix}\n"


def _without_advice(shared: SharedFinding) -> SharedFinding:
    bare = PageFinding(severity=shared.finding.severity, what=shared.finding.what)
    return SharedFinding(finding=bare, stacks=shared.stacks)


def _merged(dangers: Sequence[SharedFinding]) -> list[SharedFinding]:
    """Merge dangers that are equal without their advice."""
    stacks: dict[object, SharedFinding] = {}
    for shared in dangers:
        earlier = stacks.get(shared.finding)
        names = (*earlier.stacks, *shared.stacks) if earlier else shared.stacks
        stacks[shared.finding] = SharedFinding(finding=shared.finding, stacks=tuple(dict.fromkeys(names)))
    return list(stacks.values())
