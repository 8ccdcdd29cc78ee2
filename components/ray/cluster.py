"""One Ray cluster: rights, token, budgets, and the RayCluster, whose spec the workload controller writes.

**Pulumi owns no field of the spec.** The whole of it stands in an annotation, and the workload controller writes it as
far as that interrupts nothing: see docs/adr/0027. So no `up`, at whatever moment, stops a pod of Ray or resets a number
of its autoscaler.

**A deletion waits for the pods.** Pulumi deletes in the foreground: the RayCluster is gone after the last pod that it
owns, and the operator and its rights go after the RayCluster. `skipAwait` holds for the deletion of some of Kubernetes'
own kinds alone (pulumi/pulumi-kubernetes, `DeletedCondition` in `provider/pkg/metadata/overrides.go`).

Not so where the head's state outlives it: the operator's finalizer keeps the RayCluster until a Job has removed that
state, and a deletion in the foreground would delete this Job while a worker still ends its task. After five minutes the
operator gives up. So there the RayCluster goes before its workers, and the namespace waits for them.

**The token is made here, once**, and is the same in three namespaces: of Ray, of the queue workers that drive it, and
of the workload controller that asks the head what runs. Pulumi keeps it encrypted in the state. To have another one,
delete the Secret of the Ray namespace from the state and the cluster, while the cluster sleeps.
"""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.core.v1 import Secret

from components.cluster.namespaces import deletion_timeout
from components.granting import grant
from components.pods.account import own_account
from components.pods.budget import budget_without_scale, open_budget_without_scale
from components.pods.container import file_maps
from components.pods.workload import SKIP_AWAIT
from components.ray.spec import Surroundings, group_identity, head_identity, wanted_spec
from ebbtide.provisioning_labels import CUSTOMER, SECRET_KEYS
from ebbtide.settings.process_documents import sleep_of
from ebbtide.settings.sections.ray import TOKEN_KEY, RaySettings, token_secret
from ebbtide.vocabulary.labels import SLEEP, SPEC
from ebbtide.vocabulary.workloads import dump_sleep

if TYPE_CHECKING:
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict
    from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict

PROPAGATION = "pulumi.com/deletionPropagationPolicy"
API = "ray.io/v1"
KIND = "RayCluster"

AUTOSCALER_RULES: "list[PolicyRuleArgsDict]" = [
    {"api_groups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
    {"api_groups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["get", "patch"]},
]
"""Of the head's account. Source: KubeRay, `BuildRole`; without `pods/resize`, which a fixed size has no use for."""


@dataclass(frozen=True, kw_only=True)
class RayClusterArgs:
    name: str
    namespace: pulumi.Input[str]
    settings: RaySettings
    around: Surroundings
    token: str  # of this run: the first one is kept; empty in a rendering
    readers: Mapping[str, pulumi.Input[str]]  # further namespaces that the token is in


class RayCluster(pulumi.ComponentResource):
    def __init__(self, name: str, args: RayClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:RayCluster", name, None, opts)
        self._name, self._args = name, args
        self._child = pulumi.ResourceOptions(parent=self)
        before = [*self._token(), *self._pods(), *self._rights()]
        spec = wanted_spec(args.name, args.settings, args.around)
        CustomResource(
            f"{name}-cluster",
            api_version=API,
            kind=KIND,
            metadata={
                "name": args.name,
                "namespace": args.namespace,
                "labels": {CUSTOMER: args.around.stack.customer},
                "annotations": {
                    SPEC: pulumi.Output.json_dumps(spec, sort_keys=True),
                    SLEEP: dump_sleep(sleep_of(args.settings.sleep)),
                    SKIP_AWAIT: "true",  # its pods come with work
                    **({} if args.around.state is None else {PROPAGATION: "background"}),
                },
            },
            opts=pulumi.ResourceOptions(
                parent=self, depends_on=before, custom_timeouts=deletion_timeout(args.settings)
            ),
        )
        self.register_outputs({})

    def _token(self) -> list[pulumi.Resource]:
        """Each run of the program brings another one, which is ignored once there is one."""
        made = b64encode(self._args.token.encode()).decode()
        name = token_secret(self._args.name)
        metadata: ObjectMetaArgsDict = {"name": name, "annotations": {SECRET_KEYS: TOKEN_KEY}}
        first = Secret(
            f"{self._name}-token",
            metadata={**metadata, "namespace": self._args.namespace},
            type="Opaque",
            data={TOKEN_KEY: pulumi.Output.secret(made)},
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=["data"]),
        )
        copies = [
            Secret(
                f"{self._name}-token-{reader}",
                metadata={**metadata, "namespace": namespace},
                type="Opaque",
                data=pulumi.Output.secret(first.data),
                opts=self._child,
            )
            for reader, namespace in self._args.readers.items()
        ]
        return [first, *copies]

    def _pods(self) -> list[pulumi.Resource]:
        """What the pods need before they start, and their budgets."""
        args, customer, here = self._args, self._args.around.stack.customer, self._args.namespace
        head = head_identity(args.name, customer)
        made: list[pulumi.Resource] = [
            budget_without_scale(f"{head.name}.ray-budget", head, here, parent=self),
            *file_maps(args.settings.head, head, here, parent=self),
            *own_account(f"{head.name}.ray-account", head, args.settings.head, here, parent=self, calls_api=True),
        ]
        for key, group in args.settings.groups.items():
            identity = group_identity(args.name, key, customer)
            budget = open_budget_without_scale if group.spot else budget_without_scale
            made += [
                budget(f"{identity.name}.ray-budget", identity, here, parent=self),
                *file_maps(group, identity, here, parent=self),
                *own_account(f"{identity.name}.ray-account", identity, group, here, parent=self),
            ]
        return made

    def _rights(self) -> list[pulumi.Resource]:
        """Named as the operator looks for them; it would make them, had it the right to."""
        name = self._args.name
        account = self._args.settings.head.service_account or head_identity(name, self._args.around.stack.customer).name
        return [*grant(self._name, name, self._args.namespace, AUTOSCALER_RULES, account=account, parent=self)]
