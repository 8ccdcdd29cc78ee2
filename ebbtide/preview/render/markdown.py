"""A page as a comment on a pull request, in GitHub Flavored Markdown.

The verdict comes first and every danger is visible; the other parts are folded. A comment holds 65,536 characters,
which fifty customers exceed. So the folded parts are added by rank, customer after customer, until the limit: resource
changes are dropped first and the cost last, and a line names the omissions. Dangers that several customers share are
one line with all names. Dangers are never dropped before all folded parts are; first they lose their advice.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ebbtide.policies.rule import Severity
from ebbtide.preview.document import CustomerPreview, PreviewDocument, StackVerdict
from ebbtide.preview.render.figures import totals
from ebbtide.preview.render.markdown_parts import (
    Row,
    code,
    cost_section,
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
    headline,
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
    head = _head(document, limit - _RESERVE)
    several = len(document.customers) > 1
    frames = [_frame(customer) if several else ("", "") for customer in document.customers]
    room = limit - len(head) - _RESERVE - sum(len(begin) + len(end) for begin, end in frames)
    bodies, left_out = _chosen(document.customers, room)
    framed = [begin + "".join(parts) + end for (begin, end), parts in zip(frames, bodies, strict=True) if parts]
    note = _left_out_text(left_out)
    return head + "".join(framed) + (f"\n{note}\n" if note else "")


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
    overview = _overview(document.customers) if several else ""
    for table_text, shown, note in (
        (overview, dangers, ""),
        (overview, merged, "_The advice on each danger is left out for length._\n"),
        ("", merged, "_The table and the advice on each danger are left out for length._\n"),
    ):
        listed = _dangers(shown, several=several) if shown else f"\n{no_danger(document.customers)}\n\n"
        text = top + table_text + listed + note
        if len(text) <= limit:
            return text
    return _cut(top, merged, limit, several=several)


def _cut(top: str, dangers: Sequence[SharedFinding], limit: int, *, several: bool) -> str:
    """The worst dangers that fit into a comment, and the number of the others."""
    lines = _danger_lines(dangers, several=several)
    text, shown = top[: limit // 2] + "\n", 0
    while shown < len(lines) and len(text) + len(lines[shown]) + _RESERVE <= limit:
        text += lines[shown]
        shown += 1
    return f"{text}\n**{count(len(lines) - shown, 'more danger')}**: see `ebbtide preview` in a terminal.\n"


def _problems(document: PreviewDocument) -> str:
    problems = dict.fromkeys(line for customer in document.customers for line in customer.problems)
    notes = "".join(f"\n> {escaped(line)}\n" for line in document.notes)
    return notes + "".join(f"\n> ⚠️ {escaped(line)}\n" for line in (*document.problems, *problems))


def _overview(customers: Sequence[CustomerPreview]) -> str:
    header = ("customer", "verdict", ">create", ">update", ">replace", ">delete", ">USD a month, min", ">max")
    return "\n" + table((*header, ">dangers"), [_overview_row(customer) for customer in customers]) + "\n"


def _overview_row(customer: CustomerPreview) -> Row:
    new = " (new)" if customer.new else ""
    money = ("-", "-") if customer.cost is None else totals(customer.cost, ("min", "max"))
    counts = [str(number) for number in customer.counts.values()]
    verdict = _unbroken(f"{_SIGNS[customer.verdict]} {customer.verdict}{new}")
    dangers = str(len(findings_of(customer)))
    return (escaped(customer.stack), verdict, *counts, *(_unbroken(amount) for amount in money), dangers)


def _unbroken(text: str) -> str:
    """Keep the text on one line in a narrow column."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def _dangers(dangers: Sequence[SharedFinding], *, several: bool) -> str:
    return "\n#### Dangers\n\n" + "".join(_danger_lines(dangers, several=several)) + "\n"


def _danger_lines(dangers: Sequence[SharedFinding], *, several: bool) -> list[str]:
    return [_danger_line(shared, several=several) for shared in dangers]


def _danger_line(shared: SharedFinding, *, several: bool) -> str:
    danger = shared.finding
    names = f"{', '.join(code(stack) for stack in shared.stacks)}: " if several else ""
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
