"""An eviction cannot shorten the grace period of a stopped worker.

A worker that was told to stop may still run a job for as long as its grace lasts. The Eviction API looks at no budget
for such a pod, and where the eviction gives a shorter grace the API server takes it: `kubectl drain
--grace-period=60` would end a job of a week within a minute. So an eviction may not give a worker less than its own
grace. One that gives none changes nothing about a pod that is stopping already. The cluster autoscaler gives the pod's
own, since its longest one is set above every worker's.

An Eviction says nothing about its pod but the name, so the pool is read from it: a Deployment's pods are named after
it, and two generated parts without a hyphen follow; of a group of Ray's they are `worker` and one such part. Deleting a
pod is not limited: kubelets do it, and an operator who must. The expressions are CEL; where one cannot be evaluated the
eviction is refused.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

from components.admission_policy import enforce, on

if TYPE_CHECKING:
    from pulumi_kubernetes.admissionregistration.v1 import ValidationArgsDict

NAME = "ebbtide-evictions"
_OF_DEPLOYMENTS, _OF_RAY = "^({})-[a-z0-9]+-[a-z0-9]+$", "^({})-worker-[a-z0-9]+$"
_GRACE = "object.deleteOptions.gracePeriodSeconds"


@dataclass(frozen=True, kw_only=True)
class EvictionsArgs:
    namespace: pulumi.Input[str]  # of the workers
    graces: Mapping[str, int]  # seconds, by Deployment, or by group of a Ray cluster
    ray: str = ""  # the cluster, where they are Ray's


class Evictions(pulumi.ComponentResource):
    def __init__(self, name: str, args: EvictionsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Evictions", name, None, opts)
        enforce(
            (f"{name}-policy", f"{name}-binding"),
            f"{NAME}-of-ray-{args.ray}" if args.ray else NAME,
            on("", "pods/eviction", ["CREATE"], args.namespace),
            validations(args.graces, _OF_RAY if args.ray else _OF_DEPLOYMENTS),
            conditions=[{"name": "gives-a-grace", "expression": f"has(object.deleteOptions) && has({_GRACE})"}],
            parent=self,
        )
        self.register_outputs({})


def validations(graces: Mapping[str, int], pods: str = _OF_DEPLOYMENTS) -> "list[ValidationArgsDict]":
    """One for each grace that differs."""
    pools: dict[int, list[str]] = defaultdict(list)
    for pool, seconds in graces.items():
        pools[seconds].append(pool)
    return [
        {
            "expression": f"{_GRACE} >= {seconds} || !request.name.matches('{pods.format('|'.join(sorted(names)))}')",
            "message": f"this worker may need {seconds} s to end its job: evict it with that grace, or with none given",
            "reason": "Forbidden",
        }
        for seconds, names in sorted(pools.items())
    ]
