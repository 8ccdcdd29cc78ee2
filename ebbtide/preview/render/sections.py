"""The sections of a customer. Each is written once; a terminal, a comment and the short text show it."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

from ebbtide.policies.rule import PolicyResult
from ebbtide.preview.changes import FOLLOWS, GOES_WITH
from ebbtide.preview.document import ChangeKind, ComingNights, CustomerPreview, ResourceChange
from ebbtide.preview.render.blocks import Change, Changes, Differing, Field, Items, Line, Section, Sign, Tone
from ebbtide.preview.render.cost import cost_section
from ebbtide.preview.render.simulation import simulated_section, simulated_services_section
from ebbtide.preview.render.words import changes_text, policies_text
from ebbtide.text.counts import several
from ebbtide.text.sheet import Sheet, left, right

_GOES_WITH = f"{GOES_WITH}{FOLLOWS}"
_COMPONENTS = 8  # the short text names at most this many
_SIGNS: Mapping[ChangeKind, Sign] = {
    ChangeKind.CREATE: "+",
    ChangeKind.UPDATE: "~",
    ChangeKind.REPLACE: "±",
    ChangeKind.DELETE: "-",
}


def nights_section(customer: CustomerPreview) -> Section | None:
    nights = customer.nights
    if nights is None:
        return None
    counts = (
        several(len(nights.rows), "window") + " in 14 days",
        several(len(nights.changes), "change") if nights.changes else "" if customer.new else "as before",
        several(len(nights.warnings), "warning") if nights.warnings else "",
    )
    warnings = [Line(line, Tone.WARNING) for line in nights.warnings]
    changes = [*map(Line, nights.changes)]
    short = [Line(f"nights: {several(len(warnings), 'warning')}", Tone.WARNING)] if warnings else []
    short += changes or ([] if customer.new else [Line("nights: as before")])
    return Section(
        kind="coming nights",
        title="coming nights",
        summary=("Coming nights", f": {', '.join(filter(None, counts))}"),
        body=(Items((*warnings, *changes, *map(Line, nights.sleep))), _windows(nights)),
        short=tuple(short),
    )


def _windows(nights: ComingNights) -> Sheet:
    ends = {row.local.rpartition(" (")[2] for row in nights.rows if row.local.endswith(")")}
    zone = next(iter(ends)).removesuffix(")") if len(ends) == 1 else ""
    return Sheet(
        columns=left(f"budgets are open ({zone or 'local time'})", "UTC", "", fold=True),
        rows=[
            (row.local.removesuffix(f" ({zone})"), f"{_instant(row.opens)} → {_instant(row.closes)}", row.note)
            for row in nights.rows
        ],
    )


def _instant(at: datetime) -> str:
    return f"{at.day} {at:%b %H:%M}"


def ownership_section(customer: CustomerPreview) -> Section | None:
    if not customer.ownership:
        return None
    owned = several(len(customer.ownership), "field")
    columns = [*left("object", fold=True), *left("field", fold=True, code=True), *left("owner", fold=True)]
    rows = [(row.object, row.field, row.owner, row.initial) for row in customer.ownership]
    return Section(
        kind="ownership",
        title="ownership",
        summary=("Ownership", f": {owned} that Pulumi declares once and then leaves to others"),
        body=(Sheet(columns=[*columns, *right("declared", fold=True)], rows=rows),),
    )


def policies_section(customer: CustomerPreview) -> Section | None:
    if customer.cost is None:  # no rule was judged
        return None
    found = policies_text(customer.policies)
    columns = left("rule", "", "resource", "reason", "fix", "source", fold=True)
    rows = [_policy_row(result) for result in customer.policies]
    without_source = Sheet(columns=columns[:-1], rows=[row[:-1] for row in rows])
    results = Differing((without_source,), (Sheet(columns=columns, rows=rows),))
    return Section(
        kind="policies",
        title=f"policies: {found}",
        summary=("Policies", f": {found}"),
        body=(results if rows else Differing((), (Line("Every rule holds."),)),),
        short=(Line(f"policies: {policies_text(customer.policies, named=True)}"),),
    )


def _policy_row(result: PolicyResult) -> tuple[str, ...]:
    severity = f"excepted: {result.excepted}" if result.excepted else str(result.severity)
    return (result.code, severity, result.resource, result.text, result.remedy, result.source)


def changes_section(customer: CustomerPreview) -> Section | None:
    if not customer.changes:
        return None
    return Section(
        kind="resource changes",
        title="resource changes",
        summary=("Resource changes", f": {changes_text(customer)}"),
        body=(differences(customer.changes),),
        short=components_in_short(customer.changes),
    )


def differences(changes: Sequence[ResourceChange]) -> Changes:
    components = _by_component(changes).items()
    return Changes(tuple((component, tuple(map(_change, parts))) for component, parts in components))


def components_in_short(changes: Sequence[ResourceChange]) -> tuple[Line, ...]:
    components = [*_by_component(changes)]
    more = f" and {len(components) - _COMPONENTS} more" if len(components) > _COMPONENTS else ""
    return (Line(f"changes in {', '.join(components[:_COMPONENTS])}{more}"),) if components else ()


def _by_component(changes: Sequence[ResourceChange]) -> dict[str, list[ResourceChange]]:
    """Changes by component, in the order of their first change; those outside components come last."""
    components: dict[str, list[ResourceChange]] = {}
    for change in changes:
        components.setdefault(change.component, []).append(change)
    outside = components.pop("", None)
    return components if outside is None else {**components, "outside of any component": outside}


def _change(change: ResourceChange) -> Change:
    shown = change.fields if change.kind in {ChangeKind.UPDATE, ChangeKind.REPLACE} else ()
    fields = tuple(Field(field.path, field.before, field.after) for field in shown)
    return Change(_SIGNS[change.kind], change_title(change), fields)


def change_title(change: ResourceChange) -> str:
    """`replace NodeGroup flexible-a (forced by instanceTypes; the old one is deleted first)`"""
    deleted_with = [reason.removeprefix(_GOES_WITH) for reason in change.reasons if reason.startswith(_GOES_WITH)]
    forcing = [reason for reason in change.reasons if not reason.startswith(_GOES_WITH)]
    goes = f"deleted with {', '.join(deleted_with)}" if deleted_with else ""
    forced = f"forced by {', '.join(forcing)}" if forcing else ""
    first = "the old one is deleted first" if change.lowers else ""
    why = "; ".join(part for part in (goes, forced, first) if part)
    return f"{change.kind} {change.type} {change.name}" + (f" ({why})" if why else "")


MakeSection: TypeAlias = Callable[[CustomerPreview], Section | None]
"""Returns None if the customer has nothing for the section."""

SECTIONS: tuple[MakeSection, ...] = (
    cost_section,
    nights_section,
    ownership_section,
    policies_section,
    simulated_section,
    simulated_services_section,
    changes_section,
)
"""In their order on a page."""


def sections_of(customer: CustomerPreview, which: Sequence[MakeSection] = SECTIONS) -> list[Section]:
    return [section for make in which if (section := make(customer))]
