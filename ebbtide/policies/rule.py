"""What a rule is: words for people, and one function that finds where it is broken."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ebbtide.policies.seen import Seen
from ebbtide.preview.document import Severity
from ebbtide.preview.resources import Resource

Hits: TypeAlias = Iterator[tuple[Resource, str]]
"""The resources that break a rule, each with a sentence about how. No sentence shows a value that may be secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`source` is an issue as repository#number, or a chapter of aws/aws-eks-best-practices (latest/bpg)."""

    id: str
    severity: Severity
    law: str  # what holds where the rule is kept
    fix: str
    source: str
    check: Callable[[Seen], Hits]
