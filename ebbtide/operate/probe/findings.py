"""What a rule of the probe looks at, and what it finds, in one line."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from ebbtide.operate.probe.facts import Facts
from ebbtide.operate.probe.wants import Wants


class State(StrEnum):
    OK = "ok"
    MISSING = "missing"
    NOTE = "note"


class Finding(NamedTuple):
    state: State
    what: str
    said: str  # the text; its name is a key of `--json`


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    facts: Facts
    wants: Wants
    clock_ahead: timedelta | None  # of the server's clock, against this machine's
    token_fault: str | None = None  # of the stack's secret, where a cache asks for one; None where it could not be read


def ok(what: str, said: str) -> Finding:
    return Finding(State.OK, what, said)


def missing(what: str, said: str) -> Finding:
    return Finding(State.MISSING, what, said)


def note(what: str, said: str) -> Finding:
    return Finding(State.NOTE, what, said)
