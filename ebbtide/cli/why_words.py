"""What is told of one pool or one budget. Pure: rows and raw objects in, sentences out."""

from datetime import datetime

from ebbtide.cli.cluster_access import annotations_of, instant_of
from ebbtide.cli.controller_status import Document, at, most_unavailable
from ebbtide.cli.instants import lasting
from ebbtide.cli.wording import demand_text, reading_state, reason_text
from ebbtide.vocabulary.controller_config import PoolPolicy
from ebbtide.vocabulary.labels import MAINTENANCE_UNTIL


def pool_lines(policy: PoolPolicy, row: Document | None, item: Document | None, hold: str) -> list[str]:
    """The answer, what it rests on, and what bounds it."""
    name = policy.name
    if item is None:
        return [f"Pool {name} has no Deployment ({policy.namespace}/{policy.deployment}), so nothing can be scaled."]
    replicas, ready = at(item, "spec", "replicas") or 0, at(item, "status", "readyReplicas") or 0
    lines = [f"Pool {name} has {replicas} workers, {ready} of them ready."]
    if row is not None:
        wanted, because = row.get("wanted"), reason_text(row.get("reason"))
        lines.append(
            f"The controller wants {wanted}: {because}." if wanted is not None else f"Nothing is decided: {because}."
        )
        reading = at(row, "reading")
        lines.append(
            f"Its queues ({', '.join(policy.queues)}): {demand_text(reading)}; reading {reading_state(reading)}."
        )
        lines += [f"Besides: {more}." for more in (at(reading, "why"), row.get("note")) if more]
        if at(reading, "seenBefore") is False:
            lines.append("Nobody ever used these queues: is the name right?")
        if row.get("floor"):
            lines.append(f"Planned work or the morning asks for {row['floor']} now.")
    lines.append(_bounds(policy))
    if hold:
        lines.append(f"An operator holds it: {hold}.")
    return lines


def _bounds(policy: PoolPolicy) -> str:
    each = f"{policy.jobs_per_worker} job{'s' if policy.jobs_per_worker > 1 else ''} per worker"
    limit = f", at most {policy.growth_per_minute} more a minute" if policy.growth_per_minute else ""
    stop = "" if policy.safe_stop else "; no safe stop is declared"
    least, most = policy.min_workers, policy.max_workers
    return f"Its rules: {least} to {most} workers, {each}{limit}; down after {lasting(policy.calm)} of calm{stop}."


def budget_lines(row: Document | None, item: Document | None, *, flexible: bool, now: datetime) -> list[str]:
    if item is None:
        return ["That budget is not in the cluster: nothing protects these pods."]
    name, value = item["metadata"]["name"], most_unavailable(item)
    allowed = at(item, "status", "disruptionsAllowed") or 0
    lines = [f"Budget {name} is {'closed' if value == 0 else f'open (maxUnavailable {value})'}; {_allows(allowed)}."]
    if value != 0 and not allowed:
        healthy, wanted = at(item, "status", "currentHealthy") or 0, at(item, "status", "desiredHealthy") or 0
        lines.append(f"{healthy} of its pods are healthy and {wanted} must be.")
    if not flexible:
        lines.append("It is a fixed workload's: the controller never opens it, by day or by night.")
        until = instant_of(annotations_of(item).get(MAINTENANCE_UNTIL))
        if value != 0:
            lines.append(
                f"An operator's maintenance holds it open for {lasting(until - now)} more."
                if until is not None and until > now
                else "No maintenance is under way: the closer closes it before the next opening."
            )
    elif row is not None:
        lines.append(f"The controller wants it {'closed' if row.get('wanted') == 0 else 'open'}: {_because(row)}.")
    return lines


def _because(row: Document) -> str:
    note = row.get("note")
    return f"{reason_text(row.get('reason'))}{f' ({note})' if note else ''}"


def _allows(allowed: int) -> str:
    return "no pod of it may be evicted now" if not allowed else f"{allowed} of its pods may be evicted now"
