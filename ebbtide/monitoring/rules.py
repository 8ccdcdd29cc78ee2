"""What a rule of Prometheus is, and how expressions name the metrics of one customer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

CUSTOMER = "customer"
"""The label that every target of a stack is given when it is scraped: one Prometheus may watch several stacks."""


class Severity(StrEnum):
    """Whom an alert concerns."""

    CRITICAL = "critical"  # wakes somebody: a promise of the stack file is broken, or nobody could tell
    WARNING = "warning"  # has time until the morning
    NONE = "none"  # for machines alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """`record` is level:metric:operation, as Prometheus' own conventions have it; `labels` are set on the result."""

    record: str
    expr: str
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """`summary` is one sentence, and may hold Prometheus' templates; `runbook` is the name of its page."""

    name: str
    expr: str
    lasting: timedelta
    severity: Severity
    summary: str
    runbook: str
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Rules that are evaluated one after the other, so that a later one may use an earlier one."""

    name: str
    rules: tuple[Recording | Alert, ...]


@dataclass(frozen=True, slots=True)
class Metrics:
    """Names metrics of one customer: `Metrics("acme")("pool_jobs", part="waiting")`.

    The values are names that the stack file's own types let pass, or words of the code: none needs escaping.
    """

    customer: str

    def __call__(self, name: str, **labels: str) -> str:
        chosen: Mapping[str, str] = {CUSTOMER: self.customer, **labels}
        matchers = ",".join(f'{key}="{value}"' for key, value in chosen.items())
        return f"ebbtide_{name}{{{matchers}}}"

    def highest(self, name: str, *by: str, **labels: str) -> str:
        """The same without the labels of the pod that told it, which change with each new leader."""
        return f"max by ({', '.join((CUSTOMER, *by))}) ({self(name, **labels)})"

    def lowest(self, name: str, *by: str) -> str:
        return f"min by ({', '.join((CUSTOMER, *by))}) ({self(name)})"
