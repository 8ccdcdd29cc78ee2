"""The scaler: its config document, its rights, and its pods.

The pods may restart at any time. Only the holder of the Lease acts, so two pods do no harm. The pod template contains
no checksum of the config: a restart would close open budgets, and restart every stabilization window.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pulumi

from components.context import StackContext
from components.controller.admission import Admission, AdmissionArgs
from components.controller.closer import NAME as CLOSER
from components.controller.closer import Closer, CloserArgs
from components.controller.process import OWN_NAME, ControlledProcess, ControllerProcess
from components.controller.rights import budget_rules, system_rules, worker_rules
from components.granting import grant
from components.pods.redis_access import PASSWORD_ENV, PASSWORD_KEY, PUBLIC, SECRET, RedisAuthority, from_secret
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings.sections.workers import REGION_ENV
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.labels import CONTROLLER, NAMESPACE
from ebbtide.vocabulary.workloads import WorkloadsConfig

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import EnvVarArgsDict

NAME = CONTROLLER


@dataclass(frozen=True, kw_only=True)
class ControllerArgs:
    stack: StackContext
    config: ControllerConfig
    nodes: WorkloadsConfig | None = None  # as in `CloserArgs`
    replicas: int = 1
    redis_authority: RedisAuthority = PUBLIC
    redis_secret: str = SECRET  # contains the password of the config's user
    broker_secrets: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names of the Secrets with the passwords of the brokers' users, by broker."""


class Controller(ControlledProcess):
    document: pulumi.Output[str]  # the config that the scaler reads

    def __init__(self, name: str, args: ControllerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        config, stack = args.config, args.stack
        document = _document(args)
        process = ControllerProcess(
            name=NAME,
            namespace=stack.namespace,
            container="controller",
            module="controllers",
            file="config.json",
            document=document,
            cpu=100,
            replicas=args.replicas,
            environment=[
                from_secret(config.redis.password_env or PASSWORD_ENV, PASSWORD_KEY, args.redis_secret),
                *(from_secret(b.password_env, PASSWORD_KEY, args.broker_secrets[b.name]) for b in config.brokers),
                *_region_of_queues(config),
                *OWN_NAME,
            ],
            redis_authority=args.redis_authority,
            trusts_bundle=True,
        )
        super().__init__("ebbtide:components:Controller", name, process, stack, opts)
        self.document = document
        child = pulumi.ResourceOptions(parent=self)
        minimums = {f"{b.namespace}/{b.pdb}": b.open_minimum for b in config.budgets if b.open_minimum is not None}
        limits = AdmissionArgs(namespace=stack.namespace, controller=NAME, closer=CLOSER, minimums=minimums)
        admission = Admission(f"{name}-admission", limits, child)
        self._run([*self._own_objects(lease=True), *self._rights(args), admission])
        Closer(f"{name}-closer", CloserArgs(stack=stack, config=config, nodes=args.nodes), child)
        self.register_outputs({})

    def _rights(self, args: ControllerArgs) -> list[pulumi.Resource]:
        config, stack = args.config, args.stack
        budgets: defaultdict[str, list[str]] = defaultdict(list)
        for budget in config.budgets:
            budgets[budget.namespace].append(budget.pdb)
        system = system_rules(lease=NAME, budgets=budgets.pop(NAMESPACE, ()))
        pools: defaultdict[str, list[str]] = defaultdict(list)
        for pool in config.pools:
            pools[pool.namespace].append(pool.deployment)
        workers = worker_rules(pools=pools.pop(WORKER_NAMESPACE, ()), budgets=budgets.pop(WORKER_NAMESPACE, ()))
        home = stack.namespace
        rights: list[pulumi.Resource] = [
            *grant(f"{self._name}-system", NAME, home, system, parent=self),
            *grant(f"{self._name}-workers", NAME, stack.worker_namespace, workers, home=home, parent=self),
        ]
        for space in sorted({*budgets, *pools}):
            names = budgets[space]
            rules = worker_rules(pools=pools[space], budgets=names) if pools[space] else budget_rules(budgets=names)
            rights += grant(f"{self._name}-{space}", NAME, space, rules, home=home, parent=self)
        return rights


def _region_of_queues(config: ControllerConfig) -> "list[EnvVarArgsDict]":
    """Return the variable with the region of SQS, if pools have queues there.

    The config has the region, too. The variable replaces the pods when the stack gets its first pool on SQS, since EKS
    injects credentials only when it creates a pod.
    """
    regions = {sqs.name: sqs.region for sqs in config.sqs}
    used = [regions[pool.broker] for pool in config.pools if pool.broker in regions]
    return [{"name": REGION_ENV, "value": used[0]}] if used else []


def _document(args: ControllerArgs) -> pulumi.Output[str]:
    config = args.config
    if args.stack.cache_host is None:
        return pulumi.Output.from_input(dump(config))
    host = pulumi.Output.from_input(args.stack.cache_host)
    return host.apply(lambda address: dump(replace(config, redis=replace(config.redis, host=address))))
