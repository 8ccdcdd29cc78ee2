"""The activity that a Ray cluster's head reports, over the HTTP API of its dashboard.

Three answers are needed, because each lacks some of the activity (Ray 2.60): `component_activities` counts drivers,
including those of Ray Clients; a submitted job that is pending, or that runs a program without a driver, is only in
`jobs`; a detached actor that has outlived its driver is only in the list of actors. Without driver, job and actor,
nothing can run a task. If an answer has an unexpected form, the reading is unreadable.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias, cast

from urllib3 import PoolManager, Timeout
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError

from controllers.one_line import one_line
from controllers.workloads.ray.idle import Activity, Busy, Idle, Unreadable

Json: TypeAlias = dict[str, Any]

ACTIVITIES = "/api/component_activities?timeout=2"
JOBS = "/api/jobs/"
ACTORS = "/api/v0/actors?timeout=2&limit=1&filter_keys=state&filter_predicates=!%3D&filter_values=DEAD"
_MAX_BYTES = 4_000_000
_PATIENCE = Timeout(connect=1.0, read=3.0)
_JOB_ENDED, _JOB_ALIVE = ("SUCCEEDED", "FAILED", "STOPPED"), ("PENDING", "RUNNING")


class Surprise(Exception):
    """An answer with an unexpected form; the text describes it."""


class Head:
    """A client of the head. It reads `token_file` at each request, because the token may be renewed."""

    def __init__(self, url: str, token_file: str | None) -> None:
        self._url, self._token_file = url.rstrip("/"), token_file
        self._pool = PoolManager(num_pools=1, maxsize=1, retries=False, timeout=_PATIENCE)

    def activity(self) -> Activity:
        """Send at most three requests. A fault of the network or the server gives `Unreadable`, never an exception."""
        try:
            headers = {"Accept": "application/json"}
            if self._token_file is not None:
                headers["Authorization"] = f"Bearer {token_of(Path(self._token_file))}"
            return self._read(headers)
        except (Surprise, OSError, HTTPError, ValueError) as error:
            silent = isinstance(error, (ConnectTimeoutError, NewConnectionError))
            return Unreadable(f"{self._url}: {one_line(error)[:300]}", silent=silent)

    def _read(self, headers: dict[str, str]) -> Activity:
        ends: list[datetime] = []
        for path, parse in ((ACTIVITIES, drivers), (JOBS, jobs), (ACTORS, actors)):
            activity = parse(self._answer(path, headers))
            if not isinstance(activity, Idle):
                return activity
            ends += [activity.last] if activity.last is not None else []
        return Idle(max(ends, default=None))

    def _answer(self, path: str, headers: dict[str, str]) -> object:
        url, endpoint = f"{self._url}{path}", path.partition("?")[0]
        response = self._pool.request("GET", url, headers=headers, redirect=False, preload_content=False)
        body = response.read(_MAX_BYTES + 1)
        if len(body) > _MAX_BYTES:
            response.close()
            raise Surprise(f"more than {_MAX_BYTES} bytes for {endpoint}")
        response.release_conn()
        if response.status != 200:
            raise Surprise(f"HTTP {response.status} for {endpoint}")
        try:
            return json.loads(body)
        except RecursionError:
            raise Surprise(f"JSON that is too deep for {endpoint}") from None


def token_of(file: Path) -> str:
    """Return the token. Refuse text that is not a token, since urllib3's error would quote it."""
    token = file.read_bytes().strip()
    if not token or not token.isascii() or any(byte <= 32 or byte == 127 for byte in token):
        raise Surprise(f"{file} holds no token")
    return token.decode()


def drivers(answer: object) -> Activity:
    """Parse `component_activities`: idle if each component reports that it is inactive. Raises `Surprise`."""
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
    """Parse the list of jobs, with times in milliseconds: idle if each job has ended. Raises `Surprise`."""
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
    """Parse the list of actors that are not dead: idle if it is empty and complete. Raises `Surprise`."""
    reply = _object(answer, "actors")
    result = _object(_object(reply.get("data"), "actors' data").get("result"), "actors' result")
    counts = [result.get(key) for key in ("total", "num_after_truncation", "num_filtered")]
    if reply.get("result") is not True or any(type(count) is not int for count in counts):
        raise Surprise("actors: no counts")
    total, examined, alive = cast("list[int]", counts)
    if alive:
        return Busy(f"{alive} actors are alive")
    if total != examined or result.get("partial_failure_warning") or result.get("result") != []:
        raise Surprise("actors: not all were read")
    return Idle()


def _object(value: object, name: str) -> Json:
    if not isinstance(value, dict):
        raise Surprise(f"{name}: not an object")
    return cast("Json", value)


def _instant(value: object, per_second: int = 1) -> datetime:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Surprise(f"a time is {value!r}")
    try:
        return datetime.fromtimestamp(value / per_second, UTC)
    except (ValueError, OverflowError, OSError):
        raise Surprise(f"a time is {value!r}") from None
