"""A rule about one state of a stack, and its results."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from ebbtide.recording.resources import Resource
from ebbtide.recording.state import StackState

Hits: TypeAlias = Iterator[tuple[Resource, str]]
"""Resources that break a rule, each with a sentence about how. No sentence shows a value that may be secret."""


class Severity(StrEnum):
    BLOCKING = "blocking"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`source` is an issue as repository#number, or a chapter of aws/aws-eks-best-practices (latest/bpg)."""

    id: str
    severity: Severity
    law: str  # true for every stack that keeps the rule
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
    source: str  # an incident, an issue or a chapter
    excepted: str = ""  # the exception's reason and its last day, from the stack file
