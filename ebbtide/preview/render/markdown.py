"""A page as a comment on a pull request, in GitHub Flavored Markdown.

The verdict comes first and every danger is in sight; the rest is folded. A comment holds 65,536 characters, and fifty
customers have more to say than that. So the folded parts are put in by their rank, customer after customer, for as long
as there is room: the differences of resources go first, the cost last, and a line says what was left out. Dangers that
are the same for several customers are one line with all their names; they alone are never left out, and give up their
advice before they give up a word.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ebbtide.policies.rule import Severity
from ebbtide.preview.document import CustomerPreview, PreviewDocument, StackVerdict
from ebbtide.preview.render.escaped import code, escaped
from ebbtide.preview.render.markdown_parts import (
    Row,
    cost_section,
    differences_section,
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
    totals,
    worst,
)

LIMIT = 64_000
_RESERVE = 600  # for the line that says what was left out
_SIGNS = {StackVerdict.SAFE: "✅", StackVerdict.ATTENTION: "⚠️", StackVerdict.BLOCKED: "⛔"}
_MARKS = {Severity.BLOCKING: "⛔", Severity.WARNING: "⚠️", Severity.NOTE: "📝"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rank:
    """A kind of folded part; `make` gives its summary and its body, or None where a customer has none."""

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
    """The folded parts that have room, for each customer, and how many of each kind have none.

    After the first kind that does not fit whole, nothing of a lower rank is put in: what is missing stays at the end.
    """
    bodies: list[list[str]] = [[] for _ in customers]
    left_out: Counter[str] = Counter()
    for rank in _RANKS:
        full = bool(left_out)
        for body, customer in zip(bodies, customers, strict=True):
            made = rank.make(customer)
            if made is None:
                continue
            part = _folded(*made)
            if full or len(part) > room:
                left_out[rank.name] += 1
                continue
            room -= len(part)
            body.append(part)
    return bodies, left_out


def _folded(summary: str, body: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>\n"


def _frame(customer: CustomerPreview) -> tuple[str, str]:
    """With several customers each is folded under its name."""
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
    """More dangers than a comment holds: the worst first, and the number of those that no comment could hold."""
    lines = _danger_lines(dangers, several=several)
    text, shown = top[: limit // 2] + "\n", 0
    while shown < len(lines) and len(text) + len(lines[shown]) + _RESERVE <= limit:
        text += lines[shown]
        shown += 1
    return f"{text}\n**{count(len(lines) - shown, 'more danger')}**: see `ebbtide preview` in a terminal.\n"


def _problems(document: PreviewDocument) -> str:
    own = dict.fromkeys(line for customer in document.customers for line in customer.problems)
    notes = "".join(f"\n> {escaped(line)}\n" for line in document.notes)
    return notes + "".join(f"\n> ⚠️ {escaped(line)}\n" for line in (*document.problems, *own))


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
    """A narrow column would break it into lines."""
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
    """Without their advice more of them are the same."""
    stacks: dict[object, SharedFinding] = {}
    for shared in dangers:
        known = stacks.get(shared.finding)
        names = (*known.stacks, *shared.stacks) if known else shared.stacks
        stacks[shared.finding] = SharedFinding(finding=shared.finding, stacks=tuple(dict.fromkeys(names)))
    return list(stacks.values())
