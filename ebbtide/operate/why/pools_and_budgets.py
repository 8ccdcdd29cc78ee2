"""Explain the state of a pool or a budget, from the controller's `/status` if it answers, and from the cluster."""

from datetime import UTC, datetime

from controllers.adapters.kube_api import ApiError, KubeApi
from ebbtide.operate.api import CannotOperate, budget_path, deployment_path, find
from ebbtide.operate.instants import spoken
from ebbtide.operate.objects import (
    Document,
    annotations_of,
    at,
    budget_limit,
    max_unavailable_of,
    parse_instant,
    rows_at,
    sync_failure,
)
from ebbtide.operate.status import NoStatus, from_pods, from_url, hold_text
from ebbtide.operate.why.brokers import broker_lines
from ebbtide.operate.why.fallbacks import fallback_facts, fallback_lines
from ebbtide.operate.wording import demand_text, notes_of, reading_state, reason_text
from ebbtide.text.counts import number_of, several
from ebbtide.text.durations import whole_minutes
from ebbtide.text.one_line import collapsed
from ebbtide.vocabulary.controller_config import ControllerConfig, PoolPolicy
from ebbtide.vocabulary.labels import MAINTENANCE_UNTIL


def status_or_reason(api: KubeApi, namespace: str, url: str) -> tuple[Document, str]:
    """Return the controller's document, or why there is none."""
    try:
        return (from_url(url) if url else from_pods(api, namespace)), ""
    except (NoStatus, ApiError) as error:
        return {}, collapsed(error)


def explain_pool(api: KubeApi, config: ControllerConfig, name: str, document: Document) -> list[str]:
    """Return sentences. Raises `ApiError`, and `CannotOperate` for an unknown name."""
    policy = next((pool for pool in config.pools if pool.name == name), None)
    if policy is None:
        have = ", ".join(pool.name for pool in config.pools) or "none"
        raise CannotOperate(f"no worker pool is called {name}; there are: {have}", 2)
    item = find(api, deployment_path(policy))
    hold = hold_text(item, datetime.now(UTC)) if item else ""
    row = _row(document, "pools", name)
    lines = [*pool_lines(policy, row, item, hold), *broker_lines(config, policy, row)]
    fallback = fallback_facts(api, policy, item) if item else None
    return [*lines, *fallback_lines(fallback)] if fallback else lines


def explain_budget(api: KubeApi, config: ControllerConfig, name: str, document: Document) -> list[str]:
    """Return sentences. Raises `ApiError`, and `CannotOperate` for an unknown name."""
    policies = {budget.name: budget for budget in (*config.budgets, *config.never_opened)}
    if name not in policies:
        have = ", ".join(sorted(policies)) or "none"
        raise CannotOperate(f"no budget of Ebbtide's is called {name}; there are: {have}", 2)
    item, now = find(api, budget_path(policies[name])), datetime.now(UTC)
    flexible = policies[name] in config.budgets
    lines = budget_lines(_row(document, "budgets", name), item, flexible=flexible, now=now)
    if item and (hold := hold_text(item, now)):
        lines.append(f"An operator holds it: {hold}.")
    until = config.window.next_change(now)
    if flexible and until is not None and not policies[name].always:
        verb = "closes" if config.window.is_open(now) else "opens"
        lines.append(f"The disruption window {verb} {spoken(until, config.hours.timezone)}.")
    return lines


def _row(document: Document, section: str, name: str) -> Document | None:
    return next((row for row in rows_at(document, "report", section) if row.get("name") == name), None)


def pool_lines(policy: PoolPolicy, row: Document | None, item: Document | None, hold: str) -> list[str]:
    """Return the state, its evidence and its bounds."""
    name = policy.name
    if item is None:
        return [f"Pool {name} has no Deployment ({policy.namespace}/{policy.deployment}), so nothing can be scaled."]
    replicas, ready = at(item, "spec", "replicas") or 0, at(item, "status", "readyReplicas") or 0
    lines = [f"Pool {name} has {number_of(replicas, 'worker')}, {ready} of them ready."]
    if row is not None:
        target, reason = row.get("wanted"), reason_text(row.get("reason"))
        lines.append(
            f"The controller wants {target}: {reason}." if target is not None else f"Nothing is decided: {reason}."
        )
        reading = at(row, "reading")
        lines.append(
            f"Its queues ({', '.join(policy.queues)}): {demand_text(reading)}; reading {reading_state(reading)}."
        )
        lines += [f"Note: {more}." for more in notes_of(row)]
        if at(reading, "seenBefore") is False and policy.broker is None:
            lines.append("These queues were never used: is the name right?")
        if row.get("floor"):
            lines.append(f"Its planned floor is {row['floor']} now (planned work, or the start of business hours).")
    lines.append(_bounds(policy))
    if hold:
        lines.append(f"An operator holds it: {hold}.")
    return lines


def _bounds(policy: PoolPolicy) -> str:
    capacity = f"{several(policy.jobs_per_worker, 'job')} per worker"
    limit = f", at most {policy.growth_per_minute} more a minute" if policy.growth_per_minute else ""
    stop = "" if policy.safe_stop else "; no safe stop is declared"
    sizes, window = f"{policy.min_workers} to {policy.max_workers}", whole_minutes(policy.stabilization_window)
    return f"Its rules: {sizes} workers, {capacity}{limit}; stabilization window {window} before it shrinks{stop}."


def budget_lines(row: Document | None, item: Document | None, *, flexible: bool, now: datetime) -> list[str]:
    if item is None:
        return ["That budget is not in the cluster: nothing protects these pods."]
    name, value = item["metadata"]["name"], max_unavailable_of(item)
    allowed = at(item, "status", "disruptionsAllowed") or 0
    lines = [f"Budget {name} is {'closed' if value == 0 else f'open ({budget_limit(value)})'}; {_allows(allowed)}."]
    if failure := sync_failure(item):
        lines.append(f"Kubernetes cannot calculate it: {failure} (SyncFailed).")
    elif value != 0 and not allowed:
        healthy, required = at(item, "status", "currentHealthy") or 0, at(item, "status", "desiredHealthy") or 0
        lines.append(f"{healthy} of its pods are healthy and {required} must be.")
    if not flexible:
        lines.append("It is a fixed workload's: the controller never opens it.")
        until = parse_instant(annotations_of(item).get(MAINTENANCE_UNTIL))
        if value != 0:
            lines.append(
                f"A maintenance keeps it open for {whole_minutes(until - now)} more."
                if until is not None and until > now
                else "No maintenance is under way: the closer closes it before business hours start."
            )
    elif row is not None:
        lines.append(
            f"The controller wants it {'closed' if row.get('wanted') == 0 else 'open'}: {_reason_sentence(row)}."
        )
    return lines


def _reason_sentence(row: Document) -> str:
    note = row.get("note")
    return f"{reason_text(row.get('reason'))}{f' ({note})' if note else ''}"


def _allows(allowed: int) -> str:
    return "none of its pods may be evicted now" if not allowed else f"{allowed} of its pods may be evicted now"
