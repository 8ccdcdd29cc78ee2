"""What a rule about one state of a stack is, and what it found."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from ebbtide.recording.resources import Resource
from ebbtide.recording.state import StackState

Hits: TypeAlias = Iterator[tuple[Resource, str]]
"""The resources that break a rule, each with a sentence about how. No sentence shows a value that may be secret."""


class Severity(StrEnum):
    BLOCKING = "blocking"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`source` is an issue as repository#number, or a chapter of aws/aws-eks-best-practices (latest/bpg)."""

    id: str
    severity: Severity
    law: str  # what holds where the rule is kept
    fix: str
    source: str
    check: Callable[[StackState], Hits]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyResult:
    id: str  # "EB012"
    severity: Severity
    resource: str
    reason: str
    fix: str
    source: str  # the incident, issue or chapter behind it
    excepted: str = ""  # the exception's reason and its last day, from the stack file
