"""Judge one stack by all rules, with the exceptions of its stack file."""

from collections.abc import Iterator, Sequence
from datetime import date

from ebbtide.findings import Severity, worst_first
from ebbtide.policies import budgets, cloud, containers, network, owners, places, rollouts
from ebbtide.policies.rule import PolicyResult, Rule
from ebbtide.recording.resources import Resource, display_name, name_of
from ebbtide.recording.state import StackState
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.exceptions import PolicyException, ended

RULES: tuple[Rule, ...] = tuple(
    sorted(
        (
            *budgets.RULES,
            *owners.RULES,
            *places.RULES,
            *rollouts.RULES,
            *containers.RULES,
            *cloud.RULES,
            *network.RULES,
        ),
        key=lambda rule: rule.code,
    )
)
"""All rules, in the order of their ids."""

_FAULTS = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""Errors of code that meets an unexpected input. A fault of one rule must not hide the results of the others."""


def judge(
    settings: StackSettings, resources: Sequence[Resource], today: date, rules: Sequence[Rule] = RULES
) -> tuple[PolicyResult, ...]:
    """Results of all rules, the most severe first, then in the order of the rules and of the resources."""
    state = StackState(settings, tuple(resources))
    results = [result for rule in rules for result in _judged(rule, state, today)]
    results += _unneeded(settings.exceptions, results, today, {rule.code for rule in rules})
    return tuple(worst_first(results))


def _judged(rule: Rule, state: StackState, today: date) -> Iterator[PolicyResult]:
    try:
        for resource, detail in rule.check(state):  # results before a fault are kept
            yield _result(rule, resource, detail, state.settings.exceptions, today)
    except _FAULTS as error:
        yield PolicyResult(
            code=rule.code,
            severity=Severity.WARNING,
            subjects=("the entire stack",),
            text=f"the rule could not be judged ({type(error).__name__}: {error}): {rule.title}",
            remedy="check by hand, and report this: it is a bug of Ebbtide, not of the stack",
            source=rule.source,
        )


def _result(
    rule: Rule, resource: Resource, detail: str, exceptions: Sequence[PolicyException], today: date
) -> PolicyResult:
    exception = next(
        (entry for entry in exceptions if entry.policy == rule.code and entry.resource in names_of(resource)), None
    )
    expired = exception is not None and ended(exception, today)
    return PolicyResult(
        code=rule.code,
        severity=rule.severity,
        subjects=(display_name(resource),),
        text=f"{detail} (its exception ended on {exception.until})" if exception and expired else detail,
        remedy=rule.remedy,
        source=rule.source,
        excepted=f"{exception.reason} (until {exception.until})" if exception and not expired else "",
    )


def names_of(resource: Resource) -> tuple[str, ...]:
    """Names that an exception may use: Pulumi's, Kubernetes' and the displayed one."""
    shown = display_name(resource)
    return resource.name, name_of(resource), shown, shown.split(" ", 1)[1]


def _unneeded(
    exceptions: Sequence[PolicyException], results: Sequence[PolicyResult], today: date, ids: set[str]
) -> Iterator[PolicyResult]:
    used = {(result.code, result.excepted) for result in results if result.excepted}
    for exception in exceptions:
        in_use = (exception.policy, f"{exception.reason} (until {exception.until})") in used
        if exception.policy in ids and not in_use and not ended(exception, today):
            yield PolicyResult(
                code=exception.policy,
                severity=Severity.NOTE,
                subjects=(exception.resource,),
                text="the stack file excepts it, and it breaks nothing",
                remedy="remove the entry from ebbtide:exceptions, or correct its resource",
                source="ebbtide:exceptions",
            )
