"""A rule about one state of a stack, and its results."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ebbtide.findings import Finding, Kind, Severity
from ebbtide.recording.resources import Resource
from ebbtide.recording.state import StackState

Hits: TypeAlias = Iterator[tuple[Resource, str]]
"""Resources that break a rule, each with a sentence about how. No sentence shows a value that may be secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Kind):
    """`title` is true for every stack that keeps the rule.

    `source` is an issue as repository#number, or a chapter of aws/aws-eks-best-practices (latest/bpg).
    """

    remedy: str
    source: str
    check: Callable[[StackState], Hits]

    @property
    def severity(self) -> Severity:
        return self.severities[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyResult(Finding):
    source: str  # an incident, an issue or a chapter
    excepted: str = ""  # the exception's reason and its last day, from the stack file

    @property
    def resource(self) -> str:
        return self.subjects[0]
