"""The sentences of a page, the same in the terminal and in a comment."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ebbtide.policies.rule import PolicyResult, Severity
from ebbtide.preview.changes import FOLLOWS, GOES_WITH
from ebbtide.preview.document import (
    ChangeGroup,
    ChangeKind,
    CustomerPreview,
    PreviewDocument,
    ResourceChange,
    StackVerdict,
)
from ebbtide.preview.render.figures import NAMED

ORDER = (StackVerdict.BLOCKED, StackVerdict.ATTENTION, StackVerdict.SAFE)
SEVERITIES = (Severity.BLOCKING, Severity.WARNING, Severity.NOTE)
_GOES_WITH = f"{GOES_WITH}{FOLLOWS}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFinding:
    """A finding that is never folded: a danger, or a blocking policy."""

    severity: Severity
    what: str
    impact: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFinding:
    """A finding and all customers that share it, so that a change of code reports it once and not fifty times."""

    finding: PageFinding
    stacks: tuple[str, ...]


def headline(document: PreviewDocument) -> str:
    """The verdict of all customers, the worst first: "1 blocked, 2 need attention, 40 safe"."""
    if len(document.customers) == 1:
        customer = document.customers[0]
        return f"{customer.stack}: {customer.verdict}{_new(customer)}, {changes_text(customer)}"
    verdicts = Counter(customer.verdict for customer in document.customers)
    words = {StackVerdict.ATTENTION: "need attention" if verdicts[StackVerdict.ATTENTION] != 1 else "needs attention"}
    parts = [f"{verdicts[verdict]} {words.get(verdict, verdict)}" for verdict in ORDER if verdicts[verdict]]
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
        return "compared with no earlier state, so everything is new (--against GIT_REF compares)"
    return "the files are not compared (--against GIT_REF compares)"


def changes_text(customer: CustomerPreview) -> str:
    """Unreadable parts may have changes, so "no change" requires a complete preview."""
    counts = customer.counts
    parts = [f"{counts.get(kind, 0)} to {kind}" for kind in ChangeKind if counts.get(kind, 0)]
    return ", ".join(parts) or ("changes not known" if customer.incomplete else "no change")


def shared_findings(customers: Sequence[CustomerPreview]) -> list[SharedFinding]:
    """All findings, the worst first, then in the customers' order."""
    stacks: dict[PageFinding, list[str]] = {}
    for customer in customers:
        for finding in findings_of(customer):
            stacks.setdefault(finding, []).append(customer.stack)
    findings = [SharedFinding(finding=finding, stacks=tuple(names)) for finding, names in stacks.items()]
    return sorted(findings, key=lambda shared: SEVERITIES.index(shared.finding.severity))


def findings_of(customer: CustomerPreview) -> list[PageFinding]:
    """The dangers, and each blocking policy result that is not excepted."""
    dangers = [PageFinding(severity=d.severity, what=d.what, impact=d.impact, fix=d.fix) for d in customer.dangers]
    blocking = [p for p in customer.policies if p.severity is Severity.BLOCKING and not p.excepted]
    return [*dict.fromkeys(dangers), *[_policy_finding(policy) for policy in blocking]]


def group_title(number: int, group: ChangeGroup) -> str:
    """`group 1: 184 stacks, the same 2 changes`"""
    changes = len(group.changes)
    same = "no change" if not changes else "the same change" if changes == 1 else f"the same {changes} changes"
    return f"group {number}: {len(group.stacks)} stacks, {same}"


def labels_of(stacks: Sequence[str], document: PreviewDocument) -> tuple[list[str], list[str]]:
    """Return labels of groups that are among many stacks, such as `the 184 stacks of group 1`, and the other stacks."""
    if len(stacks) <= NAMED:
        return [], list(stacks)
    if len(document.customers) == len(stacks):
        return [f"all {len(stacks)} stacks"], []
    labels: list[str] = []
    others = dict.fromkeys(stacks)
    for number, group in enumerate(document.groups, start=1):
        if len(group.stacks) > NAMED and others.keys() >= set(group.stacks):
            labels.append(f"the {len(group.stacks)} stacks of group {number}")
            for stack in group.stacks:
                del others[stack]
    return labels, list(others)


def no_danger(customers: Sequence[CustomerPreview]) -> str:
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


def by_component(changes: Sequence[ResourceChange]) -> dict[str, list[ResourceChange]]:
    """Changes by component, in the order of their first change; those outside components come last."""
    components: dict[str, list[ResourceChange]] = {}
    for change in changes:
        components.setdefault(change.component, []).append(change)
    outside = components.pop("", None)
    return components if outside is None else {**components, "": outside}


def change_title(change: ResourceChange) -> str:
    """`replace NodeGroup flexible-a (forced by instanceTypes; the old one is deleted first)`"""
    deleted_with = [reason.removeprefix(_GOES_WITH) for reason in change.reasons if reason.startswith(_GOES_WITH)]
    forcing = [reason for reason in change.reasons if not reason.startswith(_GOES_WITH)]
    goes = f"deleted with {', '.join(deleted_with)}" if deleted_with else ""
    forced = f"forced by {', '.join(forcing)}" if forcing else ""
    first = "the old one is deleted first" if change.lowers else ""
    why = "; ".join(part for part in (goes, forced, first) if part)
    return f"{change.kind} {change.type} {change.name}" + (f" ({why})" if why else "")
