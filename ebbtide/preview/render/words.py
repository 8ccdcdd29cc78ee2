"""The sentences and figures of a page, the same in the terminal and in a comment."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ebbtide.policies.rule import PolicyResult, Severity
from ebbtide.preview.changes import FOLLOWS, GOES_WITH
from ebbtide.preview.document import (
    Amounts,
    ChangeKind,
    ComingNights,
    CostComparison,
    CostLine,
    CustomerPreview,
    PreviewDocument,
    ResourceChange,
    ServiceCostLine,
    Simulated,
    StackVerdict,
)
from ebbtide.units.durations import duration
from ebbtide.units.money import whole_dollars as usd

ORDER = (StackVerdict.BLOCKED, StackVerdict.ATTENTION, StackVerdict.SAFE)
SEVERITIES = (Severity.BLOCKING, Severity.WARNING, Severity.NOTE)
_NONE = "-"
_GOES_WITH = f"{GOES_WITH}{FOLLOWS}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFinding:
    """What must be seen: a danger, or a policy that blocks."""

    severity: Severity
    what: str
    impact: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFinding:
    """One finding and all customers that it is the same for: a change of code says it once and not fifty times."""

    finding: PageFinding
    stacks: tuple[str, ...]


def headline(document: PreviewDocument) -> str:
    """The verdict of all customers, the worst first: "1 blocked, 2 need attention, 40 safe"."""
    if len(document.customers) == 1:
        one = document.customers[0]
        return f"{one.stack}: {one.verdict}{_new(one)}, {changes_text(one)}"
    found = Counter(customer.verdict for customer in document.customers)
    words = {StackVerdict.ATTENTION: "need attention" if found[StackVerdict.ATTENTION] != 1 else "needs attention"}
    parts = [f"{found[verdict]} {words.get(verdict, verdict)}" for verdict in ORDER if found[verdict]]
    return f"{len(document.customers)} customers: {', '.join(parts)}" if parts else "no customer to preview"


def _new(customer: CustomerPreview) -> str:
    return " (new)" if customer.new else ""


def worst(document: PreviewDocument) -> StackVerdict:
    verdicts = {customer.verdict for customer in document.customers}
    return next((verdict for verdict in ORDER if verdict in verdicts), StackVerdict.SAFE)


def compared(document: PreviewDocument) -> str:
    if document.against:
        return f"compared with {document.against}"
    if any(customer.new for customer in document.customers):
        return "compared with nothing, so all is shown as new (--against names what to compare with)"
    return "the files are compared with nothing (--against names what to compare with)"


def changes_text(customer: CustomerPreview) -> str:
    """What could not be read may hold changes, so none is only said of what could."""
    counts = customer.counts
    parts = [f"{counts.get(kind, 0)} to {kind}" for kind in ChangeKind if counts.get(kind, 0)]
    return ", ".join(parts) or ("changes not known" if customer.incomplete else "no change")


def shared_findings(customers: Sequence[CustomerPreview]) -> list[SharedFinding]:
    """All findings, the worst first, then in the customers' order."""
    stacks: dict[PageFinding, list[str]] = {}
    for customer in customers:
        for finding in findings_of(customer):
            stacks.setdefault(finding, []).append(customer.stack)
    found = [SharedFinding(finding=finding, stacks=tuple(names)) for finding, names in stacks.items()]
    return sorted(found, key=lambda shared: SEVERITIES.index(shared.finding.severity))


def findings_of(customer: CustomerPreview) -> list[PageFinding]:
    """The dangers, and each blocking policy result that is not excepted."""
    dangers = [PageFinding(severity=d.severity, what=d.what, impact=d.impact, fix=d.fix) for d in customer.dangers]
    blocking = [p for p in customer.policies if p.severity is Severity.BLOCKING and not p.excepted]
    return [*dict.fromkeys(dangers), *[_policy_finding(policy) for policy in blocking]]


def no_danger(customers: Sequence[CustomerPreview]) -> str:
    """Nothing was found; where something could not be read, that proves little."""
    blind = any(customer.incomplete for customer in customers)
    return "No danger found in what could be read." if blind else "No danger found."


def _policy_finding(policy: PolicyResult) -> PageFinding:
    what = f"policy {policy.id}, {policy.resource}: {policy.reason}"
    return PageFinding(severity=policy.severity, what=what, fix=policy.fix)


def policies_text(policies: Sequence[PolicyResult]) -> str:
    """`1 blocking, 2 warnings, 1 excepted`"""
    open_ = Counter(policy.severity for policy in policies if not policy.excepted)
    excepted = sum(bool(policy.excepted) for policy in policies)
    parts = [
        f"{open_[Severity.BLOCKING]} blocking" if open_[Severity.BLOCKING] else "",
        count(open_[Severity.WARNING], "warning") if open_[Severity.WARNING] else "",
        count(open_[Severity.NOTE], "note") if open_[Severity.NOTE] else "",
        f"{excepted} excepted" if excepted else "",
    ]
    return ", ".join(part for part in parts if part) or "nothing found"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def step(before: float | None, after: float | None) -> str:
    """`1,200 → 1,500`, or one figure where nothing changes or nothing was."""
    if before is None or usd(before) == usd(after):
        return usd(after)
    return f"{usd(before)} → {usd(after)}"


def amounts_step(before: Amounts | None, after: Amounts | None, field: str) -> str:
    """The field of both sides; a line that is not there on one side is nothing there."""
    old = usd(0 if before is None else _amount(before, field))
    new = usd(0 if after is None else _amount(after, field))
    return new if old == new else " → ".join("unknown" if shown == _NONE else shown for shown in (old, new))


def line_step(line: CostLine, field: str, cost: CostComparison) -> str:
    """For a new customer nothing was before, which is not the same as nothing to pay."""
    before = line.after if cost.before is None and line.before is None else line.before
    return amounts_step(before, line.after, field)


SERVICES_TITLE = "of these, the nodes that services take, on demand"
SERVICE_COLUMNS = ("service", ">pods", ">at min", ">at max")


def service_rows(cost: CostComparison) -> list[tuple[str, ...]]:
    return [_service_row(line, new=cost.before is None) for line in cost.services]


def _service_row(line: ServiceCostLine, *, new: bool) -> tuple[str, ...]:
    """Of a new customer nothing was before."""
    before, was = (line.after, line.pods_after) if new else (line.before, line.pods_before)
    return (
        line.name,
        _pods_step(was, line.pods_after),
        *(amounts_step(before, line.after, field) for field in ("min", "max")),
    )


def _pods_step(before: tuple[int, int] | None, after: tuple[int, int] | None) -> str:
    old, new = (_NONE if it is None else f"{it[0]} to {it[1]}" for it in (before, after))
    return new if old == new else f"{old} → {new}"


def _amount(amounts: Amounts | None, field: str) -> float | None:
    return None if amounts is None else {"min": amounts.at_min, "max": amounts.at_max, "usage": amounts.at_usage}[field]


def money_text(cost: CostComparison) -> str:
    """`1,200 → 2,300 at min (+1,100), 5,000 at max`: US dollars a month of the whole stack."""
    fields = [field for field in cost_fields(cost) if _total(cost, field) != _NONE]
    return ", ".join(f"{_total(cost, field)} at {field}{_more(cost, field)}" for field in fields) or "not known"


def _more(cost: CostComparison, field: str) -> str:
    old, new = _amount(cost.before, field), _amount(cost.after, field)
    changed = old is not None and new is not None and usd(old) != usd(new)
    return f" ({new - old:+,.0f})" if changed and old is not None and new is not None else ""


def cost_fields(cost: CostComparison) -> tuple[str, ...]:
    """What the columns show: the stated usage only where one is stated."""
    stated = any(amounts is not None and amounts.at_usage is not None for amounts in (cost.before, cost.after))
    return ("min", "max", "usage") if stated else ("min", "max")


def _total(cost: CostComparison, field: str) -> str:
    return amounts_step(cost.before, cost.after, field) if cost.before else usd(_amount(cost.after, field))


def totals(cost: CostComparison, fields: Sequence[str] = ("min", "max", "usage")) -> list[str]:
    return [_total(cost, field) for field in fields]


def cost_notes(cost: CostComparison) -> list[str]:
    """Each note once, with the lines that it is about."""
    names: dict[str, list[str]] = {}
    for line in cost.lines:
        if line.note:
            names.setdefault(line.note, []).append(line.name)
    return [f"{', '.join(lines)}: {note}" for note, lines in names.items()]


def hours_lines(cost: CostComparison) -> list[str]:
    """Hours of a mean month inside and outside business hours, with the money of each where it is known."""
    rows = (
        ("business hours", cost.open_hours, cost.open_usd),
        ("outside business hours", cost.closed_hours, cost.closed_usd),
    )
    return [
        f"{name}: {step(*hours)} h a month"
        + (f", {step(*money)} USD of the stated usage" if money[1] is not None else "")
        for name, hours, money in rows
    ]


def basis(cost: CostComparison) -> str:
    """What the figures rest on."""
    dates = ", ".join(sorted({day.isoformat() for day in cost.prices_of}))
    return f"{cost.confidence}; prices of {dates}" if dates else cost.confidence


def night_rows(nights: ComingNights) -> tuple[str, list[tuple[str, str, str]]]:
    """The zone, and for each window its local time, its UTC and its note; one zone is named once."""
    ends = {row.local.rpartition(" (")[2] for row in nights.rows if row.local.endswith(")")}
    zone = next(iter(ends)).removesuffix(")") if len(ends) == 1 else ""
    rows = [
        (row.local.removesuffix(f" ({zone})"), f"{_instant(row.opens)} → {_instant(row.closes)}", row.note)
        for row in nights.rows
    ]
    return zone or "local time", rows


def _instant(at: datetime) -> str:
    return f"{at.day} {at:%b %H:%M}"


def simulated_over(found: Simulated) -> str:
    """`7 of 28 days of surf2022-july`"""
    part = f"{found.days} of {found.trace_days}" if found.days < found.trace_days else str(found.days)
    return f"{part} day{'s' if part != '1' else ''} of {found.trace}"


def simulated_rows(found: Simulated) -> list[tuple[str, str]]:
    before, after = found.coverage
    return [
        ("node-hours", step(*found.node_hours)),
        ("US dollars", step(*found.usd)),
        ("95 of 100 jobs wait less than", _wait_step(*found.p95_wait)),
        ("jobs interrupted", step(*found.interrupted)),
        ("jobs unfinished when the last day ends", step(*found.unfinished)),
        ("jobs that the pools can run", f"{step(None if before is None else 100 * before, 100 * after)} %"),
    ]


def _wait_step(before: float | None, after: float) -> str:
    old, new = None if before is None else duration(before), duration(after)
    return new if old in (None, new) else f"{old} → {new}"


def by_component(changes: Sequence[ResourceChange]) -> dict[str, list[ResourceChange]]:
    """Components in the order of their first change; what belongs to none comes last."""
    found: dict[str, list[ResourceChange]] = {}
    for change in changes:
        found.setdefault(change.component, []).append(change)
    loose = found.pop("", None)
    return found if loose is None else {**found, "": loose}


def change_title(change: ResourceChange) -> str:
    """`replace NodeGroup flexible-a (forced by instanceTypes; the old one is deleted first)`"""
    with_ = [reason.removeprefix(_GOES_WITH) for reason in change.reasons if reason.startswith(_GOES_WITH)]
    forcing = [reason for reason in change.reasons if not reason.startswith(_GOES_WITH)]
    goes = f"deleted with {', '.join(with_)}" if with_ else ""
    forced = f"forced by {', '.join(forcing)}" if forcing else ""
    first = "the old one is deleted first" if change.lowers else ""
    why = "; ".join(part for part in (goes, forced, first) if part)
    return f"{change.kind} {change.type} {change.name}" + (f" ({why})" if why else "")
