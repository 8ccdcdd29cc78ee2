"""What a rule of the probe looks at, and what it says: one line."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from ebbtide.cli.probe_facts import Facts
from ebbtide.cli.probe_wants import Wants


class State(StrEnum):
    OK = "ok"
    MISSING = "missing"
    NOTE = "note"


class Verdict(NamedTuple):
    state: State
    what: str
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    facts: Facts
    wants: Wants
    clock_ahead: timedelta | None  # of the server's clock, against this machine's
    token_fault: str | None = None  # of the stack's secret, where a cache asks for one; None where nobody could read it


def ok(what: str, said: str) -> Verdict:
    return Verdict(State.OK, what, said)


def missing(what: str, said: str) -> Verdict:
    return Verdict(State.MISSING, what, said)


def note(what: str, said: str) -> Verdict:
    return Verdict(State.NOTE, what, said)
