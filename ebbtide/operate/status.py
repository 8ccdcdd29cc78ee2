"""The controller's own report (`/status`), and the API server's view without it.

The document is read leniently: another release of the controller may have more or fewer keys, and an operator in
trouble needs every available part.
"""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import cast

import urllib3
from urllib3.exceptions import HTTPError

from controllers.adapters.kube_api import ApiError, KubeApi
from ebbtide.operate.api import budget_path, deployment_path, find, items, leader
from ebbtide.operate.objects import Document, annotations_of, at, max_unavailable_of
from ebbtide.text.one_line import collapsed
from ebbtide.vocabulary.controller_config import BudgetPolicy, ControllerConfig
from ebbtide.vocabulary.holds import hold_of
from ebbtide.vocabulary.labels import CONTROLLER, WORKLOAD

PORT = 8080
_TIMEOUT = urllib3.Timeout(connect=3.0, read=10.0)


class NoStatus(Exception):
    """The controller gave no status; the message says why, in one line."""


def from_url(url: str) -> Document:
    """Read the status at an address. Raises `NoStatus`."""
    if not url.startswith(("http://", "https://")):
        raise NoStatus(f"--url {url}: wanted http://host:port")
    address = f"{url.rstrip('/').removesuffix('/status')}/status"
    try:
        with urllib3.PoolManager(retries=False, timeout=_TIMEOUT) as pool:
            answer = pool.request("GET", address)
            document = json.loads(answer.data)
    except (HTTPError, ValueError) as error:
        raise NoStatus(f"no status at {address}: {collapsed(error)}") from error
    if answer.status != 200 or not isinstance(document, dict):
        raise NoStatus(f"no status at {address}: HTTP {answer.status}")
    return cast("Document", document)


def from_pods(api: KubeApi, namespace: str, name: str = CONTROLLER) -> Document:
    """Read through the API server, from the leader if there is one; `name` is the Deployment's and its Lease's.

    Raises `NoStatus`, and `ApiError` if the pods cannot be listed.
    """
    holder = leader(api, namespace, datetime.now(UTC), name)
    pods = items(api, f"/api/v1/namespaces/{namespace}/pods", labelSelector=f"{WORKLOAD}={name}")
    names = [str(pod["metadata"]["name"]) for pod in pods if at(pod, "status", "phase") == "Running"]
    if not names:
        pod = "controller pod" if name == CONTROLLER else f"pod of {name}"
        raise NoStatus(f"no {pod} runs in namespace {namespace} ({len(pods)} exist)")
    refusals: list[str] = []
    for pod in sorted(names, key=lambda pod: (pod not in holder, pod)):
        try:
            return api.get(f"/api/v1/namespaces/{namespace}/pods/{pod}:{PORT}/proxy/status")
        except ApiError as error:
            refusals.append(f"pod {pod}: {collapsed(error)}")
    raise NoStatus("; ".join(refusals))


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """One worker pool in the API server's view."""

    name: str
    replicas: int | None  # None: its Deployment does not exist
    ready: int = 0
    hold: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetState:
    name: str
    max_unavailable: int | str | None
    allowed: int = 0
    healthy: int = 0
    hold: str = ""
    always: bool = False  # may be open in business hours


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerView:
    """State of Ebbtide as seen by the API server, without the controller."""

    leader: str  # by the Lease; empty: none
    window_open: bool  # by this machine's clock
    window_until: datetime | None
    timezone: str
    pools: tuple[PoolState, ...] = field(default=())
    budgets: tuple[BudgetState, ...] = field(default=())


def server_view(api: KubeApi, namespace: str, config: ControllerConfig, now: datetime) -> ServerView:
    """Read the API server's view. Raises `ApiError`."""
    return ServerView(
        leader=leader(api, namespace, now),
        window_open=config.window.is_open(now),
        window_until=config.window.next_change(now),
        timezone=config.hours.timezone,
        pools=tuple(_pool(pool.name, find(api, deployment_path(pool)), now) for pool in config.pools),
        budgets=tuple(
            budget_state(budget, find(api, budget_path(budget)), now)
            for budget in (*config.budgets, *config.never_opened)
        ),
    )


def _pool(name: str, item: Document | None, now: datetime) -> PoolState:
    if item is None:
        return PoolState(name=name, replicas=None)
    ready = at(item, "status", "readyReplicas") or 0
    # The API server may omit a count of zero.
    return PoolState(name=name, replicas=at(item, "spec", "replicas") or 0, ready=ready, hold=hold_text(item, now))


def budget_state(policy: BudgetPolicy, item: Document | None, now: datetime) -> BudgetState:
    if item is None:
        return BudgetState(name=policy.name, max_unavailable=None)
    opened = policy.open_minimum is not None and at(item, "spec", "minAvailable") == policy.open_minimum
    return BudgetState(
        name=policy.name,
        max_unavailable=1 if opened else max_unavailable_of(item),
        allowed=at(item, "status", "disruptionsAllowed") or 0,
        healthy=at(item, "status", "currentHealthy") or 0,
        hold=hold_text(item, now),
        always=policy.always,
    )


def hold_text(item: Document, now: datetime) -> str:
    """Return the operator's reason to hold the object; empty without a current hold."""
    hold = hold_of(annotations_of(item))
    return hold.why if hold is not None and hold.holds_at(now) else ""
