"""Input of the probe's rules, and their one-line findings."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from ebbtide.operate.objects import Document
from ebbtide.operate.probe.adopted_facts import AdoptedFacts
from ebbtide.operate.probe.facts import Facts
from ebbtide.operate.probe.wants import Wants

NO_STATUS: tuple[Document, str] = ({}, "")


class State(StrEnum):
    OK = "ok"
    MISSING = "missing"
    NOTE = "note"


class ProbeFinding(NamedTuple):
    state: State
    what: str
    said: str  # the text; its name is a key of `--json`


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    facts: Facts
    wants: Wants
    clock_ahead: timedelta | None  # the server's clock minus this machine's
    token_fault: str | None = None  # of the stack's secret, if a cache needs one; None if it could not be read
    adopted: AdoptedFacts | None = None  # None without rules
    status: tuple[Document, str] = NO_STATUS  # the controller's, or why it gave none; not read without brokers


def ok(what: str, said: str) -> ProbeFinding:
    return ProbeFinding(State.OK, what, said)


def missing(what: str, said: str) -> ProbeFinding:
    return ProbeFinding(State.MISSING, what, said)


def note(what: str, said: str) -> ProbeFinding:
    return ProbeFinding(State.NOTE, what, said)
