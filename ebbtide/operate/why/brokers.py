"""Explain the reading of a pool whose queues are in a message broker. Pure."""

from controllers.adapters.broker_rules import RABBITMQ, SQS, Timings
from controllers.adapters.trust import DISTRUST
from ebbtide.operate.objects import Document, at
from ebbtide.operate.wording import counts_of, reading_state
from ebbtide.text.durations import whole_minutes
from ebbtide.vocabulary.controller_config import ControllerConfig, PoolPolicy


def broker_lines(config: ControllerConfig, policy: PoolPolicy, row: Document | None) -> list[str]:
    """Return sentences; none for a pool in Redis. `row` is the pool's part of the controller's report."""
    if policy.broker is None:
        return []
    rabbit = next((broker for broker in config.brokers if broker.name == policy.broker), None)
    counted = f"Broker {policy.broker} counts waiting messages and those that workers hold."
    lines = [f"{counted} Only workers' reports in Redis show which pods are idle."]
    if row is None:
        return lines
    reading = at(row, "reading")
    counts = counts_of(reading)
    if counts.get("namesIdle") is False:
        until = "falls only to zero, after lasting zeros and with safeStop" if rabbit else "only grows"
        lines.append(f"No worker has reported (EBBTIDE_REDIS_URL and Ebbtide's hooks), so the pool {until}.")
    elif counts:
        lines.append(
            f"Its pods that are proven idle: {row.get('idle') or 'none'}. {_proof(RABBITMQ if rabbit else SQS)}"
        )
    state = reading_state(reading)
    if state == "unknown" and rabbit is not None:
        lines.append(f"If the broker refuses its user, correct it: {rabbit.reader_commands}")
    elif state == "untrusted":
        lines.append(
            "The pool may grow, and shrinks when the reason is gone: after a restart, or a lost connection or queue, "
            f"when all known hosts report idle, or after {whole_minutes(DISTRUST)}."
        )
    return lines


def _proof(timings: Timings) -> str:
    zeros = f"; no pod does before the counts have been zero for {timings.empty_for:.0f} s" if timings.empty_for else ""
    proof = f"A pod counts as idle when its workers have reported so for {timings.idle_for:.0f} s{zeros}."
    return f"{proof} One without a report (EBBTIDE_REDIS_URL, hooks) counts as busy."
