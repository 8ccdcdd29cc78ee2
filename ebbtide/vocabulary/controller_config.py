"""The controller's config document: written by `components/` with `dump()`, read by `controllers/` with `load()`.

One JSON object. Durations are seconds, times of day are minutes from local midnight, dates are ISO 8601. `load()` reads
the current `SCHEMA` and the one before it, so that a controller may be newer than the document it is given.

Schema 1: the first form. Schema 2: pools may have floors (planned overnight work).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, cast

from ebbtide.vocabulary.windows import BusinessHours, DisruptionWindow, WeeklyInterval

SCHEMA = 2


class UnreadableConfig(ValueError):
    """The document is not one that this version can read; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """Planned work: at least `workers` from local time `at` (minutes) for `lasting`, every day."""

    at: int
    lasting: timedelta
    workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPolicy:
    """How one worker pool (one Deployment) is sized."""

    name: str
    namespace: str
    deployment: str
    source: str  # demand source kind: "rq"
    queues: tuple[str, ...]
    jobs_per_worker: int
    min_workers: int
    max_workers: int
    calm: timedelta  # demand must stay low this long before replicas fall, and be empty this long before zero
    longest_job: timedelta
    safe_stop: bool  # SIGTERM to a worker never loses a job: the declared net under every scale-in
    floors: tuple[Floor, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPolicy:
    """A flexible workload's budget, which the controller opens (1) and closes (0); fixed ones are never named."""

    name: str
    namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisEndpoint:
    """Where demand is read. The password is never in the document: `password_env` names the variable that holds it."""

    host: str
    port: int = 6379
    db: int = 0
    tls: bool = False
    username: str | None = None
    password_env: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    customer: str
    hours: BusinessHours
    closing_guard: timedelta
    node_startup: timedelta
    sweep: timedelta  # the longest time between two readings, whatever events say
    redis: RedisEndpoint
    pools: tuple[PoolPolicy, ...]
    budgets: tuple[BudgetPolicy, ...]

    @property
    def window(self) -> DisruptionWindow:
        return DisruptionWindow(hours=self.hours, closing_guard=self.closing_guard)


def dump(config: ControllerConfig) -> str:
    """The document as JSON text with sorted keys: equal configs give equal text."""
    return json.dumps(_as_document(config), indent=2, sort_keys=True) + "\n"


def load(text: str) -> ControllerConfig:
    """Read a document of schema `SCHEMA` or `SCHEMA - 1`. Raises `UnreadableConfig`."""
    try:
        document = cast("dict[str, Any]", json.loads(text))
        schema = document["schema"]
    except (ValueError, TypeError, KeyError) as error:
        raise UnreadableConfig(f"wanted a JSON object with a schema number: {error}") from error
    if schema not in (SCHEMA, SCHEMA - 1):
        raise UnreadableConfig(f"schema {schema!r}: this controller reads {SCHEMA - 1} and {SCHEMA}")
    try:
        return _from_document(document)
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableConfig(f"schema {schema} document is incomplete or malformed: {error!r}") from error


def _as_document(config: ControllerConfig) -> dict[str, Any]:
    hours = config.hours
    return {
        "schema": SCHEMA,
        "customer": config.customer,
        "hours": {
            "timezone": hours.timezone,
            "week": [{"weekday": i.weekday, "start": i.start, "end": i.end} for i in sorted(hours.week)],
            "closedDates": sorted(day.isoformat() for day in hours.closed_dates),
            "holidaysKnownUntil": None
            if hours.holidays_known_until is None
            else hours.holidays_known_until.isoformat(),
        },
        "closingGuard": config.closing_guard.total_seconds(),
        "nodeStartup": config.node_startup.total_seconds(),
        "sweep": config.sweep.total_seconds(),
        "redis": {
            "host": config.redis.host,
            "port": config.redis.port,
            "db": config.redis.db,
            "tls": config.redis.tls,
            "username": config.redis.username,
            "passwordEnv": config.redis.password_env,
        },
        "pools": [
            {
                "name": pool.name,
                "namespace": pool.namespace,
                "deployment": pool.deployment,
                "source": pool.source,
                "queues": list(pool.queues),
                "jobsPerWorker": pool.jobs_per_worker,
                "min": pool.min_workers,
                "max": pool.max_workers,
                "calm": pool.calm.total_seconds(),
                "longestJob": pool.longest_job.total_seconds(),
                "safeStop": pool.safe_stop,
                "floors": [
                    {"at": floor.at, "lasting": floor.lasting.total_seconds(), "workers": floor.workers}
                    for floor in pool.floors
                ],
            }
            for pool in config.pools
        ],
        "budgets": [{"name": budget.name, "namespace": budget.namespace} for budget in config.budgets],
    }


def _from_document(document: Mapping[str, Any]) -> ControllerConfig:
    hours = document["hours"]
    redis = document["redis"]
    until = hours["holidaysKnownUntil"]
    return ControllerConfig(
        customer=document["customer"],
        hours=BusinessHours(
            timezone=hours["timezone"],
            week=tuple(WeeklyInterval(i["weekday"], i["start"], i["end"]) for i in hours["week"]),
            closed_dates=frozenset(date.fromisoformat(day) for day in hours["closedDates"]),
            holidays_known_until=None if until is None else date.fromisoformat(until),
        ),
        closing_guard=timedelta(seconds=document["closingGuard"]),
        node_startup=timedelta(seconds=document["nodeStartup"]),
        sweep=timedelta(seconds=document["sweep"]),
        redis=RedisEndpoint(
            host=redis["host"],
            port=redis["port"],
            db=redis["db"],
            tls=redis["tls"],
            username=redis["username"],
            password_env=redis["passwordEnv"],
        ),
        pools=tuple(_pool(pool) for pool in document["pools"]),
        budgets=tuple(BudgetPolicy(name=b["name"], namespace=b["namespace"]) for b in document["budgets"]),
    )


def _pool(pool: Mapping[str, Any]) -> PoolPolicy:
    return PoolPolicy(
        name=pool["name"],
        namespace=pool["namespace"],
        deployment=pool["deployment"],
        source=pool["source"],
        queues=tuple(pool["queues"]),
        jobs_per_worker=pool["jobsPerWorker"],
        min_workers=pool["min"],
        max_workers=pool["max"],
        calm=timedelta(seconds=pool["calm"]),
        longest_job=timedelta(seconds=pool["longestJob"]),
        safe_stop=pool["safeStop"],
        floors=tuple(  # absent in schema 1
            Floor(at=floor["at"], lasting=timedelta(seconds=floor["lasting"]), workers=floor["workers"])
            for floor in pool.get("floors", ())
        ),
    )
