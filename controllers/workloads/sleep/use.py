"""Measurement of a workload's use: pods from the API server, their counters from Prometheus, and users from a hub."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from kubernetes.client import Configuration

from controllers.adapters.kube_api import ApiError, KubeApi
from controllers.one_line import one_line
from controllers.workloads.ray.head import Surprise, token_of
from controllers.workloads.sleep.idle import (
    Activity,
    Facts,
    Use,
    activity_of,
    created_by,
    facts_of,
    pod_of,
    query_of,
    too_recent,
)
from ebbtide.vocabulary.workloads import SleepPolicy

_PAUSE = timedelta(minutes=1)
"""Time between two measurements of a workload in use, and pause after a failure of Prometheus, since each workload's
query would otherwise delay the loop."""
_ENDED = ("Failed", "Succeeded")  # an evicted pod stays next to its replacement, but runs nothing
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Prometheus:
    def __init__(self, url: str) -> None:
        self._server, self._failed = _server(url, None), (_LONG_AGO, "")

    def facts(self, query: str, now: datetime) -> Facts:
        """Query at the server's own time, which its samples use, too. Raises ValueError."""
        at, why = self._failed
        if timedelta() <= now - at < _PAUSE:
            raise ValueError(why)
        try:
            return facts_of(self._server.get("/api/v1/query", query=query), now)
        except ApiError as error:
            self._failed = now, f"Prometheus: {error}"
            raise ValueError(self._failed[1]) from None


class UseMeter:
    """Measures the use of one workload."""

    def __init__(self, api: KubeApi, policy: SleepPolicy, prometheus: Prometheus) -> None:
        self._api, self._policy, self._prometheus = api, policy, prometheus
        self._hub = _server(policy.hub, policy.hub_token_file) if policy.hub else None
        self._last = _LONG_AGO, Activity(Use.IDLE)

    def read(self, replicas: int, now: datetime) -> Activity:
        """Return the use. Idleness is measured at each call, since pods may be replaced. An error gives UNKNOWN."""
        at, activity = self._last
        if activity.use is Use.IDLE or not timedelta() <= now - at < _PAUSE:
            try:
                activity = self._read(replicas, now)
            except (ApiError, Surprise, OSError, ValueError) as error:
                activity = Activity(Use.UNKNOWN, one_line(error)[:300])
            self._last = now, activity
        return activity

    def _read(self, replicas: int, now: datetime) -> Activity:
        space, labels = self._policy.namespace, self._policy.pods_selector
        after = self._policy.idle_after or timedelta.max
        items = self._api.get(f"/api/v1/namespaces/{space}/pods", labelSelector=labels)["items"]
        items = [item for item in items if item.get("status", {}).get("phase") not in _ENDED]
        if foreign := [item["metadata"]["name"] for item in items if not created_by(self._policy, item)]:
            return Activity(Use.UNKNOWN, f"{self._policy.subject} did not create the selected pod {foreign[0]}")
        pods = [pod_of(item) for item in items]
        if why := too_recent(pods, replicas, after, now):
            return Activity(Use.RECENT, why)
        activity = activity_of(pods, self._prometheus.facts(query_of(space, pods, after), now), after)
        return _users_of(self._hub) if activity.use is Use.IDLE and self._hub is not None else activity


def _users_of(hub: KubeApi) -> Activity:
    """Query JupyterHub for one user with a server that is active or pending. Users' servers may be other pods."""
    try:
        users: object = hub.get("/hub/api/users", state="active", limit="1")
    except ApiError as error:
        raise ValueError(f"the hub: {error}") from None
    if not isinstance(users, list):
        raise ValueError("the hub's users are not a list")
    return Activity(Use.BUSY, "a user of the hub has a server") if users else Activity(Use.IDLE)


def _server(url: str, token_file: str | None) -> KubeApi:
    """Return a client for JSON. It reads the token at each request, because the token may be renewed."""

    def renew(configuration: Configuration) -> None:
        if token_file is not None:
            configuration.api_key["authorization"] = f"Bearer {token_of(Path(token_file))}"

    configuration = Configuration(host=url.rstrip("/"))
    configuration.refresh_api_key_hook = renew  # pyright: ignore[reportAttributeAccessIssue] - the library types it None
    return KubeApi(configuration)
