"""Rules of Prometheus, and the selectors of one customer's metrics."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

CUSTOMER = "customer"
"""The label that scraping adds to every target of a stack: one Prometheus may watch several stacks."""


class AlertSeverity(StrEnum):
    """The urgency of an alert."""

    CRITICAL = "critical"  # pages: a promise of the stack file is broken, or cannot be checked
    WARNING = "warning"  # can wait until morning
    NONE = "none"  # for machines only


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingRule:
    """`record` is level:metric:operation, by Prometheus' convention; `labels` are set on the result."""

    record: str
    expr: str
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """`summary` is one sentence, and may contain Prometheus' templates; `runbook` is the name of its page.

    `stacks` and `fires_after` are words of the documents: which stacks have the alert, if not all, and when it fires,
    if not simply after `lasting`.
    """

    name: str
    expr: str
    lasting: timedelta
    severity: AlertSeverity
    summary: str
    runbook: str
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    stacks: str = ""
    fires_after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleGroup:
    """Rules evaluated in order, so that a later rule may use an earlier one."""

    name: str
    rules: tuple[RecordingRule | Alert, ...]


@dataclass(frozen=True, slots=True)
class Metrics:
    """Select metrics of one customer: `Metrics("acme")("pool_jobs", part="waiting")`.

    Label values are checked names of the stack file, or constants: none needs escaping.
    """

    customer: str

    def __call__(self, name: str, **labels: str) -> str:
        chosen: Mapping[str, str] = {CUSTOMER: self.customer, **labels}
        matchers = ",".join(f'{key}="{value}"' for key, value in chosen.items())
        return f"ebbtide_{name}{{{matchers}}}"

    def highest(self, name: str, *by: str, **labels: str) -> str:
        """Return the maximum without the labels of the reporting pod, which change with each new leader."""
        return f"max by ({', '.join((CUSTOMER, *by))}) ({self(name, **labels)})"

    def newest(self, name: str, of: tuple[str, ...], *by: str) -> str:
        """Return 1 for each node or pod `of` with the labels `by` of its newest sample.

        Prometheus shows a series for five minutes after its last sample. Within them a name may have come back with
        other labels, and a join by the name alone would find two series and fail.
        """
        seen, one = f"timestamp({self(name)})", ", ".join((CUSTOMER, *of))
        newest = f"== bool on ({one}) group_left () max by ({one}) ({seen})"
        return f"(max by ({', '.join((one, *by))}) ({seen}) {newest} == 1)"

    def without_waits(self, within: str) -> str:
        """Return 0 for each pool in whose queues no job waited in the last hour, and -1 for each in which one did.

        `pool_oldest_wait_seconds` has no series while nothing waits, and none for queues that do not show how long
        jobs wait. Only pools recorded in the time `within` (`5m`) count.
        """
        waiting = self("pool_jobs", part="waiting")
        waited, recorded = (f"max by (pool) (max_over_time({waiting}[{span}]))" for span in ("1h", within))
        return f"(0 - ({waited} > bool 0) and {recorded})"

    def leaders(self) -> str:
        """Return the number of pods that lead. Replicas of Prometheus that record one pod twice count once."""
        return f"sum(max by (pod, instance) ({self('leader')}))"

    def lowest(self, name: str, *by: str) -> str:
        return f"min by ({', '.join((CUSTOMER, *by))}) ({self(name)})"
