"""Sentences of a page, the same in the terminal and in a comment."""

from collections import Counter
from collections.abc import Sequence

from ebbtide.findings import Severity
from ebbtide.policies.rule import PolicyResult
from ebbtide.preview.document import ChangeGroup, ChangeKind, CustomerPreview
from ebbtide.text.counts import several

NAMED = 4
"""A line names at most this many stacks, and shows only the number of more."""


def stacks_text(stacks: Sequence[str]) -> str:
    """Return the names of a few stacks, or the number of many."""
    return ", ".join(stacks) if len(stacks) <= NAMED else f"{len(stacks)} stacks"


def verdict_text(customer: CustomerPreview) -> str:
    return f"{customer.verdict}{' (new)' if customer.new else ''}"


def changes_text(customer: CustomerPreview) -> str:
    """Unreadable parts may have changes, so "no change" requires a complete preview."""
    counts = customer.counts
    parts = [f"{counts.get(kind, 0)} to {kind}" for kind in ChangeKind if counts.get(kind, 0)]
    return ", ".join(parts) or ("changes not known" if customer.incomplete else "no change")


def group_title(number: int, group: ChangeGroup) -> str:
    """`group 1: 184 stacks, the same 2 changes`"""
    changes = len(group.changes)
    same = "no change" if not changes else "the same change" if changes == 1 else f"the same {changes} changes"
    return f"group {number}: {len(group.stacks)} stacks, {same}"


def policy_warnings(customers: Sequence[CustomerPreview]) -> list[str]:
    """`policy EB019 warns of 13 stacks`, a line for each rule."""
    stacks: dict[str, dict[str, None]] = {}
    for customer in customers:
        for code in (policy.code for policy in customer.policies if _warns(policy)):
            stacks.setdefault(code, {})[customer.stack] = None
    return [f"policy {code} warns of {stacks_text(tuple(names))}" for code, names in sorted(stacks.items())]


def _warns(policy: PolicyResult) -> bool:
    return policy.severity is Severity.WARNING and not policy.excepted


def policies_text(policies: Sequence[PolicyResult], *, named: bool = False) -> str:
    """`1 blocking, 2 warnings, 1 excepted`; `named`: with the rules that warn, for verdicts without dangers."""
    open_ = Counter(policy.severity for policy in policies if not policy.excepted)
    codes = ", ".join(dict.fromkeys(policy.code for policy in policies if _warns(policy)))
    excepted = sum(bool(policy.excepted) for policy in policies)
    parts = [
        f"{open_[Severity.BLOCKING]} blocking" if open_[Severity.BLOCKING] else "",
        several(open_[Severity.WARNING], "warning") + (f" ({codes})" if named else "")
        if open_[Severity.WARNING]
        else "",
        several(open_[Severity.NOTE], "note") if open_[Severity.NOTE] else "",
        f"{excepted} excepted" if excepted else "",
    ]
    return ", ".join(part for part in parts if part) or "nothing found"
