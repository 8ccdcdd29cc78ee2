"""Checks of pools in a message broker."""

import re
from collections.abc import Iterator
from typing import cast

from ebbtide.settings.checks.commands import OPTIONS, stated
from ebbtide.settings.checks.parsed import CheckRule, ParsedSections
from ebbtide.settings.file.document import REGION
from ebbtide.settings.file.keys import ADOPTED, BROKERS, CLUSTER, WORKERS
from ebbtide.settings.file.problems import Caution, Finding, Location, did_you_mean
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.brokers import BrokerSettings
from ebbtide.settings.sections.cluster import ClusterKind
from ebbtide.settings.sections.pods.aws import SQS_QUEUE
from ebbtide.settings.sections.workers import BROKER_ENV, PoolSettings, SourceKind, WorkerSettings, sqs_variables
from ebbtide.settings.worker_command import WorkerProgram, read_command
from ebbtide.text.durations import format_duration


def _pools_name_a_broker(parsed: ParsedSections) -> Iterator[Finding]:
    brokers = parsed.names(BROKERS)
    for at, _, pool in parsed.pools:
        broker = pool.source.broker
        if broker is None and pool.source.kind is SourceKind.CONSUMER:
            yield Finding(
                code="source.no-broker",
                at=(*at, "source", "broker"),
                wanted="the broker of a consumer's queues",
                found="none",
                example=f"broker: {brokers[0] if brokers else 'jobs'}",
                hint="for a list in Redis write kind: list",
            )
        if broker is not None and parsed.lacks(BROKERS, broker):
            yield Finding(
                code="source.unknown-broker",
                at=(*at, "source", "broker"),
                wanted="the name of a broker of this file",
                found=repr(broker),
                example=brokers[0] if brokers else f"{BROKERS}: {{ {broker}: {{ kind: rabbitmq, … }} }}",
                hint=did_you_mean(broker, brokers),
            )


def _in_brokers(parsed: ParsedSections) -> Iterator[tuple[Location, PoolSettings, BrokerSettings]]:
    for at, _, pool in parsed.pools:
        broker = parsed.stack.brokers.get(pool.source.broker or "")
        if broker is not None:
            yield at, pool, broker


def _brokers_wait_for_the_longest_job(parsed: ParsedSections) -> Iterator[Finding]:
    for at, pool, broker in _in_brokers(parsed):
        if pool.longest_job < broker.longest_wait:
            continue
        limit, at, found = format_duration(broker.longest_wait), (*at, "longestJob"), format_duration(pool.longest_job)
        if broker.on_sqs:
            yield Finding(
                code="broker.longer-than-visibility",
                at=at,
                wanted=f"less than {limit} with a broker of kind sqs",
                found=found,
                example="11h",
                hint=f"SQS gives a message to another worker {limit} after its receipt, and nothing extends that: the "
                "job runs twice. Split the job, or use RabbitMQ or Redis",
            )
        else:
            yield Finding(
                code="broker.timeout-too-short",
                at=at,
                wanted=f"less than consumerTimeout of {BROKERS}.{pool.source.broker}, which is {limit}",
                found=found,
                hint="RabbitMQ gives a task that runs longer to another worker: it runs twice, and both workers end",
            )


def _queues_exist_in_sqs(parsed: ParsedSections) -> Iterator[Finding]:
    for at, pool, broker in _in_brokers(parsed):
        for index, queue in enumerate(pool.source.queues if broker.on_sqs else ()):
            place = (*at, "source", "queues", index)
            if re.fullmatch(SQS_QUEUE, queue) is None:
                yield Finding(
                    code="broker.sqs-queue",
                    at=place,
                    wanted="the name of the queue in SQS: at most 80 letters, digits, - and _",
                    found=repr(queue),
                    example="etl",
                    hint="a FIFO queue with .fifo"
                    + (
                        "; for other characters Celery's transport writes - or _"
                        * (pool.source.kind is SourceKind.CELERY)
                    ),
                )
            elif queue.endswith(".fifo") and pool.source.kind is SourceKind.CELERY and pool.max > 1:
                yield Finding(
                    code="broker.one-message-group",
                    at=place,
                    wanted="a standard queue, or max: 1",
                    found=f"{queue!r} with max: {pool.max}",
                    example=queue.removesuffix(".fifo"),
                    hint="Celery's transport sends all tasks in one message group, of which SQS gives out one at a "
                    "time, so further workers would be idle. Producers of a kind: consumer pool choose the groups",
                )


def _one_sqs(parsed: ParsedSections) -> Iterator[Finding]:
    first, *others = [name for name, broker in parsed.stack.brokers.items() if broker.on_sqs] or [""]
    for name in others:
        yield Finding(
            code="broker.sqs-twice",
            at=(BROKERS, name),
            wanted="one broker of kind sqs: the stack has one account and region",
            found=f"{name!r} beside {first!r}",
            example=f"source: {{ broker: {first}, … }}",
        )


def _sqs_has_a_region(parsed: ParsedSections) -> Iterator[Finding]:
    for name, broker in parsed.stack.brokers.items():
        if broker.on_sqs and not parsed.stack.stated_region:
            yield Finding(
                code="broker.sqs-region",
                at=(BROKERS, name),
                wanted=f"{REGION} in this file: the region of the queues",
                found="none",
                example=f"{REGION}: eu-central-1",
            )


def _variables_are_ours(parsed: ParsedSections) -> Iterator[Finding]:
    for name, pool in parsed.stack.workers.items():
        broker = parsed.stack.brokers.get(pool.source.broker or "")
        if broker is None:
            continue
        ours, hint = {*sqs_variables(pool.source.kind, "")} if broker.on_sqs else set[str](), ""
        if broker.workers is not None:
            hint = f"or, to set the address yourself, take workers out of {BROKERS}.{pool.source.broker}"
            ours.add(BROKER_ENV[pool.source.kind])
        for variable in sorted(ours & pool.env.keys()):
            yield Finding(
                code="env.ours",
                at=(WORKERS, name, "env", variable),
                wanted=f"another name: Ebbtide sets this variable for {BROKERS}.{pool.source.broker}",
                found="this name",
                example="JOB_QUEUE_URL",
                hint=hint,
            )


_POOL, _BROKER = (
    next(row for row in OPTIONS if name in row.names and row.programs is WorkerProgram.CELERY)
    for name in ("--pool", "--broker")
)


def _no_solo_pool(parsed: ParsedSections) -> Iterator[Finding]:
    for name, pool in parsed.stack.workers.items():
        broker = parsed.stack.brokers.get(pool.source.broker or "")
        if pool.source.broker is None or (broker is not None and broker.on_sqs):
            continue  # SQS: the hooks extend the visibility from a thread
        command = read_command((*pool.command, *pool.args), OPTIONS)
        where, value = stated(_POOL, command, pool) or ("", None)
        if pool.source.kind is SourceKind.CELERY and value == "solo":
            at = ("env", where) if where in pool.env else ("command" if pool.command else "args",)
            yield Finding(
                code="broker.solo-pool",
                at=cast("Location", (WORKERS, name, *at)),
                wanted="another pool of Celery than solo",
                found=f"{where} solo",
                example="prefork",
                hint="it sends no heartbeats while a task runs: RabbitMQ gives the task to another worker after about "
                "3 minutes",
            )


def broker_cautions(settings: StackSettings) -> Iterator[Caution]:
    """Yield what a broker and its workers need besides the stack file."""
    pools: dict[str, PoolSettings] = {f"workers.{name}": pool for name, pool in settings.workers.items()}
    pools |= {f"adopted.{name}.pool": rule.pool for name, rule in settings.adopted.items() if rule.pool is not None}
    for name in settings.brokers.keys() - {pool.source.broker for pool in pools.values()}:
        yield Caution("broker.unused", f"brokers.{name}", "no pool names it in source.broker, so nothing reads it")
    for path, pool in pools.items():
        broker = settings.broker_of(pool)
        if broker is None:
            continue
        if broker.on_sqs:
            on_eks = settings.cluster.kind is ClusterKind.EKS
            if isinstance(pool, WorkerSettings) and not (on_eks or pool.service_account or _has_credentials(pool)):
                text = (
                    "nothing gives its pods rights on its queues in SQS: name a serviceAccount that has a role, or add "
                    "credentials to env"
                )
                yield Caution("broker.no-rights", f"{path}.serviceAccount", text)
            continue
        if broker.workers is None and isinstance(pool, WorkerSettings) and not _has_address(pool):
            variable = BROKER_ENV[pool.source.kind]
            text = (
                f"{variable} is not in env, so its workers may not find the broker: add it, from a Secret, or write "
                f"workers: {{ user: …, secret: … }} in brokers.{pool.source.broker}"
            )
            yield Caution("broker.no-address", f"{path}.env", text)
        if pool.source.kind is SourceKind.CONSUMER:
            text = "a consumer does not create its queue, and an absent queue counts as empty: create it as durable"
            yield Caution("broker.queue-must-exist", f"{path}.source.queues", text)


def _has_credentials(pool: WorkerSettings) -> bool:
    """True if the pod's variables have credentials of AWS, or may have them."""
    return bool(pool.env_from) or any(name.startswith("AWS_") for name in pool.env)


def _has_address(pool: WorkerSettings) -> bool:
    """True if the pod's variables or Celery's options have the broker's address, or may have it."""
    variable = BROKER_ENV[pool.source.kind]
    command = read_command((*pool.command, *pool.args), OPTIONS)
    in_command = command is not None and (variable in command.variables or stated(_BROKER, command, pool) is not None)
    return variable in pool.env or bool(pool.env_from) or in_command


RULES = (
    CheckRule((WORKERS, ADOPTED), _pools_name_a_broker),
    CheckRule((WORKERS, ADOPTED, BROKERS), _brokers_wait_for_the_longest_job),
    CheckRule((WORKERS, ADOPTED, BROKERS), _queues_exist_in_sqs),
    CheckRule((WORKERS, BROKERS), _variables_are_ours),
    CheckRule((BROKERS,), _one_sqs),
    CheckRule((BROKERS, CLUSTER, REGION), _sqs_has_a_region, on=ClusterKind.EXISTING),
    CheckRule((WORKERS, BROKERS), _no_solo_pool),
)
