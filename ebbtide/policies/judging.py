"""All rules over one stack, and what the stack file excepts from them."""

from collections.abc import Iterator, Sequence
from datetime import date

from ebbtide.policies.pods import described, name_of
from ebbtide.policies.registry import RULES
from ebbtide.policies.rule import Rule
from ebbtide.policies.seen import Seen
from ebbtide.preview.document import PolicyResult, Severity
from ebbtide.preview.resources import Resource
from ebbtide.settings.exceptions import PolicyException, ended
from ebbtide.settings.model import StackSettings

_FAULTS = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What code raises that meets an input it did not expect. One rule's fault must not hide what the others found."""

_ORDER = (Severity.BLOCKING, Severity.WARNING, Severity.NOTE)


def judge(
    settings: StackSettings, resources: Sequence[Resource], today: date, rules: Sequence[Rule] = RULES
) -> tuple[PolicyResult, ...]:
    """What breaks a rule, the gravest first, each order otherwise that of the rules and of the resources."""
    seen = Seen(settings, tuple(resources))
    results = [result for rule in rules for result in _judged(rule, seen, today)]
    results += _unneeded(settings.exceptions, results, today, {rule.id for rule in rules})
    return tuple(sorted(results, key=lambda result: _ORDER.index(result.severity)))


def _judged(rule: Rule, seen: Seen, today: date) -> Iterator[PolicyResult]:
    try:
        for resource, detail in rule.check(seen):  # what was found before a fault stays
            yield _result(rule, resource, detail, seen.settings.exceptions, today)
    except _FAULTS as error:
        yield PolicyResult(
            id=rule.id,
            severity=Severity.WARNING,
            resource="the whole stack",
            reason=f"the rule could not be judged ({type(error).__name__}: {error}): {rule.law}",
            fix="look by hand, and report this: it is a fault of Ebbtide's, not of the stack's",
            source=rule.source,
        )


def _result(
    rule: Rule, resource: Resource, detail: str, exceptions: Sequence[PolicyException], today: date
) -> PolicyResult:
    given = next((it for it in exceptions if it.policy == rule.id and it.resource in names_of(resource)), None)
    over = given is not None and ended(given, today)
    return PolicyResult(
        id=rule.id,
        severity=rule.severity,
        resource=described(resource),
        reason=f"{detail} (its exception ended on {given.until})" if given and over else detail,
        fix=rule.fix,
        source=rule.source,
        excepted=f"{given.reason} (until {given.until})" if given and not over else "",
    )


def names_of(resource: Resource) -> tuple[str, ...]:
    """What an exception may call it: what Pulumi and Kubernetes call it, or what the preview shows."""
    shown = described(resource)
    return resource.name, name_of(resource), shown, shown.split(" ", 1)[1]


def _unneeded(
    exceptions: Sequence[PolicyException], results: Sequence[PolicyResult], today: date, ids: set[str]
) -> Iterator[PolicyResult]:
    used = {(result.id, result.excepted) for result in results if result.excepted}
    for given in exceptions:
        in_use = (given.policy, f"{given.reason} (until {given.until})") in used
        if given.policy in ids and not in_use and not ended(given, today):
            yield PolicyResult(
                id=given.policy,
                severity=Severity.NOTE,
                resource=given.resource,
                reason="the stack file excepts it, and it breaks nothing",
                fix="remove the entry from ebbtide:exceptions, or correct its resource",
                source="ebbtide:exceptions",
            )
