"""What a maintenance opens and cordons, and how all of it is taken back.

Every step is remembered before it is sent: a write whose answer got lost may have happened, so it is undone too.
Undoing what never happened changes nothing.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from controllers.adapters.kube_api import ApiError, KubeApi
from ebbtide.cli.cluster_access import MANAGER, annotations_of, budget_path, fail, labels_of, listed, rfc3339, seen
from ebbtide.vocabulary.controller_config import BudgetPolicy, ControllerConfig
from ebbtide.vocabulary.labels import CATEGORY, MAINTENANCE_UNTIL, PREFIX, Category

MAINTENANCE_WHY = PREFIX + "maintenance-why"
"""Annotation beside `MAINTENANCE_UNTIL`, for people."""

_PAUSES = (0.5, 1, 2, 4, 8, 8, 8, 8, 8, 8)  # seconds between tries to close: about a minute, then it is said loudly


_PASSING = (408, 409, 429)  # refusals that another try may overcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    budgets: tuple[BudgetPolicy, ...]
    nodes: tuple[str, ...]  # to cordon
    cordoned_before: tuple[str, ...] = ()

    @property
    def watched(self) -> tuple[str, ...]:
        return self.nodes + self.cordoned_before


def plan_of(api: KubeApi, config: ControllerConfig, names: Sequence[str], selector: str) -> Plan:
    """Ends the command where a named node does not exist or no node has the labels."""
    found: list[Mapping[str, Any]] = []
    for name in names:
        node = seen(api, f"/api/v1/nodes/{name}")
        if node is None:
            fail(f"--node: no node is called {name}", 2)
        found.append(node)
    if selector:
        chosen = listed(api, "/api/v1/nodes", labelSelector=selector)
        if not chosen:
            fail(f"--selector: no node has the labels {selector}", 2)
        found += chosen
    unique = {node["metadata"]["name"]: bool(node["spec"].get("unschedulable")) for node in found}
    return Plan(
        budgets=tuple(budget for budget in config.never_opened if seen(api, budget_path(budget)) is not None),
        nodes=tuple(name for name, cordoned in unique.items() if not cordoned),
        cordoned_before=tuple(name for name, cordoned in unique.items() if cordoned),
    )


class Opening:
    """What was opened so far. `close` may be called at any point, and again."""

    def __init__(self, api: KubeApi, plan: Plan, *, until: datetime, why: str, tell: Callable[[str], None]) -> None:
        self.until = until
        self._api, self._plan, self._why, self._tell = api, plan, why, tell
        self._opened: list[BudgetPolicy] = []
        self._cordoned: list[str] = []

    def open(self) -> None:
        """Nodes first, so that nothing new lands on them. Raises `ApiError`."""
        for name in self._plan.nodes:
            self._cordoned.append(name)
            self._api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}}, fieldManager=MANAGER)
            self._tell(f"cordoned {name}")
        for budget in self._plan.budgets:
            self._tell_taken_over(budget)
            self._opened.append(budget)
            marks = {MAINTENANCE_UNTIL: rfc3339(self.until), MAINTENANCE_WHY: self._why}
            body = {"metadata": {"annotations": marks}, "spec": {"maxUnavailable": 1}}
            self._api.patch(budget_path(budget), body, fieldManager=MANAGER)
            self._tell(f"opened budget {budget.name}")

    def workers_left(self, api: KubeApi) -> str:
        """The worker pods that still live on the nodes, in one line."""
        if not self._plan.watched:
            return "budgets are open"
        pods = listed(api, "/api/v1/pods", labelSelector=f"{CATEGORY}={Category.WORKER.value}")
        names = sorted(pod["metadata"]["name"] for pod in pods if _lives_on(pod, self._plan.watched))
        if not names:
            return "no worker is left on the nodes: drain them now"
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return f"{len(names)} workers are still on the nodes: {', '.join(names[:3])}{more}"

    def close(self) -> list[str]:
        """Budgets first. Returns the commands that undo by hand what could not be undone; none is the rule."""
        undone: list[str] = []
        for budget in self._opened:
            marks = {MAINTENANCE_UNTIL: None, MAINTENANCE_WHY: None}
            body = {"metadata": {"annotations": marks}, "spec": {"maxUnavailable": 0}}
            if not self._surely(budget_path(budget), body, f"close budget {budget.name}"):
                patch = '\'{"spec":{"maxUnavailable":0}}\''
                where = f"--namespace {budget.namespace}"
                undone.append(f"kubectl {where} patch poddisruptionbudget {budget.name} --type merge --patch {patch}")
        still = [name for name in self._cordoned if not self._uncordoned(name)]
        return [*undone, *(f"kubectl uncordon {name}" for name in still)]

    def _uncordoned(self, name: str) -> bool:
        return self._surely(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}}, f"uncordon {name}")

    def _surely(self, path: str, body: Mapping[str, Any], doing: str) -> bool:
        """Tried again while the server cannot be reached or is busy. What is gone needs no undoing."""
        for pause in (*_PAUSES, None):
            try:
                self._api.patch(path, body, fieldManager=MANAGER)
            except ApiError as error:
                if error.status == 404:
                    return True
                self._tell(f"could not {doing}: {error}")
                if pause is None or (400 <= error.status < 500 and error.status not in _PASSING):
                    return False
                time.sleep(pause)
            else:
                return True
        return False

    def _tell_taken_over(self, budget: BudgetPolicy) -> None:
        item = seen(self._api, budget_path(budget))
        until = annotations_of(item or {"metadata": {}}).get(MAINTENANCE_UNTIL)
        if until and until > rfc3339(datetime.now(UTC)):
            self._tell(f"budget {budget.name} was opened until {until} already: this maintenance ends it")


def _lives_on(pod: Mapping[str, Any], nodes: Sequence[str]) -> bool:
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return pod["spec"].get("nodeName") in nodes and not ended and labels_of(pod).get(CATEGORY) == Category.WORKER.value
