"""An admission policy: an eviction cannot shorten the grace period of a stopped worker.

A stopped worker may run its job until its grace period ends. The Eviction API ignores budgets for such a pod, and the
API server accepts an eviction with a shorter grace period: `kubectl drain --grace-period=60` would end a job of a week
within a minute. So an eviction may not shorten a worker's grace period. An eviction that sets none does not affect a
terminating pod. The cluster autoscaler uses the pod's grace period, since the autoscaler's maximum is above every
worker's.

An Eviction contains only the name of its pod, so the policy derives the pool from this name: a pod of a Deployment has
the Deployment's name and two generated parts without a hyphen; a pod of a Ray group has the group's name, `worker` and
one generated part. Deletions of pods are not limited: kubelets and operators need them. The expressions are CEL; if one
cannot be evaluated, the eviction is refused.
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
_GENERATED = "[bcdfghjklmnpqrstvwxz2456789]"  # alphabet of generated names; no StatefulSet's pod ends in it by chance
_OF_DEPLOYMENTS = f"^({{}})-{_GENERATED}+-{_GENERATED}{{{{5}}}}$"
_OF_RAY = "^({})-worker-[a-z0-9]+$"
_GRACE = "object.deleteOptions.gracePeriodSeconds"


@dataclass(frozen=True, kw_only=True)
class EvictionsArgs:
    namespace: pulumi.Input[str]  # of the workers
    graces: Mapping[str, int]  # seconds, by Deployment, or by group of a Ray cluster
    ray: str = ""  # the Ray cluster, for its workers
    team: str = ""  # the namespace, for adopted workers


class Evictions(pulumi.ComponentResource):
    def __init__(self, name: str, args: EvictionsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Evictions", name, None, opts)
        suffix = f"-of-ray-{args.ray}" if args.ray else f"-of-team-{args.team}" if args.team else ""
        enforce(
            (f"{name}-policy", f"{name}-binding"),
            f"{NAME}{suffix}",
            on("", "pods/eviction", ["CREATE"], args.namespace),
            validations(args.graces, _OF_RAY if args.ray else _OF_DEPLOYMENTS),
            conditions=[{"name": "gives-a-grace", "expression": f"has(object.deleteOptions) && has({_GRACE})"}],
            parent=self,
        )
        self.register_outputs({})


def validations(graces: Mapping[str, int], pods: str = _OF_DEPLOYMENTS) -> "list[ValidationArgsDict]":
    """Return one validation for each distinct grace period."""
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
