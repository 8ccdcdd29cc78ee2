"""`ebbtide why pool|budget|node NAME`: one answer in sentences, from the controller and from the cluster.

A node is explained from the API alone, with the operator's own rights: the controller has none to see it.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, TypeVar

import typer

from controllers.adapters.kube_api import ApiError, Json, KubeApi
from controllers.budgets.decision import window_at
from ebbtide.cli.cluster_access import (
    DEFAULT_NAMESPACE,
    Context,
    Kubeconfig,
    Namespace,
    budget_path,
    config_of,
    connect,
    console,
    deployment_path,
    fail,
    listed,
    one_line,
    seen,
    told,
)
from ebbtide.cli.controller_status import Document, NoStatus, at, from_pods, from_url, hold_text, rows_at
from ebbtide.cli.instants import spoken
from ebbtide.cli.node_story import NodeFacts, story
from ebbtide.cli.status import Url
from ebbtide.cli.why_words import budget_lines, pool_lines
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.labels import CONTROLLER

_T = TypeVar("_T")

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_AUTOSCALER = "cluster-autoscaler"
_SYSTEM = "kube-system"


class What(StrEnum):
    POOL = "pool"
    BUDGET = "budget"
    NODE = "node"


@command.command(epilog="Example: ebbtide why node ip-10-0-1-23.ec2.internal")
def why(
    what: Annotated[What, typer.Argument(help="What is asked about.")],
    name: Annotated[str, typer.Argument(metavar="NAME")],
    *,
    url: Url = "",
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> None:
    """Explain a pool, a budget, or why a node is still there."""
    out = console()
    api = connect(kubeconfig, context)
    with told(api):
        if what is What.NODE:
            lines = _node(api, name, namespace)
        else:
            config = config_of(api, namespace)
            document, silence = _status(api, namespace, url)
            lines = (_pool if what is What.POOL else _budget)(api, config, name, document)
            if silence:
                lines.append(f"the controller does not answer ({silence}), so what it sees and wants is not known")
    for line in lines:
        out.print(line)


def _status(api: KubeApi, namespace: str, url: str) -> tuple[Document, str]:
    """What the controller tells, and why it tells nothing."""
    try:
        return (from_url(url) if url else from_pods(api, namespace)), ""
    except (NoStatus, ApiError) as error:
        return {}, one_line(error)


def _pool(api: KubeApi, config: ControllerConfig, name: str, document: Document) -> list[str]:
    policy = next((pool for pool in config.pools if pool.name == name), None)
    if policy is None:
        fail(
            f"no worker pool is called {name}; there are: {', '.join(pool.name for pool in config.pools) or 'none'}", 2
        )
    item = seen(api, deployment_path(policy))
    row = _row(document, "pools", name)
    return pool_lines(policy, row, item, hold_text(item, datetime.now(UTC)) if item else "")


def _budget(api: KubeApi, config: ControllerConfig, name: str, document: Document) -> list[str]:
    known = {budget.name: budget for budget in (*config.budgets, *config.never_opened)}
    if name not in known:
        fail(f"no budget of Ebbtide's is called {name}; there are: {', '.join(sorted(known)) or 'none'}", 2)
    item, now = seen(api, budget_path(known[name])), datetime.now(UTC)
    flexible = known[name] in config.budgets
    lines = budget_lines(_row(document, "budgets", name), item, flexible=flexible, now=now)
    if item and (hold := hold_text(item, now)):
        lines.append(f"An operator holds it: {hold}.")
    until = config.window.next_change(now)
    if flexible and until is not None:
        verb = "closes" if config.window.is_open(now) else "opens"
        lines.append(f"The night's window {verb} {spoken(until, config.hours.timezone)}.")
    return lines


def _row(document: Document, section: str, name: str) -> Document | None:
    return next((row for row in rows_at(document, "report", section) if row.get("name") == name), None)


def _node(api: KubeApi, name: str, namespace: str) -> list[str]:
    node = seen(api, f"/api/v1/nodes/{name}")
    if node is None:
        fail(f"no node is called {name}: it has gone, or never was", 2)
    unseen: list[str] = []
    flags = _try("the autoscaler's flags", unseen, lambda: _flags(api))
    status = _try("the autoscaler's own status", unseen, lambda: _autoscaler_status(api))
    night = _try("whether it is night", unseen, lambda: _night(api, namespace))
    facts = NodeFacts(
        now=datetime.now(UTC),
        node=node,
        pods=listed(api, "/api/v1/pods", fieldSelector=f"spec.nodeName={name}"),
        budgets=listed(api, "/apis/policy/v1/poddisruptionbudgets"),
        flags=flags,
        autoscaler_status=status,
        night=night or "",
        unseen=unseen,
    )
    return story(facts)


def _try(what: str, unseen: list[str], look: Callable[[], _T]) -> _T | None:
    """Parts that many operators may not read: the answer is given without them, and says so."""
    try:
        return look()
    except ApiError as error:
        unseen.append(f"{what}: {one_line(error)}")
        return None


def _flags(api: KubeApi) -> dict[str, str] | None:
    """The command line of the autoscaler's Deployment; None where there is none under that name."""
    item = seen(api, f"/apis/apps/v1/namespaces/{_SYSTEM}/deployments/{_AUTOSCALER}")
    if item is None:
        return None
    containers: list[Json] = at(item, "spec", "template", "spec", "containers") or []
    words = [word for container in containers for word in (*container.get("command", ()), *container.get("args", ()))]
    pairs = [str(word).lstrip("-").partition("=") for word in words if str(word).startswith("--")]
    return {name: value or "true" for name, _, value in pairs}


def _autoscaler_status(api: KubeApi) -> str | None:
    item = seen(api, f"/api/v1/namespaces/{_SYSTEM}/configmaps/cluster-autoscaler-status")
    return at(item, "data", "status")


def _night(api: KubeApi, namespace: str) -> str:
    """Why flexible budgets are open or closed by the clock; empty where Ebbtide is not installed."""
    if seen(api, f"/api/v1/namespaces/{namespace}/configmaps/{CONTROLLER}") is None:
        return ""
    return window_at(datetime.now(UTC), config_of(api, namespace).window).decision.reason
