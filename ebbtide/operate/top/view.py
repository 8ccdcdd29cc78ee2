"""Values of `ebbtide top`; None is unknown, and `notes` say why. Pure.

Requested and used are shares of nodes' `allocatable`, as schedulers count.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, cast

from ebbtide.monitoring.client import Answer, UnknownAnswer
from ebbtide.operate.objects import Document, at, labels_of, quantity, requested, rows_at
from ebbtide.operate.status import BudgetState, PoolState
from ebbtide.operate.status_text import head_lines, server_lines
from ebbtide.operate.top.facts import TopFacts
from ebbtide.operate.wording import counts_of, notes_of, reason_text
from ebbtide.text.durations import duration
from ebbtide.vocabulary.labels import GPU_RESOURCE, NODE_GROUP, NODE_KIND

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_HEADS = ("window", "leader", "OPEN")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRow:
    name: str
    queues: tuple[str, ...] = ()
    waiting: int | None = None
    running: int | None = None
    oldest_wait: float | None = None  # seconds, of the head of the queue; None also if nothing waits
    wait_p95: float | None = None  # seconds, of `oldest_wait` in the last hour; 0 if nothing waited
    workers: int | None = None
    wanted: int | None = None
    pending: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Fractions of the allocatable resources of a group's nodes."""

    requested: float | None
    used: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    name: str  # empty: nodes without a group
    kind: str
    nodes: int
    ready: int
    cpu: Share
    memory: Share
    gpu: Share | None  # None: it has no GPUs
    dollars_per_hour: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRow:
    name: str
    state: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopView:
    customer: str
    at: datetime
    heads: tuple[str, ...] = ()
    pools: tuple[PoolRow, ...] = ()
    groups: tuple[GroupRow, ...] | None = None
    pods_pending: int | None = None
    budgets: tuple[BudgetRow, ...] = ()
    evictions: Mapping[str, float] | None = None  # in the last hour, by workload
    notes: tuple[str, ...] = field(default=())


Price = Callable[[str], float | None]
"""US dollars an hour by instance type; None without a price."""


def top_view(facts: TopFacts, customer: str, price: Price, groups: Sequence[str] = ()) -> TopView:
    """Combine the facts; `groups` are the stack file's node groups, shown even without nodes."""
    return TopView(
        customer=customer,
        at=facts.now,
        heads=tuple(_heads(facts)),
        pools=tuple(_pools(facts)),
        groups=None if facts.nodes is None else tuple(_groups(facts, facts.nodes, price, groups)),
        pods_pending=None if facts.pods is None else sum(1 for pod in facts.pods if not at(pod, "spec", "nodeName")),
        budgets=tuple(_budgets(facts)),
        evictions=_evictions(facts.measured["evictions"]),
        notes=tuple(_notes(facts, price)),
    )


def _heads(facts: TopFacts) -> Iterator[str]:
    lines = head_lines(facts.status) if facts.status is not None else []
    lines += server_lines(facts.server) if facts.server is not None else []
    return (line for line in lines if line.startswith(_HEADS))


def _pools(facts: TopFacts) -> Iterator[PoolRow]:
    queues = {pool.name: pool.queues for pool in facts.config.pools} if facts.config is not None else {}
    waits = _by(facts.measured["waits"], "pool")
    reported = {str(row.get("name")): row for row in rows_at(facts.status, "report", "pools")}
    states = {pool.name: pool for pool in facts.server.pools} if facts.server is not None else {}
    for name in queues:
        p95 = _known(waits or {}, name)
        if name in reported:
            yield _pool(reported[name], queues[name], p95)
        elif name in states:
            yield _pool_of_the_server(states[name], queues[name], p95)
        else:
            yield PoolRow(name=name, queues=queues[name], wait_p95=p95)


def _known(waits: Mapping[str, float], name: str) -> float | None:
    return value if (value := waits.get(name, -1.0)) >= 0 else None


def _pool(row: Document, queues: tuple[str, ...], p95: float | None) -> PoolRow:
    reading = row.get("reading")
    counts = counts_of(reading)
    waiting = counts.get("waiting")
    parts = [reason_text(row.get("reason")), *notes_of(row)]
    return PoolRow(
        name=str(row.get("name")),
        queues=queues,
        waiting=waiting,
        running=counts.get("running"),
        oldest_wait=counts.get("oldestWait") if waiting else None,
        wait_p95=p95,
        workers=row.get("running"),
        wanted=row.get("wanted") if row.get("wanted") is not None else row.get("workers"),
        pending=row.get("pending"),
        why="; ".join(dict.fromkeys(part for part in parts if part)),
    )


def _pool_of_the_server(pool: PoolState, queues: tuple[str, ...], p95: float | None) -> PoolRow:
    if pool.replicas is None:
        return PoolRow(name=pool.name, queues=queues, wait_p95=p95, why="its Deployment does not exist")
    return PoolRow(name=pool.name, queues=queues, wait_p95=p95, workers=pool.ready, wanted=pool.replicas, why=pool.hold)


def _budgets(facts: TopFacts) -> Iterator[BudgetRow]:
    for row in rows_at(facts.status, "report", "budgets"):
        why = "; ".join(part for part in (reason_text(row.get("reason")), str(row.get("note") or "")) if part)
        yield BudgetRow(name=str(row.get("name")), state=_state(row.get("maxUnavailable")), why=why)
    for budget in facts.server.budgets if facts.server is not None else ():
        yield _budget_of_the_server(budget)


def _budget_of_the_server(budget: BudgetState) -> BudgetRow:
    return BudgetRow(name=budget.name, state=_state(budget.max_unavailable), why=budget.hold)


def _state(max_unavailable: object) -> str:
    if max_unavailable is None:
        return "missing"
    return "closed" if str(max_unavailable) == "0" else "open"


def _groups(facts: TopFacts, nodes: Sequence[Document], price: Price, names: Sequence[str]) -> Iterator[GroupRow]:
    members: dict[str, list[Document]] = {name: [] for name in names}
    for node in nodes:
        members.setdefault(labels_of(node).get(NODE_GROUP, ""), []).append(node)
    for name, group in members.items():
        prices = [price(labels_of(node).get(INSTANCE_TYPE, "")) for node in group]
        known = [usd for usd in prices if usd is not None]
        has_gpus = any(quantity(at(node, "status", "allocatable", GPU_RESOURCE)) for node in group)
        yield GroupRow(
            name=name,
            kind=next((labels_of(node).get(NODE_KIND, "") for node in group), ""),
            nodes=len(group),
            ready=sum(1 for node in group if _is_ready(node)),
            cpu=_share(facts, name, group, "cpu", "cpu_cores"),
            memory=_share(facts, name, group, "memory", "memory_bytes"),
            gpu=_share(facts, name, group, GPU_RESOURCE, "gpus") if has_gpus else None,
            dollars_per_hour=sum(known) if len(known) == len(prices) else None,
        )


def _share(facts: TopFacts, group: str, nodes: Sequence[Document], resource: str, metric: str) -> Share:
    allocatable = sum((quantity(at(node, "status", "allocatable", resource)) for node in nodes), Decimal(0))
    if not allocatable:
        return Share(requested=None, used=None)
    names = {str(at(node, "metadata", "name")) for node in nodes}
    requests = None
    if facts.pods is not None:
        pods = (pod for pod in facts.pods if at(pod, "spec", "nodeName") in names)
        requests = float(sum((requested(pod, resource) for pod in pods), Decimal(0)) / allocatable)
    by_group = _by(facts.measured[f"used_{metric}"], "group")
    used = None if by_group is None else by_group.get(group)
    return Share(requested=requests, used=None if used is None else used / float(allocatable))


def _is_ready(node: Document) -> bool:
    conditions = rows_at(node, "status", "conditions")
    return any(row.get("type") == "Ready" and row.get("status") == "True" for row in conditions)


def _evictions(answer: Answer) -> dict[str, float] | None:
    evictions = _by(answer, "workload")
    if evictions is None or any(value < 0 for value in evictions.values()):
        return None
    return {workload: value for workload, value in evictions.items() if value > 0}


def _by(answer: Answer, label: str) -> dict[str, float] | None:
    if isinstance(answer, UnknownAnswer):
        return None
    return {sample.labels.get(label, ""): sample.value for sample in answer}


_HIDDEN = "unknown; lists, message brokers, and Celery without our hooks do not show how long jobs wait"
_MEASURED = {
    "used_cpu_cores": "CPU used",
    "used_memory_bytes": "memory used",
    "used_gpus": "GPUs used",
    "evictions": "evictions",
    "waits": "p95 of waits",
}


def _notes(facts: TopFacts, price: Price) -> Iterator[str]:
    yield from facts.unread
    if facts.status is not None and at(facts.status, "report") is None:
        yield "pools: the pod that answered does not act yet"
    for name, state_and_age in _mapping(at(facts.status, "readings")).items():
        state, age, *_ = [*_list(state_and_age), None, None]
        if isinstance(state, str) and state != "known":
            last = f"last known {duration(age)} ago" if isinstance(age, float | int) else "never known"
            yield f"queues of {name}: {state}, {last}"
    if hidden := [row.name for row in _pools(facts) if _hides_waits(row, facts.measured["waits"])]:
        yield f"waits of {', '.join(hidden)}: {_HIDDEN}"
    yield from (str(line) for line in at(facts.status, "report", "trouble") or ())
    yield from _prices_missing(facts, price)
    why: dict[str, list[str]] = {}
    for name, answer in facts.measured.items():
        if isinstance(answer, UnknownAnswer) and not (name == "used_gpus" and not _any_gpu(facts)):
            why.setdefault(answer.why, []).append(_MEASURED[name])
    yield from (f"{', '.join(names)}: {line}" for line, names in why.items())
    evictions = _by(facts.measured["evictions"], "workload")
    if evictions is not None and any(value < 0 for value in evictions.values()):
        yield "evictions: the exporter cannot see pods"


def _hides_waits(row: PoolRow, waits: Answer) -> bool:
    return bool(row.waiting and row.oldest_wait is None) or (
        row.wait_p95 is None and not isinstance(waits, UnknownAnswer)
    )


def _prices_missing(facts: TopFacts, price: Price) -> Iterator[str]:
    types = {labels_of(node).get(INSTANCE_TYPE, "") for node in facts.nodes or ()}
    missing = sorted(kind or "nodes without an instance type" for kind in types if price(kind) is None)
    if missing:
        yield f"dollars: no list price for {', '.join(missing)}"


def _any_gpu(facts: TopFacts) -> bool:
    return any(quantity(at(node, "status", "allocatable", GPU_RESOURCE)) for node in facts.nodes or ())


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
