"""A maintenance: opens budgets, cordons nodes, and undoes both.

Every write is recorded before it is sent and undone at the end, because it may have succeeded even if its response was
lost. Undoing a write that did not happen changes nothing.
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
from ebbtide.text.counts import several, verb
from ebbtide.text.durations import whole_minutes
from ebbtide.vocabulary.controller_config import BudgetPolicy, ControllerConfig
from ebbtide.vocabulary.labels import CATEGORY, CLOSED_MINIMUM, MAINTENANCE_UNTIL, PREFIX, Category

MAINTENANCE_WHY = PREFIX + "maintenance-why"
"""Annotation with the reason, for people."""

OPENED, CLOSED = {"maxUnavailable": 1}, {"maxUnavailable": 0}
OPENED_WITHOUT_SCALE, CLOSED_WITHOUT_SCALE = {"minAvailable": 0}, {"minAvailable": CLOSED_MINIMUM}
"""For pods without a scale subresource: their budget can release one at a time only by a declared number of pods."""

LONGEST = timedelta(hours=12)
_POLL = timedelta(seconds=5)  # between two readings of the nodes


def duration_within_limit(text: str) -> timedelta:
    """Parse a maintenance's duration. Raises `CannotOperate`."""
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
        """Describe the plan for the operator's confirmation."""
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
            lines.append(f"  note: the closer closes these budgets at {spoken(closes, zone)}, maintenance or not")
        return [*lines, "  Ctrl-C ends it early; before it exits it closes the budgets and uncordons the nodes"]

    @property
    def watched(self) -> tuple[str, ...]:
        return self.nodes + self.cordoned_before


def maintenance_plan(api: KubeApi, config: ControllerConfig, names: Sequence[str], selector: str) -> MaintenancePlan:
    """Read budgets and nodes. Raises `ApiError`, and `CannotOperate` for an unknown node or unmatched labels."""
    found_nodes: list[Mapping[str, Any]] = []
    for name in names:
        node = find(api, f"/api/v1/nodes/{name}")
        if node is None:
            raise CannotOperate(f"--node: no node is called {name}", 2)
        found_nodes.append(node)
    if selector:
        selected = items(api, "/api/v1/nodes", labelSelector=selector)
        if not selected:
            raise CannotOperate(f"--selector: no node has the labels {selector}", 2)
        found_nodes += selected
    unique = {node["metadata"]["name"]: bool(node["spec"].get("unschedulable")) for node in found_nodes}
    return MaintenancePlan(
        budgets=tuple(budget for budget in config.never_opened if find(api, budget_path(budget)) is not None),
        nodes=tuple(name for name, cordoned in unique.items() if not cordoned),
        cordoned_before=tuple(name for name, cordoned in unique.items() if cordoned),
    )


class Maintenance:
    """Opens, watches and closes; `close` may be called at any point, and repeatedly."""

    def __init__(
        self, api: KubeApi, plan: MaintenancePlan, *, until: datetime, why: str, tell: Callable[[str], None]
    ) -> None:
        self.until = until
        self._api, self._plan, self._why, self._tell = api, plan, why, tell
        self._opened: dict[BudgetPolicy, Mapping[str, int]] = {}  # each with the spec that closes it
        self._cordoned: list[str] = []

    def open(self) -> None:
        """Cordon nodes first, so that no new pod lands on them. Raises `ApiError`."""
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
        """Report changes on the nodes and network errors, until `stop` is set or the time is over."""
        reported = ""
        while not stop.is_set() and (remaining := self.until - datetime.now(UTC)) > timedelta():
            try:
                line = self._workers_left()
            except ApiError as error:
                line = f"cannot list the pods now: {error}"
            if line != reported:
                self._tell(f"{line}; {whole_minutes(remaining)} left")
                reported = line
            stop.wait(min(_POLL, remaining).total_seconds())
        self._tell("ending: on request" if stop.is_set() else "ending: the time is over")

    def _workers_left(self) -> str:
        """Summarize the worker pods still on the nodes, in one line."""
        if not self._plan.watched:
            return "budgets are open"
        pods = items(self._api, "/api/v1/pods", labelSelector=f"{CATEGORY}={Category.WORKER.value}")
        names = sorted(pod["metadata"]["name"] for pod in pods if _lives_on(pod, self._plan.watched))
        if not names:
            return "no worker is left on the nodes: drain them now"
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        are = verb(len(names), "is", "are")
        return f"{several(len(names), 'worker')} {are} still on the nodes: {', '.join(names[:3])}{more}"

    def close(self) -> list[str]:
        """Close budgets first. Return the commands that undo the rest by hand; usually none."""
        commands: list[str] = []
        for budget, closed in self._opened.items():
            marks = {MAINTENANCE_UNTIL: None, MAINTENANCE_WHY: None}
            body = {"metadata": {"annotations": marks}, "spec": closed}
            if not patch_surely(self._api, budget_path(budget), body, f"close budget {budget.name}", self._tell):
                patch = "'" + json.dumps({"spec": closed}, separators=(",", ":")) + "'"
                where = f"--namespace {budget.namespace}"
                commands.append(f"kubectl {where} patch poddisruptionbudget {budget.pdb} --type merge --patch {patch}")
        cordoned = [name for name in self._cordoned if not self._uncordoned(name)]
        return [*commands, *(f"kubectl uncordon {name}" for name in cordoned)]

    def _uncordoned(self, name: str) -> bool:
        body = {"spec": {"unschedulable": None}}
        return patch_surely(self._api, f"/api/v1/nodes/{name}", body, f"uncordon {name}", self._tell)

    def _opened_spec(self, budget: BudgetPolicy) -> Mapping[str, int]:
        """Return the spec that opens the budget; report if another maintenance has opened it."""
        item = find(self._api, budget_path(budget)) or {"metadata": {}}
        until = annotations_of(item).get(MAINTENANCE_UNTIL)
        if until and until > rfc3339(datetime.now(UTC)):
            self._tell(f"budget {budget.name} is already open until {until}: it closes when this maintenance ends")
        if at(item, "spec", "minAvailable") is None:
            return OPENED
        if budget.open_minimum is not None:
            return {"minAvailable": budget.open_minimum}
        self._tell(f"budget {budget.name} covers pods without a scale: it opens for all of them at once")
        return OPENED_WITHOUT_SCALE


def _lives_on(pod: Mapping[str, Any], nodes: Sequence[str]) -> bool:
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return pod["spec"].get("nodeName") in nodes and not ended and labels_of(pod).get(CATEGORY) == Category.WORKER.value
