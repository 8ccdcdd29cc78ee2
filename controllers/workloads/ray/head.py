"""What a Ray cluster's head says of its own activity, over the HTTP API of its dashboard.

Three answers are needed, each seen to miss what another tells (Ray 2.60): `component_activities` counts drivers, those
of Ray Clients among them; a submitted job that is pending, or that runs a program without a driver, is in `jobs` alone;
a detached actor that has outlived its driver is in the list of actors alone. Where no driver, job or actor is left,
nothing is left that could run a task. Whatever is not understood makes the reading unreadable.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias, cast

from urllib3 import PoolManager, Timeout
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError

from controllers.workloads.ray.idle import Activity, Busy, Idle, Unreadable

Json: TypeAlias = dict[str, Any]

ACTIVITIES = "/api/component_activities?timeout=2"
JOBS = "/api/jobs/"
ACTORS = "/api/v0/actors?timeout=2&limit=1&filter_keys=state&filter_predicates=!%3D&filter_values=DEAD"
_MOST_BYTES = 4_000_000
_PATIENCE = Timeout(connect=1.0, read=3.0)
_JOB_ENDED, _JOB_ALIVE = ("SUCCEEDED", "FAILED", "STOPPED"), ("PENDING", "RUNNING")


class Surprise(Exception):
    """An answer that is not understood; the text says which."""


class Head:
    """`token_file` is read at each look, for it may be renewed."""

    def __init__(self, url: str, token_file: str | None) -> None:
        self._url, self._token_file = url.rstrip("/"), token_file
        self._pool = PoolManager(num_pools=1, maxsize=1, retries=False, timeout=_PATIENCE)

    def look(self) -> Activity:
        """Three requests at most; never raises for what a network or a server can do."""
        try:
            headers = {"Accept": "application/json"}
            if self._token_file is not None:
                headers["Authorization"] = f"Bearer {_token(Path(self._token_file))}"
            return self._read(headers)
        except (Surprise, OSError, HTTPError, ValueError) as error:
            silent = isinstance(error, (ConnectTimeoutError, NewConnectionError))
            return Unreadable(f"{self._url}: {' '.join(str(error).split())[:300]}", silent=silent)

    def _read(self, headers: dict[str, str]) -> Activity:
        last: list[datetime] = []
        for path, parse in ((ACTIVITIES, drivers), (JOBS, jobs), (ACTORS, actors)):
            activity = parse(self._answer(path, headers))
            if not isinstance(activity, Idle):
                return activity
            last += [activity.last] if activity.last is not None else []
        return Idle(max(last, default=None))

    def _answer(self, path: str, headers: dict[str, str]) -> object:
        response = self._pool.request(
            "GET", f"{self._url}{path}", headers=headers, redirect=False, preload_content=False
        )
        body, what = response.read(_MOST_BYTES + 1), path.partition("?")[0]
        if len(body) > _MOST_BYTES:
            response.close()
            raise Surprise(f"more than {_MOST_BYTES} bytes for {what}")
        response.release_conn()
        if response.status != 200:
            raise Surprise(f"HTTP {response.status} for {what}")
        try:
            return json.loads(body)
        except RecursionError:
            raise Surprise(f"JSON that is too deep for {what}") from None


def _token(file: Path) -> str:
    """What is none would be quoted by the error that it causes."""
    token = file.read_bytes().strip()
    if not token or not token.isascii() or any(byte <= 32 or byte == 127 for byte in token):
        raise Surprise(f"{file} holds no token")
    return token.decode()


def drivers(answer: object) -> Activity:
    """Of `component_activities`: each component has to say that it is inactive. Raises `Surprise`."""
    components = _object(answer, "component_activities")
    if "driver" not in components:
        raise Surprise("component_activities without driver")
    ends: list[datetime] = []
    for name, value in components.items():
        component = _object(value, f"component {name}")
        if component.get("is_active") == "ACTIVE":
            return Busy(f"{name}: {component.get('reason') or 'active'}")
        if component.get("is_active") != "INACTIVE":
            raise Surprise(f"component {name} is {component.get('is_active')!r}")
        if (at := component.get("last_activity_at")) is not None:
            ends.append(_instant(at))
    return Idle(max(ends, default=None))


def jobs(answer: object) -> Activity:
    """Of the list of jobs, times in milliseconds: each has ended. Raises `Surprise`."""
    if not isinstance(answer, list):
        raise Surprise("jobs: not a list")
    ends: list[datetime] = []
    for value in cast("list[object]", answer):
        job = _object(value, "a job")
        if job.get("status") in _JOB_ALIVE:
            return Busy(f"job {job.get('submission_id') or job.get('job_id')} is {job['status'].lower()}")
        if job.get("status") not in _JOB_ENDED:
            raise Surprise(f"a job is {job.get('status')!r}")
        if end := job.get("end_time"):
            ends.append(_instant(end, 1000))
    return Idle(max(ends, default=None))


def actors(answer: object) -> Activity:
    """Of the list of actors that are not dead: there are none, and none was left out. Raises `Surprise`."""
    whole = _object(answer, "actors")
    found = _object(_object(whole.get("data"), "actors' data").get("result"), "actors' result")
    counts = [found.get(key) for key in ("total", "num_after_truncation", "num_filtered")]
    if whole.get("result") is not True or any(type(count) is not int for count in counts):
        raise Surprise("actors: no counts")
    total, read, alive = cast("list[int]", counts)
    if alive:
        return Busy(f"{alive} actors are alive")
    if total != read or found.get("partial_failure_warning") or found.get("result") != []:
        raise Surprise("actors: not all were read")
    return Idle()


def _object(value: object, what: str) -> Json:
    if not isinstance(value, dict):
        raise Surprise(f"{what}: not an object")
    return cast("Json", value)


def _instant(value: object, per_second: int = 1) -> datetime:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Surprise(f"a time is {value!r}")
    try:
        return datetime.fromtimestamp(value / per_second, UTC)
    except (ValueError, OverflowError, OSError):
        raise Surprise(f"a time is {value!r}") from None
