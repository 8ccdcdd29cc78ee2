"""Checks of pools in a message broker."""

from collections.abc import Iterator
from typing import cast

from ebbtide.settings.checks.commands import OPTIONS
from ebbtide.settings.checks.parsed import CheckRule, ParsedSections
from ebbtide.settings.file.keys import ADOPTED, BROKERS, WORKERS
from ebbtide.settings.file.problems import Finding, Location, did_you_mean
from ebbtide.settings.sections.workers import PoolSettings
from ebbtide.settings.worker_command import read_command
from ebbtide.text.durations import format_duration


def _pools(parsed: ParsedSections) -> Iterator[tuple[Location, PoolSettings]]:
    for name, pool in parsed.stack.workers.items():
        yield (WORKERS, name), pool
    for name, rule in parsed.stack.adopted.items():
        if rule.pool is not None:
            yield (ADOPTED, name, "pool"), rule.pool


def _pools_name_a_broker(parsed: ParsedSections) -> Iterator[Finding]:
    brokers = parsed.names(BROKERS)
    for at, pool in _pools(parsed):
        broker = pool.source.broker
        if broker is not None and parsed.lacks(BROKERS, broker):
            yield Finding(
                code="source.unknown-broker",
                at=(*at, "source", "broker"),
                wanted="the name of a broker of this file",
                found=repr(broker),
                example=brokers[0] if brokers else f"{BROKERS}: {{ {broker}: {{ kind: rabbitmq, … }} }}",
                hint=did_you_mean(broker, brokers),
            )


def _brokers_wait_for_the_longest_job(parsed: ParsedSections) -> Iterator[Finding]:
    for at, pool in _pools(parsed):
        broker = parsed.stack.brokers.get(pool.source.broker or "")
        if broker is not None and not broker.covers(pool.longest_job):
            yield Finding(
                code="broker.timeout-too-short",
                at=(*at, "longestJob"),
                wanted=f"less than consumerTimeout of {BROKERS}.{pool.source.broker}, which is "
                f"{format_duration(broker.consumer_timeout)}",
                found=format_duration(pool.longest_job),
                hint="RabbitMQ gives a task that runs longer to another worker: it runs twice, and both workers end",
            )


def _no_solo_pool(parsed: ParsedSections) -> Iterator[Finding]:
    for name, pool in parsed.stack.workers.items():
        command = read_command((*pool.command, *pool.args), OPTIONS) if pool.source.broker is not None else None
        if command is not None and command.options.get("--pool") == "solo":
            yield Finding(
                code="broker.solo-pool",
                at=cast("Location", (WORKERS, name, "command" if pool.command else "args")),
                wanted="a command without --pool solo",
                found="--pool solo",
                example="--pool prefork",
                hint="it sends no heartbeats while a task runs: RabbitMQ gives the task to another worker after about "
                "3 minutes",
            )


RULES = (
    CheckRule((WORKERS, ADOPTED), _pools_name_a_broker),
    CheckRule((WORKERS, ADOPTED, BROKERS), _brokers_wait_for_the_longest_job),
    CheckRule((WORKERS,), _no_solo_pool),
)
