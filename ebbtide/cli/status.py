"""`ebbtide status`: show the controller's readings and decisions, and the state in the API server.

It connects through the API server with the operator's rights, so no port need be open. If the controller is down, the
Lease, the budgets and the replicas are still shown, and so are Ray clusters, from the queue to the pods, and services.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Annotated, Protocol

import typer
from rich.console import Console

from controllers.adapters.kube_api import ApiError
from ebbtide.cli.cluster import NAMESPACE, Context, Kubeconfig, Namespace, Url, cluster
from ebbtide.cli.console import fail
from ebbtide.operate.api import CannotOperate, OperatorApi, controller_config_of
from ebbtide.operate.node_pools import NodePoolView, node_pools_of
from ebbtide.operate.objects import Document, at, rows_at
from ebbtide.operate.ray.facts import ray_facts, workloads_config_of
from ebbtide.operate.ray.text import ray_parts, ray_warnings
from ebbtide.operate.ray.view import RayView, ray_view
from ebbtide.operate.services import ServiceFacts, services_of
from ebbtide.operate.sleepers import LeftAsleep, SleeperRow, left_asleep, sleeper_rows
from ebbtide.operate.status import NoStatus, ServerView, from_pods, from_url, server_view
from ebbtide.operate.status_text import budget_table, head_lines, pool_table, server_lines, server_tables, warning_lines
from ebbtide.operate.why.service import rows_of
from ebbtide.text.one_line import collapsed
from ebbtide.text.records import plain_values
from ebbtide.text.sheet import Sheet, left
from ebbtide.text.terminal import console, print_uncut, sheet_table
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import encoded
from ebbtide.vocabulary.workloads import WorkloadsConfig

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_WIDE = 110  # columns; on wider terminals the table of pools has the pods too


@command.command(epilog="Example: ebbtide status --url http://127.0.0.1:8080")
def status(
    *,
    url: Url = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the JSON document.")] = False,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = NAMESPACE,
) -> None:
    """Show the controller's readings and decisions."""
    if url:
        try:
            _show(from_url(url), (), as_json=as_json)
        except NoStatus as error:
            fail(error)
        return
    with cluster(kubeconfig, context) as api:
        config, now = controller_config_of(api, namespace), datetime.now(UTC)
        try:
            document, reason = from_pods(api, namespace), ""
        except (NoStatus, ApiError) as error:
            document, reason = None, str(error)
        parts = (*_of_workloads(api, namespace, config, document, now), _Services(*services_of(api, namespace)))
        view = server_view(api, namespace, config, now) if document is None else None
    if document is not None:
        _show(document, parts, as_json=as_json)
        return
    assert view is not None
    _show_without(view, reason, parts, as_json=as_json)
    raise typer.Exit(1)


class _Part(Protocol):
    """A part of the status that the scaler does not report."""

    @property
    def document(self) -> dict[str, object]:
        """Empty for a stack without it."""
        ...

    def show(self, out: Console) -> None: ...


@dataclass(frozen=True, slots=True)
class _Ray:
    """The stack's Ray clusters; `unread` is the reason why they are not known."""

    views: Sequence[RayView] = ()
    timezone: str = "UTC"
    unread: str = ""

    @property
    def document(self) -> dict[str, object]:
        """Empty for a stack without Ray."""
        if self.unread:
            return {"ray": None, "whyNoRay": self.unread}
        return {"ray": [encoded(view) for view in self.views]} if self.views else {}

    def show(self, out: Console) -> None:
        ray_parts(self.views, self.timezone, out.print)
        for warning in (*ray_warnings(self.views), *([f"Ray clusters: {self.unread}"] if self.unread else [])):
            out.print(f"warning: {warning}", style="yellow")


@dataclass(frozen=True, slots=True)
class _Services:
    """The stack's services that scale or have a route; `unread` has the reasons for unknown parts."""

    facts: Sequence[ServiceFacts] = ()
    unread: Sequence[str] = ()

    @property
    def document(self) -> dict[str, object]:
        """Empty for a stack without services."""
        keys = ("name", "ready", "wanted", "route", "heldBy")
        rows = [dict(zip(keys, row, strict=True)) for row in rows_of(self.facts)]
        return {**({"services": rows} if rows else {}), **({"whyNoServices": [*self.unread]} if self.unread else {})}

    def show(self, out: Console) -> None:
        if self.facts:
            columns = [*left("service", "ready", "wanted"), *left("route", "held by", fold=True)]
            out.print("")
            print_uncut(out, sheet_table(Sheet(columns=columns, rows=[*rows_of(self.facts)])))
        for line in self.unread:
            out.print(f"warning: services: {line}", style="yellow")


@dataclass(frozen=True, slots=True)
class _NodePools:
    pools: NodePoolView

    @property
    def document(self) -> dict[str, object]:
        rows = plain_values(self.pools.rows)
        return {
            **({"nodePools": rows} if rows else {}),
            **({"whyNoNodePools": why} if (why := self.pools.unread) else {}),
        }

    def show(self, out: Console) -> None:
        if self.pools.rows:
            columns = [*left("nodepool", "state", "nodes"), *left("budgets", "reason", fold=True)]
            out.print("")
            print_uncut(out, sheet_table(Sheet(columns=columns, rows=self.pools.rows)))
        if self.pools.unread:
            out.print(f"warning: nodepools: {self.pools.unread}", style="yellow")


@dataclass(frozen=True, slots=True)
class _Sleepers:
    """The workloads that sleep."""

    rows: Sequence[SleeperRow]
    unread: str

    @property
    def document(self) -> dict[str, object]:
        return {
            **({"sleepers": plain_values(self.rows)} if self.rows else {}),
            **({"whyNoSleepers": self.unread} if self.unread else {}),
        }

    def show(self, out: Console) -> None:
        if self.rows:
            columns = [*left("workload", "state", "pods", "until"), *left("reason", fold=True)]
            out.print("")
            print_uncut(out, sheet_table(Sheet(columns=columns, rows=self.rows)))
        if self.unread:
            out.print(f"warning: workloads that sleep: {self.unread}", style="yellow")


@dataclass(frozen=True, slots=True)
class _LeftAsleep:
    """The workloads that sleep without an entry that wakes them."""

    workloads: Sequence[LeftAsleep]
    unread: Sequence[str]

    @property
    def document(self) -> dict[str, object]:
        return {
            **({"leftAsleep": plain_values(self.workloads)} if self.workloads else {}),
            **({"whyNoLeftAsleep": [*self.unread]} if self.unread else {}),
        }

    def show(self, out: Console) -> None:
        for line in (*self.workloads, *(f"workloads that were left asleep: {why}" for why in self.unread)):
            out.print(f"warning: {line}", style="yellow")


def _of_workloads(
    api: OperatorApi, namespace: str, config: ControllerConfig, document: Document | None, now: datetime
) -> tuple[_Part, ...]:
    """Ray clusters, workloads that sleep, and NodePools; a failure here does not hide other parts."""
    try:
        workloads = workloads_config_of(api, namespace)
    except (ApiError, CannotOperate) as error:
        left, why = _LeftAsleep([], [collapsed(error)]), f"unknown: {collapsed(error)}"
        return _Ray(unread=why), _Sleepers((), why), _NodePools(NodePoolView(unread=why)), left
    facts = ray_facts(api, workloads, now)
    views = [ray_view(cluster_facts, config, document) for cluster_facts in facts]
    sleepers = _Sleepers(*sleeper_rows(api, workloads, config.hours.timezone))
    pools = _NodePools(node_pools_of(api, namespace, workloads))
    return _Ray(views, config.hours.timezone), sleepers, pools, _left_asleep(api, namespace, config, workloads)


def _left_asleep(
    api: OperatorApi, namespace: str, config: ControllerConfig, workloads: WorkloadsConfig | None
) -> _LeftAsleep:
    try:
        return _LeftAsleep(*left_asleep(api, config, workloads, namespace))
    except (ApiError, CannotOperate) as error:
        return _LeftAsleep([], [collapsed(error)])


def _show(document: Document, parts: Sequence[_Part], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({**document, **_documents(parts)}, indent=2))
        return
    out = console(fold=True)
    for line in head_lines(document):
        out.print(line)
    pools, budgets = rows_at(document, "report", "pools"), rows_at(document, "report", "budgets")
    if pools:
        out.print("")
        out.print(pool_table(pools, at(document, "readings"), wide=out.width >= _WIDE))
    if budgets:
        out.print("")
        out.print(budget_table(budgets))
    for part in parts:
        part.show(out)
    for warning in warning_lines(document):
        out.print(f"warning: {warning.removeprefix('warning: ')}", style="yellow")


def _documents(parts: Sequence[_Part]) -> dict[str, object]:
    return {key: value for part in parts for key, value in part.document.items()}


def _show_without(view: ServerView, why: str, parts: Sequence[_Part], *, as_json: bool) -> None:
    """Show the state in the API server while the controller does not answer."""
    if as_json:
        outside = {"controller": None, "why": why, "outside": asdict(view), **_documents(parts)}
        typer.echo(json.dumps(outside, indent=2, default=str))
        return
    out = console(fold=True)
    out.print(f"the controller does not answer: {why}", style="bold red")
    out.print("what the API server knows:")
    for line in server_lines(view):
        out.print(line)
    for part in server_tables(view):
        out.print(part)
        out.print("")
    for part in parts:
        part.show(out)
