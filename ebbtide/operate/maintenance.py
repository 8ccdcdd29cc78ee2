"""What a maintenance opens and cordons, and how all of it is taken back.

Every step is remembered before it is sent: a write whose answer got lost may have happened, so it is undone too.
Undoing what never happened changes nothing.
"""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from controllers.adapters.kube_api import ApiError, KubeApi
from ebbtide.operate.api import MANAGER, CannotOperate, budget_path, find, items, patch_surely
from ebbtide.operate.instants import NotUnderstood, duration_of, spoken
from ebbtide.operate.objects import annotations_of, at, labels_of, rfc3339
from ebbtide.units.durations import whole_minutes
from ebbtide.vocabulary.controller_config import BudgetPolicy, ControllerConfig
from ebbtide.vocabulary.labels import CATEGORY, CLOSED_MINIMUM, MAINTENANCE_UNTIL, PREFIX, Category

MAINTENANCE_WHY = PREFIX + "maintenance-why"
"""Annotation beside `MAINTENANCE_UNTIL`, for people."""

OPENED, CLOSED = {"maxUnavailable": 1}, {"maxUnavailable": 0}
OPENED_WITHOUT_SCALE, CLOSED_WITHOUT_SCALE = {"minAvailable": 0}, {"minAvailable": CLOSED_MINIMUM}
"""Of pods that nothing counts: no whole number lets go one at a time however many there are."""

LONGEST = timedelta(hours=12)
_POLL = timedelta(seconds=5)  # between two looks at the nodes


def duration_within_limit(text: str) -> timedelta:
    """Raises `CannotOperate`."""
    try:
        duration = duration_of(text)
    except NotUnderstood as error:
        raise CannotOperate(f"--for: {error}", 2) from None
    if duration > LONGEST:
        raise CannotOperate(f"--for: wanted at most 12h, found {text!r}: start another one when it ends", 2)
    return duration


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePlan:
    budgets: tuple[BudgetPolicy, ...]
    nodes: tuple[str, ...]  # to cordon
    cordoned_before: tuple[str, ...] = ()

    def lines(self, config: ControllerConfig, until: datetime, why: str) -> list[str]:
        """What will happen, for whoever is about to do it."""
        zone = config.hours.timezone
        lines = [
            f"maintenance until {spoken(until, zone)}: {why}",
            f"  budgets to open, one pod at a time: {', '.join(budget.name for budget in self.budgets) or 'none'}",
            f"  nodes to cordon: {', '.join(self.nodes) or 'none'}",
        ]
        if self.cordoned_before:
            lines.append(f"  already cordoned, and left so: {', '.join(self.cordoned_before)}")
        opening = config.hours.next_opening(datetime.now(UTC))
        closes = opening - config.closing_guard if opening is not None else None
        if closes is not None and closes < until:
            lines.append(f"  note: the closer closes these budgets at {spoken(closes, zone)}, whatever runs")
        return [*lines, "  Ctrl-C ends it early; before it exits it closes the budgets and uncordons the nodes"]

    @property
    def watched(self) -> tuple[str, ...]:
        return self.nodes + self.cordoned_before


def maintenance_plan(api: KubeApi, config: ControllerConfig, names: Sequence[str], selector: str) -> MaintenancePlan:
    """Raises `ApiError`, and `CannotOperate` where a named node does not exist or no node has the labels."""
    found: list[Mapping[str, Any]] = []
    for name in names:
        node = find(api, f"/api/v1/nodes/{name}")
        if node is None:
            raise CannotOperate(f"--node: no node is called {name}", 2)
        found.append(node)
    if selector:
        chosen = items(api, "/api/v1/nodes", labelSelector=selector)
        if not chosen:
            raise CannotOperate(f"--selector: no node has the labels {selector}", 2)
        found += chosen
    unique = {node["metadata"]["name"]: bool(node["spec"].get("unschedulable")) for node in found}
    return MaintenancePlan(
        budgets=tuple(budget for budget in config.never_opened if find(api, budget_path(budget)) is not None),
        nodes=tuple(name for name, cordoned in unique.items() if not cordoned),
        cordoned_before=tuple(name for name, cordoned in unique.items() if cordoned),
    )


class Maintenance:
    """What was opened so far. `close` may be called at any point, and again."""

    def __init__(
        self, api: KubeApi, plan: MaintenancePlan, *, until: datetime, why: str, tell: Callable[[str], None]
    ) -> None:
        self.until = until
        self._api, self._plan, self._why, self._tell = api, plan, why, tell
        self._opened: dict[BudgetPolicy, Mapping[str, int]] = {}  # with what closes each
        self._cordoned: list[str] = []

    def open(self) -> None:
        """Nodes first, so that nothing new lands on them. Raises `ApiError`."""
        for name in self._plan.nodes:
            self._cordoned.append(name)
            self._api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}}, fieldManager=MANAGER)
            self._tell(f"cordoned {name}")
        for budget in self._plan.budgets:
            opened = self._opened_spec(budget)
            self._opened[budget] = CLOSED if opened == OPENED else CLOSED_WITHOUT_SCALE
            marks = {MAINTENANCE_UNTIL: rfc3339(self.until), MAINTENANCE_WHY: self._why}
            body = {"metadata": {"annotations": marks}, "spec": opened}
            self._api.patch(budget_path(budget), body, fieldManager=MANAGER)
            self._tell(f"opened budget {budget.name}")

    def watch(self, stop: threading.Event) -> None:
        """Report what changes on the nodes until `stop` or the end of the time; network errors are reported too."""
        reported = ""
        while not stop.is_set() and (left := self.until - datetime.now(UTC)) > timedelta():
            try:
                line = self._workers_left()
            except ApiError as error:
                line = f"cannot list the pods now: {error}"
            if line != reported:
                self._tell(f"{line}; {whole_minutes(left)} left")
                reported = line
            stop.wait(min(_POLL, left).total_seconds())
        self._tell("ending: asked to" if stop.is_set() else "ending: the time is over")

    def _workers_left(self) -> str:
        """The worker pods that still live on the nodes, in one line."""
        if not self._plan.watched:
            return "budgets are open"
        pods = items(self._api, "/api/v1/pods", labelSelector=f"{CATEGORY}={Category.WORKER.value}")
        names = sorted(pod["metadata"]["name"] for pod in pods if _lives_on(pod, self._plan.watched))
        if not names:
            return "no worker is left on the nodes: drain them now"
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return f"{len(names)} workers are still on the nodes: {', '.join(names[:3])}{more}"

    def close(self) -> list[str]:
        """Budgets first. Returns the commands that undo by hand what could not be undone; usually none."""
        undone: list[str] = []
        for budget, closed in self._opened.items():
            marks = {MAINTENANCE_UNTIL: None, MAINTENANCE_WHY: None}
            body = {"metadata": {"annotations": marks}, "spec": closed}
            if not patch_surely(self._api, budget_path(budget), body, f"close budget {budget.name}", self._tell):
                patch = "'" + json.dumps({"spec": closed}, separators=(",", ":")) + "'"
                where = f"--namespace {budget.namespace}"
                undone.append(f"kubectl {where} patch poddisruptionbudget {budget.name} --type merge --patch {patch}")
        still = [name for name in self._cordoned if not self._uncordoned(name)]
        return [*undone, *(f"kubectl uncordon {name}" for name in still)]

    def _uncordoned(self, name: str) -> bool:
        body = {"spec": {"unschedulable": None}}
        return patch_surely(self._api, f"/api/v1/nodes/{name}", body, f"uncordon {name}", self._tell)

    def _opened_spec(self, budget: BudgetPolicy) -> Mapping[str, int]:
        """What opens it, by the number that it has; says when another maintenance has opened it already."""
        item = find(self._api, budget_path(budget)) or {"metadata": {}}
        until = annotations_of(item).get(MAINTENANCE_UNTIL)
        if until and until > rfc3339(datetime.now(UTC)):
            self._tell(f"budget {budget.name} was opened until {until} already: this maintenance ends it")
        if at(item, "spec", "minAvailable") is None:
            return OPENED
        self._tell(f"budget {budget.name} is of pods without a scale: it opens for all of them at once")
        return OPENED_WITHOUT_SCALE


def _lives_on(pod: Mapping[str, Any], nodes: Sequence[str]) -> bool:
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return pod["spec"].get("nodeName") in nodes and not ended and labels_of(pod).get(CATEGORY) == Category.WORKER.value
