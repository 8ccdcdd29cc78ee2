"""The workload controller: a second process of the controller's image, for Ray clusters, floors and NodePools.

Instead of `up`, it writes the spec of Ray clusters and sends them to sleep (docs/adr/0027). It also writes the floors
of services (docs/adr/0030), the disruption budgets of NodePools (docs/adr/0037) and the replicas of workloads that
sleep (docs/adr/0038). It has a separate account, Lease and rights: neither process may write the other's fields. It
queries each Ray cluster's head for running work, with the cluster's token.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

from components.admission_policy import enforce, on
from components.context import StackContext
from components.controller.admission import ANNOTATIONS, BINDINGS_STAY, annotating_only, user_of, validations
from components.controller.floor_rules import AUTOSCALERS, AutoscalerResource, bounds, floor_rules
from components.controller.node_pool_rules import IS_CLOSED, budget_rules
from components.controller.process import OWN_NAME, ControlledProcess, ControllerProcess
from components.controller.rights import events, named, node_pool_rules, rule
from components.granting import grant, grant_everywhere
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings.capacity.process_documents import HUB_TOKENS
from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.labels import ASLEEP_FOR, CLOSER, EVENTS_OF_CLUSTER, NAMESPACE, WORKLOADS
from ebbtide.vocabulary.workloads import FloorPolicy, SleepPolicy, WorkloadsConfig

if TYPE_CHECKING:
    from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict

NAME = WORKLOADS
_TOKENS = "/etc/ebbtide-ray"

_READ = ["get", "list", "watch"]
RAY_RULES = {**BINDINGS_STAY, **annotating_only(ASLEEP_FOR, ASLEEP_FOR)}


def token_file(cluster: str, key: str) -> str:
    """Return the path of a Ray cluster's token."""
    return f"{_TOKENS}/{cluster}/{key}"


@dataclass(frozen=True, kw_only=True)
class WorkloadControllerArgs:
    stack: StackContext
    config: WorkloadsConfig
    ray_namespaces: Mapping[str, pulumi.Input[str]]  # by cluster
    tokens: Mapping[str, str]  # Secrets with Ray's tokens, by cluster
    hub_tokens: Mapping[str, str]  # Secrets with hubs' tokens, by workload


class WorkloadController(ControlledProcess):
    def __init__(self, name: str, args: WorkloadControllerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        process = ControllerProcess(
            name=NAME,
            namespace=args.stack.namespace,
            container="workloads",
            module="controllers.workloads",
            file="workloads.json",
            document=dump(args.config),
            environment=OWN_NAME,
            secrets={
                **{f"{_TOKENS}/{cluster}": (f"token-{cluster}", secret) for cluster, secret in args.tokens.items()},
                **{f"{HUB_TOKENS}/{name}": (f"hub-{name}", secret) for name, secret in args.hub_tokens.items()},
            },
        )
        super().__init__("ebbtide:components:WorkloadController", name, process, args.stack, opts)
        if args.config.ray:
            self._limit_to_specs(name, args)
        for kind in AUTOSCALERS:
            if policies := kind.among(args.config.floors):
                self._limit_to_floors(name, args, kind, policies)
        if args.config.node_pools:
            self._limit_to_disruption_budgets(name, args)
        self._run([*self._own_objects(lease=True), *self._rights(args)])
        self.register_outputs({})

    def _rights(self, args: WorkloadControllerArgs) -> list[pulumi.Resource]:
        home = args.stack.namespace
        config = args.config
        pools = sorted({pool for cluster in config.ray for pool in cluster.pools})
        reads = {budget.namespace: [rule("policy", "poddisruptionbudgets", _READ)] for budget in config.budgets}
        for space, scaled in _scale_rules(config.all_sleepers).items():
            reads[space] = [*reads.get(space, []), *scaled, *([] if space == NAMESPACE else [events()])]
        here, in_workers = reads.pop(NAMESPACE, []), reads.pop(WORKER_NAMESPACE, [])
        in_workers += [rule("apps", "deployments", _READ)] if pools else []
        rules: dict[str, tuple[pulumi.Input[str], list[PolicyRuleArgsDict]]] = {
            "system": (home, [*_system_rules(), *_autoscaler_rules(config.floors), *here]),
            **({"workers": (args.stack.worker_namespace, in_workers)} if in_workers else {}),
            **{f"budgets-{space}": (space, read) for space, read in sorted(reads.items())},
            **({"events": (EVENTS_OF_CLUSTER, [events()])} if config.node_pools else {}),
            **{f"ray-{cluster}": (space, _ray_rules(cluster)) for cluster, space in args.ray_namespaces.items()},
        }
        granted: list[pulumi.Resource] = [
            resource
            for part, (space, its_rules) in rules.items()
            for resource in grant(f"{self._name}-{part}", NAME, space, its_rules, home=home, parent=self)
        ]
        if names := [pool.name for pool in config.node_pools]:
            everywhere = node_pool_rules(node_pools=names)
            granted += grant_everywhere(f"{self._name}-nodepools", NAME, everywhere, home=home, parent=self)
        return granted

    def _limit_to_specs(self, name: str, args: WorkloadControllerArgs) -> None:
        """Limit writes to a RayCluster's spec and one annotation: RBAC cannot limit writes to fields."""
        enforce(
            (f"{name}-rayclusters", f"{name}-rayclusters-binding"),
            "ebbtide-rayclusters",
            on("ray.io", "rayclusters", ["UPDATE"]),
            validations("Ebbtide's workload controller", RAY_RULES),
            conditions=[{"name": "written-by-ebbtide", "expression": _ours(args)}],
            variables=ANNOTATIONS,
            parent=self,
        )

    def _limit_to_disruption_budgets(self, name: str, args: WorkloadControllerArgs) -> None:
        """Limit writes to a NodePool's disruption budgets, and these to the values that follow from the stack file."""
        controller, closer = (user_of(args.stack.namespace, account) for account in (NAME, CLOSER))
        ours = pulumi.Output.concat("request.userInfo.username in [", controller, ", ", closer, "]")
        closes = pulumi.Output.concat("request.userInfo.username != ", closer, f" || {IS_CLOSED}")
        enforce(
            (f"{name}-nodepools", f"{name}-nodepools-binding"),
            "ebbtide-nodepools",
            on("karpenter.sh", "nodepools", ["UPDATE"]),
            [
                *validations("Ebbtide's own accounts", budget_rules(args.config.node_pools)),
                {"expression": closes, "message": "Ebbtide's closer: disruption budgets must be closed"},
            ],
            conditions=[{"name": "written-by-ebbtide", "expression": ours}],
            parent=self,
        )

    def _limit_to_floors(
        self, name: str, args: WorkloadControllerArgs, kind: AutoscalerResource, policies: Sequence[FloorPolicy]
    ) -> None:
        """Limit writes to an autoscaler's minimum, within the stack file's range."""
        enforce(
            (f"{name}-{kind.resource}", f"{name}-{kind.resource}-binding"),
            f"ebbtide-{kind.resource}",
            on(kind.group, kind.resource, ["UPDATE"], version=kind.version),
            validations("Ebbtide's workload controller", floor_rules(kind)),
            conditions=[{"name": "written-by-ebbtide", "expression": _ours(args)}],
            variables=[{"name": "bounds", "expression": bounds(policies)}],
            parent=self,
        )


def _ours(args: WorkloadControllerArgs) -> pulumi.Output[str]:
    return pulumi.Output.concat("request.userInfo.username == ", user_of(args.stack.namespace, NAME))


def _system_rules() -> "list[PolicyRuleArgsDict]":
    return [*named("coordination.k8s.io", "leases", ["get", "update"], [NAME]), events()]


def _scale_rules(policies: Sequence[SleepPolicy]) -> "dict[str, list[PolicyRuleArgsDict]]":
    """Return rights by namespace: to watch, and to write replicas by name, only through `scale`.

    A right to write Deployments would also allow a change of the image.
    """
    names: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for policy in policies:
        names[policy.namespace, f"{policy.kind.lower()}s"].append(policy.object)
    rules: defaultdict[str, list[PolicyRuleArgsDict]] = defaultdict(list)
    for (space, kind), scaled in names.items():
        rules[space] += [rule("apps", kind, _READ), *named("apps", f"{kind}/scale", ["get", "patch"], scaled)]
    for space in sorted({policy.namespace for policy in policies if policy.idle_after is not None}):
        rules[space].append(rule("", "pods", ["list"]))
    for space in sorted({policy.namespace for policy in policies if policy.adopted}):
        rules[space].append(rule("autoscaling", "horizontalpodautoscalers", _READ))
    return rules


def _autoscaler_rules(floors: Sequence[FloorPolicy]) -> "list[PolicyRuleArgsDict]":
    """Return rights to write by name, and to watch the namespace."""
    rules: list[PolicyRuleArgsDict] = []
    for kind in AUTOSCALERS:
        if names := [policy.name for policy in kind.among(floors)]:
            rules += [rule(kind.group, kind.resource, _READ), *named(kind.group, kind.resource, ["patch"], names)]
    return rules


def _ray_rules(cluster: str) -> "list[PolicyRuleArgsDict]":
    """Return rights to write by name, and to read the namespace, which contains only this cluster."""
    return [rule("ray.io", "rayclusters", _READ), *named("ray.io", "rayclusters", ["patch"], [cluster]), events()]
