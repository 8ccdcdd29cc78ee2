"""Workloads that sleep: targets of commands, and the workload controller's report on each."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import product
from typing import NamedTuple

from controllers.adapters.kube_api import ApiError, KubeApi
from controllers.adapters.replica_writers import has_put_to_sleep
from controllers.workloads.sleep.calendar import sleep_at
from ebbtide.operate.api import CannotOperate, Target, find, items, readable
from ebbtide.operate.instants import spoken
from ebbtide.operate.objects import Document, annotations_of, parse_instant, rows_at
from ebbtide.operate.status import NoStatus, from_pods, hold_text
from ebbtide.operate.wording import reason_text
from ebbtide.text.durations import format_duration
from ebbtide.text.one_line import collapsed
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.holds import hold_until
from ebbtide.vocabulary.labels import SLEEP_UNTIL, WAKE_UNTIL, WORKLOADS
from ebbtide.vocabulary.workloads import SleepPolicy, WorkloadsConfig, subject_of

KIND = "workload"
"""Kind of these targets."""


class SleeperRow(NamedTuple):
    name: str
    state: str
    pods: str
    until: str
    reason: str


class LeftAsleep(NamedTuple):
    """A workload without pods that the workload controller put to sleep, and that no entry of its document wakes."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return (
            f"{self.kind} {self.namespace}/{self.name} was put to sleep by the workload controller, and no entry of "
            "the stack file wakes it: write `sleep: { when: never }` for it and update, or "
            f"`ebbtide release --autoscaler {self.name} --namespace {self.namespace}` and update"
        )


def sleeper_targets(config: WorkloadsConfig | None) -> list[Target]:
    return [_target(policy) for policy in (config.all_sleepers if config is not None else ())]


def ending_targets(config: WorkloadsConfig | None) -> dict[Target, int]:
    """Return the targets with `when: never`, each with its number of pods while it is awake."""
    policies = config.all_sleepers if config is not None else ()
    return {_target(policy): policy.replicas for policy in policies if policy.never}


def kept_targets(config: WorkloadsConfig | None) -> list[Target]:
    """Return the targets whose number an admission policy keeps, whoever its owner is."""
    return [_target(policy) for policy in (config.all_sleepers if config is not None else ()) if policy.kept]


def _target(policy: SleepPolicy) -> Target:
    return Target(KIND, policy.name, policy.path)


def named_targets(targets: Sequence[Target], names: Sequence[str], kinds: str) -> list[Target]:
    """Return the targets of these names; without names, all. Raises `CannotOperate` for an unknown name."""
    if unknown := sorted({*names} - {target.name for target in targets}):
        have = ", ".join(target.name for target in targets) or "none"
        raise CannotOperate(f"no {kinds} is called {' or '.join(unknown)}; there are: {have}", 2)
    return [target for target in targets if not names or target.name in names]


def explain_sleeper(api: KubeApi, config: WorkloadsConfig | None, name: str, now: datetime) -> Iterator[str]:
    """Yield sentences: the state with its reason, the calendar, and an operator's commands. Raises `CannotOperate`."""
    target = named_targets(sleeper_targets(config), [name], "workload with the key sleep")[0]
    assert config is not None
    timezone = config.hours.timezone
    rows, unread = sleeper_rows(api, config, timezone)
    yield from (
        ": ".join(filter(None, (row.name, f"{row.state}, {row.pods} pods", row.reason))) + "."
        for row in rows
        if row.name == name
    )
    policy = next(policy for policy in config.all_sleepers if policy.name == name)
    calendar = sleep_at(now, policy, config.hours)
    end = "" if calendar.until is None else f" until {spoken(calendar.until, timezone)}"
    idle = "" if policy.idle_after is None else f" once idle for {format_duration(policy.idle_after)}"
    state = "awake" if calendar.awake else f"asleep{idle}"
    yield f"  - by the calendar: {state}{end}, {reason_text(calendar.reason)}"
    annotations = annotations_of(item := find(api, target.path) or {})
    yield from (f"  - an operator: {text}" for text in [hold_text(item, now)] if text)
    asked = {key: hold_until(annotations, key) for key in (WAKE_UNTIL, SLEEP_UNTIL)}
    yield from (f"  - {key}: {annotations[key]}" for key, hold in asked.items() if hold and hold.holds_at(now))
    if unread:
        yield f"not known: the workload controller does not answer: {unread}"


def sleeper_rows(api: KubeApi, config: WorkloadsConfig | None, timezone: str) -> tuple[list[SleeperRow], str]:
    """Return a row for each workload that sleeps, and why the controller's reports are unknown."""
    if config is None or not config.all_sleepers:
        return [], ""
    unread = ""
    try:
        reports = rows_at(from_pods(api, config.namespace, WORKLOADS), "workloads")
    except (NoStatus, ApiError) as error:
        reports, unread = [], collapsed(error)
    return [_row(policy, reports, timezone) for policy in config.all_sleepers], unread


def _row(policy: SleepPolicy, reports: Sequence[Document], timezone: str) -> SleeperRow:
    key = policy.kind, policy.namespace, policy.object
    of_this: list[Document] = [
        row for row in reports if (row.get("kind"), row.get("namespace"), row.get("name")) == key
    ]
    report: Document = of_this[0] if of_this else {}
    until, details = parse_instant(report.get("until")), [str(report.get(key) or "") for key in ("activity", "note")]
    return SleeperRow(
        name=policy.name,
        state=str(report.get("state") or "unknown"),
        pods=f"{report.get('replicas', '?')} of {policy.replicas}",
        until="" if until is None else spoken(until, timezone),
        reason="; ".join(filter(None, dict.fromkeys([reason_text(report.get("why")), *details]))),
    )


def left_asleep(
    api: KubeApi, controller: ControllerConfig, config: WorkloadsConfig | None, namespace: str
) -> tuple[list[LeftAsleep], list[str]]:
    """Return the workloads that were left asleep, and why some namespaces are unknown.

    The namespaces searched are `namespace`, those with a budget of a workload of the stack, since every workload has
    one, and those of adopted pods that sleep.
    """
    entries = {policy.subject for policy in (config.all_sleepers if config is not None else ())}
    budgets = (*controller.budgets, *controller.never_opened)
    spaces = sorted(
        {namespace, *(budget.namespace for budget in budgets if budget.object_name is None)}
        | {policy.namespace for policy in (config.all_sleepers if config is not None else ())}
    )
    left, unread = list[LeftAsleep](), list[str]()
    for space, kind in product(spaces, ("Deployment", "StatefulSet")):
        path = f"/apis/apps/v1/namespaces/{space}/{kind.lower()}s"
        for item in readable(f"{kind.lower()}s of {space}", unread, partial(items, api, path)) or ():
            name = item["metadata"]["name"]
            if has_put_to_sleep(WORKLOADS, item) and subject_of(kind, space, name) not in entries:
                left.append(LeftAsleep(kind, space, name))
    return left, unread
