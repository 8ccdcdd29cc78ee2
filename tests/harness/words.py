"""The words of the harness: what can go wrong, between which writes, and what a run counts."""

from dataclasses import dataclass
from enum import StrEnum

from controllers.ports import Action


class Fault(StrEnum):
    CRASH = "controller crashes"
    LEASE_LOST = "lease lost, writes late"
    REDIS_DEAD = "redis dead"
    REDIS_FROZEN = "redis frozen"
    REDIS_EMPTY = "redis restarted empty"
    REDIS_RESTARTED = "redis restarted with data"
    REDIS_FAILOVER = "redis failed over"
    REDIS_FULL = "redis full"
    REDIS_AUTH = "redis refuses auth"
    API_DROPPED = "api unreachable"
    API_CONFLICT = "api 409"
    API_GONE = "api 410, caches freeze"
    API_BUSY = "api 429"
    API_ERROR = "api 500"
    API_SLOW = "api slow, writes late"
    API_LAG = "api watches lag"
    API_DENIED = "api webhook denies"
    CLOCK_SKEW = "clock skewed"
    DEPLOYMENT_DELETED = "deployment deleted"
    DEPLOYMENT_RENAMED = "deployment renamed"
    PODS_SILENT = "watch of pods silent"
    QUOTA = "quota refuses pods"
    SLOW_START = "pods start slowly"
    NODE_DEAD = "node loses power"
    NODE_CUT = "node cut off, works on"
    WORKER_FROZEN = "worker frozen"


class WriteKind(StrEnum):
    MARK = "mark"
    LOWER = "lower"
    RAISE = "raise"
    OPEN = "open"
    CLOSE = "close"


class When(StrEnum):
    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Gap:
    """A place between two writes of the controller."""

    when: When
    write: WriteKind

    def __str__(self) -> str:
        return f"{self.when} {self.write}"


GAPS = tuple(Gap(when, write) for write in WriteKind for when in When)
CELLS = tuple((fault, gap) for fault in Fault for gap in GAPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One write on its way to the cluster, with what its author knew."""

    action: Action
    read_at: float  # when the author last read the queues
    seen_version: str  # of the object, in the author's caches
    author: int  # number of the controller's incarnation
    lowers: bool = False  # replicas, by what the author saw
    late: bool = False  # its author gave it up before it landed


@dataclass(frozen=True, slots=True)
class Violation:
    at: float
    law: str
    what: str

    def __str__(self) -> str:
        return f"{self.at:8.3f}  {self.law}: {self.what}"
