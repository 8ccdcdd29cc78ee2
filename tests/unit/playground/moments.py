"""Builders with defaults for the playground: what is seen of a small cluster at one moment."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from control_plane.playground.screen import View
from control_plane.playground.seen import Moved, NodeSeen, NodeState, PoolSeen, Seen
from control_plane.playground.story import Happening, Totals

from ebbtide.prices import GroupRate
from ebbtide.vocabulary.controller_config import BudgetPolicy, ControllerConfig
from tests.builders.controllers import config, pool_policy

EVENING = datetime(2026, 3, 4, 19, 30, tzinfo=UTC)  # a Wednesday, half an hour after closing
CONFIG: ControllerConfig = config(pool_policy(), budgets=(BudgetPolicy(name="api", namespace="apps"),))
RATES = {"flexible": GroupRate(floor=0, floor_usd=0.0, above_usd=0.5)}


def node_seen(name: str = "flexible-1", **changes: Any) -> NodeSeen:
    default = NodeSeen(name=name, group=name.rpartition("-")[0], shares={"flexible": 0.5}, pods=3)
    return replace(default, **changes)


def leaving(name: str = "flexible-1", **changes: Any) -> NodeSeen:
    return node_seen(name, state=NodeState.LEAVING, **changes)


def pool_seen(**changes: Any) -> PoolSeen:
    return replace(PoolSeen(name="train", waiting=0, running=0, workers=0, most=2), **changes)


def seen(minutes: float = 0.0, nodes: Iterable[NodeSeen] = (), **changes: Any) -> Seen:
    """So many minutes after half past seven in the evening."""
    at = changes.pop("at", EVENING + timedelta(minutes=minutes))
    return replace(Seen(at=at, nodes=tuple(nodes), budgets={"api": False}), **changes)


def moved(node: str = "flexible-1", **changes: Any) -> Moved:
    return replace(Moved(at=EVENING, pod="apps/api-1", category="flexible", node=node), **changes)


def view(*nodes: NodeSeen, happenings: int = 3, **changes: Any) -> View:
    told = tuple(Happening(EVENING + timedelta(minutes=i), f"happening {i}") for i in range(happenings))
    default = View(
        config=CONFIG,
        stack="acme",
        paste=("export KUBECONFIG=/tmp/x", "kubectl get nodes"),
        seen=seen(nodes=nodes, pools=(pool_seen(),)),
        totals=Totals(),
        happenings=told,
        usd=1.5,
        most={"flexible": 40},
        speed=192,
        share=0.25,
    )
    return replace(default, **changes)
