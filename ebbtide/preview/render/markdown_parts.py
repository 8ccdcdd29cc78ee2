"""The folded parts of a comment, each a summary line and a body, and the escaping of all text in it.

Anyone who opens a pull request writes its stack file. The file's text must not end a table or a fold, mention a team,
link an issue, hide in an HTML comment or start a formula. So each letter that could do so becomes a numeric entity,
which GitHub Flavored Markdown never reads as markup (CommonMark, "Entity and numeric character references").

Traps: GitHub looks for mentions and issue numbers after it has replaced entities, so an invisible space separates the
sign from the text after it. A code span would show the entities literally.
"""

import re
from collections.abc import Sequence
from typing import TypeAlias

from ebbtide.policies.rule import PolicyResult
from ebbtide.preview.document import ChangeKind, CostComparison, CostLine, CustomerPreview, FieldChange, ResourceChange
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
    simulated_total,
    total_note,
    totals,
)
from ebbtide.preview.render.words import by_component, change_title, changes_text, count, policies_text
from ebbtide.terminal import one_line

Row: TypeAlias = Sequence[str]
Section: TypeAlias = tuple[str, str]

_MARKUP = re.compile(r"[&<>|`*_~\[\]\\!$#]|:(?=[A-Za-z+-])")  # the colon: of an emoji
_SPACE = "\N{ZERO WIDTH SPACE}"
_SIGNS = {ChangeKind.CREATE: "+", ChangeKind.UPDATE: "!", ChangeKind.REPLACE: "-", ChangeKind.DELETE: "-"}


def escaped(text: str) -> str:
    """Escape a sentence, a table cell or the text of a tag."""
    parted = one_line(text).replace("@", f"@{_SPACE}")
    parted = re.sub(r"#(?=\w)", f"#{_SPACE}", parted)
    parted = re.sub(r"(?i)(gh)-(?=\d)", rf"\1-{_SPACE}", parted)
    parted = re.sub(r"(?i)(:)(?=//)|(www)(?=\.)", lambda match: match.group() + _SPACE, parted)
    return _MARKUP.sub(lambda match: f"&#{ord(match.group())};", parted)


def code(text: str) -> str:
    """A name or a value in code font."""
    return f"<code>{escaped(text)}</code>" if text else ""


def fenced(lines: list[str]) -> str:
    """A fenced diff. Each line begins with `+`, `-`, `!`, `#` or `@`, so none can close the fence."""
    return "```diff\n" + "\n".join(one_line(line) for line in lines) + "\n```"


def table(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """A table of escaped cells; headers that begin with `>` are aligned to the right."""
    head = " | ".join(column.removeprefix(">") for column in columns)
    line = " | ".join("---:" if column.startswith(">") else "---" for column in columns)
    return "\n".join(f"| {row} |" for row in (head, line, *(" | ".join(row) for row in rows)))


def cost_section(customer: CustomerPreview) -> Section | None:
    cost = customer.cost
    if cost is None:
        return None
    fields = cost_fields(cost)
    rows = [
        (escaped(line.name), *(_money(line, field, cost) for field in fields), escaped(line.assumption))
        for line in cost.lines
    ]
    rows.append(("**total**", *(f"**{total}**" for total in totals(cost, fields)), escaped(total_note(cost))))
    body = table(("US dollars a month", *(f">at {field}" for field in fields), "price basis"), rows)
    notes = "\n".join(f"- {escaped(line)}" for line in (*cost_notes(cost), *hours_lines(cost), basis(cost)))
    parts = (body, *_services(cost), notes)
    return f"<b>Cost</b>, USD a month: {escaped(money_text(cost))}", "\n\n".join(parts)


def _services(cost: CostComparison) -> Sequence[str]:
    if not cost.services:
        return ()
    rows = [tuple(_bold_step(cell) for cell in row) for row in service_rows(cost)]
    title = f"{SERVICES_TITLE[0].upper()}{SERVICES_TITLE[1:]}:"
    return title, table(SERVICE_COLUMNS, rows)


def _bold_step(cell: str) -> str:
    shown = escaped(cell)
    return f"**{shown}**" if "→" in cell else shown


def _money(line: CostLine, field: str, cost: CostComparison) -> str:
    """The amount, in bold if it changes."""
    shown = line_step(line, field, cost)
    return f"**{shown}**" if "→" in shown else shown


def nights_section(customer: CustomerPreview) -> Section | None:
    nights = customer.nights
    if nights is None:
        return None
    zone, shown = night_rows(nights)
    rows = [tuple(escaped(cell) for cell in row) for row in shown]
    sentences = (*nights.changes, *nights.sleep)
    lines = [*(f"- ⚠️ {escaped(line)}" for line in nights.warnings), *(f"- {escaped(line)}" for line in sentences)]
    parts = [
        count(len(nights.rows), "window") + " in 14 days",
        count(len(nights.changes), "change") if nights.changes else "" if customer.new else "as before",
        count(len(nights.warnings), "warning") if nights.warnings else "",
    ]
    body = "\n\n".join(
        part for part in ("\n".join(lines), table((f"budgets are open ({escaped(zone)})", "UTC", ""), rows)) if part
    )
    return f"<b>Coming nights</b>: {', '.join(part for part in parts if part)}", body


def ownership_section(customer: CustomerPreview) -> Section | None:
    if not customer.ownership:
        return None
    rows = [
        (escaped(row.object), code(row.field), escaped(row.owner), escaped(row.initial)) for row in customer.ownership
    ]
    owned = count(len(rows), "field")
    title = f"<b>Ownership</b>: {owned} that Pulumi declares once and then leaves to others"
    return title, table(("object", "field", "owner", ">declared"), rows)


def policies_section(customer: CustomerPreview) -> Section | None:
    if customer.cost is None:  # no rule was judged
        return None
    title = f"<b>Policies</b>: {policies_text(customer.policies)}"
    if not customer.policies:
        return title, "Every rule holds."
    rows = [_policy_row(policy) for policy in customer.policies]
    return title, table(("rule", "", "resource", "reason", "fix", "source"), rows)


def _policy_row(policy: PolicyResult) -> Row:
    severity = f"excepted: {policy.excepted}" if policy.excepted else str(policy.severity)
    cells = (severity, policy.resource, policy.reason, policy.fix, policy.source)
    return (escaped(policy.id), *(escaped(text) for text in cells))


def simulated_section(customer: CustomerPreview) -> Section | None:
    replay = customer.simulated
    if replay is None:
        return None
    rows = [(name, escaped(figures)) for name, figures in simulated_rows(replay)]
    title = f"<b>Simulated</b> over {escaped(simulated_over(replay))}: {escaped(rows[0][1])} node-hours"
    note = f"\n\n{escaped(replay.note)}" if replay.note else ""
    return title, f"{table(('', '>before → after'), rows)}{note}"


def simulated_services_section(customer: CustomerPreview) -> Section | None:
    replay = customer.simulated_services
    if replay is None:
        return None
    rows = [[escaped(cell) for cell in row] for row in simulated_service_rows(replay)]
    title = f"<b>Services simulated</b> over {escaped(services_over(replay))}: {escaped(simulated_total(replay))}"
    notes = "\n".join(f"- {escaped(note)}" for note in simulated_notes(replay))
    return title, f"{table(SIMULATED_COLUMNS, rows)}\n\n{notes}"


def differences_section(customer: CustomerPreview) -> Section | None:
    if not customer.changes:
        return None
    return f"<b>Resource changes</b>: {changes_text(customer)}", differences(customer.changes)


def differences(changes: Sequence[ResourceChange]) -> str:
    lines: list[str] = []
    for component, parts in by_component(changes).items():
        lines.append(f"@@ {component or 'outside of any component'} @@")
        for change in parts:
            lines += _difference(change)
    return fenced(lines)


def _difference(change: ResourceChange) -> list[str]:
    lines = [f"{_SIGNS[change.kind]} {change_title(change)}"]
    if change.kind in {ChangeKind.UPDATE, ChangeKind.REPLACE}:
        for field in change.fields:
            lines += _field(field)
    return lines


def _field(field: FieldChange) -> list[str]:
    if not field.before and not field.after:
        return [f"!     {field.path}"]
    old = [f"-     {field.path}: {field.before}"] if field.before else []
    return old + ([f"+     {field.path}: {field.after}"] if field.after else [])
