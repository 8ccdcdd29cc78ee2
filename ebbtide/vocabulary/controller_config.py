"""The controller's config document: written by `components/` with `dump()`, read by `controllers/` with `load()`.

One JSON object whose keys are the fields below in camelCase. Durations are seconds, times of day are minutes from local
midnight, dates are ISO 8601. `load()` reads the current `SCHEMA` and the one before it, so that a controller may be
newer than the document it is given; what an older document lacks has its default. The release before wrote
`stabilizationWindow` and `resync` as `calm` and `sweep`, which are read too.

Schema 2: pools may have floors (planned overnight work). Schema 3: growth limits, drain targets, morning floors,
Sentinels, a certificate authority, and the budgets that are never opened.
"""

import json
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from datetime import date, timedelta
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from ebbtide.vocabulary.windows import BusinessHours, DisruptionWindow

SCHEMA = 3

_T = TypeVar("_T")
# Of a field's metadata: the key where it is not the name in camelCase, and the one that the release before wrote.
_KEY, _FORMER = "key", "former"


class UnreadableConfig(ValueError):
    """The document is not one that this version can read; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """Planned work: at least `workers` from local time `at` (minutes) for `lasting`, every day."""

    at: int
    lasting: timedelta
    workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Morning:
    """At least `workers` from `node_startup` before each opening until `lasting` after it."""

    lasting: timedelta
    workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CeleryKeys:
    """Names of Celery's keys, with Celery's defaults. Each queue has one list per priority step."""

    prefix: str = ""  # global_keyprefix
    priorities: tuple[int, ...] = (0, 3, 6, 9)  # priority_steps; 0 is the list with the queue's plain name
    separator: str = "\x06\x16"  # sep
    unacked: str = "unacked"  # unacked_key
    unacked_index: str = "unacked_index"  # unacked_index_key


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPolicy:
    """How one worker pool (one Deployment) is sized."""

    name: str
    namespace: str
    deployment: str
    source: str  # demand source kind: "rq", "celery" or "list"
    queues: tuple[str, ...]
    jobs_per_worker: int
    min_workers: int = field(metadata={_KEY: "min"})
    max_workers: int = field(metadata={_KEY: "max"})
    # Demand must stay low this long before replicas fall, and be empty this long before zero.
    stabilization_window: timedelta = field(metadata={_FORMER: "calm"})
    longest_job: timedelta
    safe_stop: bool  # SIGTERM to a worker never loses a job: the declared net under every scale-in
    floors: tuple[Floor, ...] = ()
    morning: Morning | None = None
    growth_per_minute: int | None = None  # workers that may be added in any minute; None: no limit
    drain_within: timedelta | None = None  # jobs_per_worker was derived from it; a head that waits longer overrules
    celery: CeleryKeys | None = None  # None: the defaults, or another kind


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPolicy:
    """A budget that the controller opens (1) and closes (0): of a flexible workload, or of a pool with checkpoints."""

    name: str
    namespace: str
    always: bool = False  # open in business hours, too: the pool's jobs may be interrupted at any time


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisEndpoint:
    """Where demand is read. The password is never in the document: `password_env` names the variable that holds it.

    With `sentinels` ("host:port") the primary called `sentinel_service` is asked for there, and `host` is not used.
    """

    host: str
    port: int = 6379
    db: int = 0
    tls: bool = False  # chain and host name are verified
    ca_file: str | None = None  # trusted beside the system's authorities
    username: str | None = None
    password_env: str | None = None
    sentinels: tuple[str, ...] = ()
    sentinel_service: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    customer: str
    hours: BusinessHours
    closing_guard: timedelta
    node_startup: timedelta
    resync: timedelta = field(metadata={_FORMER: "sweep"})  # the longest time between two readings, whatever events say
    redis: RedisEndpoint
    pools: tuple[PoolPolicy, ...]
    budgets: tuple[BudgetPolicy, ...]
    never_opened: tuple[BudgetPolicy, ...] = ()  # fixed ones: the closer closes what an operator's maintenance left

    @property
    def closed_by_day(self) -> tuple[BudgetPolicy, ...]:
        """What no opening may find open: the closer's."""
        return tuple(it for it in self.budgets + self.never_opened if not it.always)

    @property
    def window(self) -> DisruptionWindow:
        return DisruptionWindow(hours=self.hours, closing_guard=self.closing_guard)


def dump(config: ControllerConfig) -> str:
    """The document as JSON text with sorted keys: equal configs give equal text."""
    return json.dumps({"schema": SCHEMA, **encoded(config)}, indent=2, sort_keys=True) + "\n"


def load(text: str) -> ControllerConfig:
    """Read a document of schema `SCHEMA` or `SCHEMA - 1`. Raises `UnreadableConfig`."""
    try:
        document = cast("dict[str, Any]", json.loads(text))
        schema = document["schema"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise UnreadableConfig(f"wanted a JSON object with a schema number: {error}") from error
    if schema not in (SCHEMA, SCHEMA - 1):
        raise UnreadableConfig(f"schema {schema!r}: this controller reads {SCHEMA - 1} and {SCHEMA}")
    try:
        return record(ControllerConfig, document)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise UnreadableConfig(f"schema {schema} document is incomplete or malformed: {error!r}") from error


def encoded(value: Any) -> Any:
    """A record as JSON's own types, keys in camelCase; `/status` speaks so too."""
    if is_dataclass(value):
        return {keys[0]: encoded(getattr(value, name)) for name, keys, _, _ in _shape(type(value))}
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (tuple, frozenset)):
        many = cast("Iterable[Any]", value)
        return [encoded(entry) for entry in (sorted(many) if isinstance(value, frozenset) else many)]
    return value


def record(kind: type[_T], document: Mapping[str, Any]) -> _T:
    given: dict[str, Any] = {}
    for name, keys, hint, needed in _shape(kind):
        found = next((key for key in keys if key in document), keys[0])
        if needed or found in document:
            given[name] = _decoded(hint, document[found])
    return kind(**given)


def _decoded(hint: Any, value: Any) -> Any:
    arguments = get_args(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return None if value is None else _decoded(arguments[0], value)
    if get_origin(hint) in (tuple, frozenset):
        return get_origin(hint)(_decoded(arguments[0], entry) for entry in value)
    if is_dataclass(hint):
        return record(cast("type[Any]", hint), value)
    if hint is timedelta:
        return timedelta(seconds=value)
    if hint is date:
        return date.fromisoformat(value)
    if not isinstance(value, hint):
        raise TypeError(f"wanted {hint.__name__}, found {value!r}")
    return value


@cache
def _shape(kind: type[Any]) -> tuple[tuple[str, tuple[str, ...], Any, bool], ...]:
    """Per field: its name, its keys (the first is written, all are read), its type, and whether it is needed."""
    hints = get_type_hints(kind)
    return tuple(
        (entry.name, _keys(entry.name, entry.metadata), hints[entry.name], entry.default is MISSING)
        for entry in fields(kind)
        if entry.init
    )


def _keys(name: str, metadata: Mapping[str, str]) -> tuple[str, ...]:
    return (metadata.get(_KEY) or _camel_case(name), *(metadata[key] for key in (_FORMER,) if key in metadata))


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
