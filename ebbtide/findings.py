"""Findings about a stack or a change, and the kinds of findings.

Problems of a stack file, cautions, policy results and dangers of a change are subclasses of `Finding`. Each adds its
own fields, such as the impact of a danger.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from ebbtide.text.one_line import printable


class Severity(StrEnum):
    """The worst first."""

    BLOCKING = "blocking"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of finding, registered once, beside the code that reports it."""

    code: str  # public: stable when a text changes
    title: str
    severities: tuple[Severity, ...]  # possible for findings of this kind, the worst first


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`str()` is one line for operators: where, what, and what to do."""

    code: str
    severity: Severity
    text: str
    subjects: tuple[str, ...] = ()  # names of the groups, pools, workloads or resources concerned
    remedy: str = ""  # what to do instead or first
    place: str = ""  # a key, or a line of a file; "" for a finding about its subjects as a whole

    def __str__(self) -> str:
        text = f"{self.place}: {self.text}" if self.place else self.text
        return printable(f"{text}; {self.remedy}" if self.remedy else text)


AnyFinding = TypeVar("AnyFinding", bound=Finding)
_ORDER = tuple(Severity)


def worst_first(findings: Iterable[AnyFinding]) -> list[AnyFinding]:
    """Sort by severity; findings of the same severity keep their order."""
    return sorted(findings, key=lambda finding: _ORDER.index(finding.severity))
