"""Reads a recorded scenario of Karpenter into the model's values, and names the keys that the model does not play."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ebbtide.lab.simulator.cluster import GroupModel, WorkloadModel
from ebbtide.lab.simulator.cluster.karpenter import DisruptionBudget, DisruptionReason, NodePoolModel, TypeModel
from ebbtide.operate.objects import quantity
from ebbtide.operate.why.node_pins import DO_NOT_DISRUPT
from ebbtide.vocabulary.labels import GPU_RESOURCE
from tests.fidelity.scenario import taints_of, tolerations_of

Found = Mapping[str, Any]

START_S = 0.2
"""From bound to ready, as budgets count it: three pods with a budget of one were evicted within 0.5 to 1.5 s."""
POOL_LABEL = "karpenter.sh/nodepool"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
BOOT_S, BOOT_SPREAD_S = 1.3, 0.2
REGISTERED_S = 1.2
"""From a launch to a node that takes pods, without a registration delay."""
RESERVED_CPU_M, RESERVED_MIB, MAX_PODS = 100, 10, 58
_BATCH = {"batch_idle_s": 1, "batch_max_s": 10}
"""Karpenter's defaults; others are not played."""

SCENARIO = ("name", "karpenter", "workloads", "timeline", "end_s", "minute_at_s", "runs")
KARPENTER = ("instance_types", "node_pools", "registration_delay_s", *_BATCH)
TYPE = ("name", "cpu", "memory_mib", "gpu", "price")
POOL = (
    *("name", "instance_types", "requirements", "taints", "weight", "limits"),
    *("consolidation_policy", "consolidate_after", "budgets", "expire_after"),
)
LIMITS = {"nodes": ("nodes", 1), "cpu": ("cpu_m", 1000), "memory": ("memory_mib", 2**-20), GPU_RESOURCE: ("gpu", 1)}
"""Of a NodePool: the model's name of the resource, and how many of its units are one of Kubernetes'."""
BUDGET = ("nodes", "reasons", "until_s")
WORKLOAD = (
    *("name", "category", "replicas", "daemon_set", "cpu_m", "memory_mib", "gpu", "node_pool", "tolerations"),
    *("one_per_node", "anti_affinity_with", "pdb_max_unavailable", "do_not_disrupt", "deletion_cost"),
)
CHANGE = ("at_s", "scale", "pdb", "budgets", "annotate_pods")
ANNOTATIONS = (DO_NOT_DISRUPT, DELETION_COST)


def left_out(scenario: Found) -> Iterator[str]:
    """Yield a line for each key or value that the model does not play."""
    karpenter = scenario["karpenter"]
    yield from _unknown(scenario, SCENARIO, "")
    yield from _unknown(karpenter, KARPENTER, "karpenter")
    for key, default in _BATCH.items():
        if karpenter.get(key, default) != default:
            yield f"karpenter.{key}: {karpenter[key]} is not played, but {default}"
    for number, kind in enumerate(karpenter["instance_types"]):
        yield from _unknown(kind, TYPE, f"karpenter.instance_types[{number}]")
    for number, pool in enumerate(karpenter["node_pools"]):
        path = f"karpenter.node_pools[{number}]"
        yield from _unknown(pool, POOL, path)
        yield from _unknown(pool.get("limits", {}), LIMITS, f"{path}.limits")
        if (expiry := pool.get("expire_after", "Never")) != "Never":
            yield f"{path}.expire_after: {expiry} is not played, but Never"
        for at, requirement in enumerate(pool.get("requirements", ())):
            if _capacity_of(requirement) is None:
                yield f"{path}.requirements[{at}]: {requirement} is not played"
        for at, budget in enumerate(pool["budgets"]):
            yield from _unknown(budget, BUDGET, f"{path}.budgets[{at}]")
    for number, workload in enumerate(scenario["workloads"]):
        yield from _unknown(workload, WORKLOAD, f"workloads[{number}]")
    for number, change in enumerate(scenario["timeline"]):
        yield from _unknown(change, CHANGE, f"timeline[{number}]")
        for workload, _, annotations in annotated(change):
            yield from _unknown(annotations, ANNOTATIONS, f"timeline[{number}].annotate_pods.{workload}")


def _unknown(found: Found, known: Sequence[str] | Mapping[str, Any], path: str) -> Iterator[str]:
    yield from (f"{path}.{key}: not played, left out".removeprefix(".") for key in found if key not in known)


def annotated(change: Found) -> Iterator[tuple[str, int, Mapping[str, str | None]]]:
    """Yield workload, number of pods and annotations, in a mapping of their own or beside `count`; None removes one."""
    for workload, found in change.get("annotate_pods", {}).items():
        beside = {key: value for key, value in found.items() if key != "count"}
        yield workload, found["count"], found.get("annotations", beside)


def node_pools(scenario: Found) -> list[NodePoolModel]:
    karpenter = scenario["karpenter"]
    daemons = [found for found in scenario["workloads"] if found.get("daemon_set")]
    return [_pool(found, karpenter, daemons) for found in karpenter["node_pools"]]


def _pool(found: Found, karpenter: Found, daemons: Sequence[Found]) -> NodePoolModel:
    offered = [
        kind for kind in karpenter["instance_types"] if kind["name"] in found.get("instance_types", kind["name"])
    ]
    capacity = next(filter(None, map(_capacity_of, found.get("requirements", ()))), "on-demand")
    boot_s = karpenter.get("registration_delay_s", 0) + BOOT_S
    limits = {LIMITS[name]: quantity(most) for name, most in found.get("limits", {}).items() if name in LIMITS}
    return NodePoolModel(
        name=found["name"],
        types=tuple(_offered(kind, found, daemons, capacity, boot_s) for kind in offered),
        weight=found.get("weight", 0),
        limits={resource: int(float(most) * units) for (resource, units), most in limits.items()},
        consolidate_after_s=float(found["consolidate_after"].removesuffix("s")),
        only_empty=found.get("consolidation_policy") == "WhenEmpty",
        budgets=budgets_of(found["budgets"]),
        spot=capacity == "spot",
    )


def _capacity_of(requirement: Found) -> str | None:
    """The one capacity type that a requirement allows; None if it says something else."""
    if (requirement.get("key"), requirement.get("operator")) != ("karpenter.sh/capacity-type", "In"):
        return None
    values = requirement["values"]
    return values[0] if len(values) == 1 else None


def _offered(kind: Found, pool: Found, daemons: Sequence[Found], capacity: str, boot_s: float) -> TypeModel:
    shape = GroupModel(
        name=f"{pool['name']}/{kind['name']}",
        min=0,
        max=1000,
        cpu_m=kind["cpu"] * 1000 - RESERVED_CPU_M - sum(daemon["cpu_m"] for daemon in daemons),
        memory_mib=kind["memory_mib"] - RESERVED_MIB - sum(daemon["memory_mib"] for daemon in daemons),
        gpu=kind.get("gpu", 0),
        max_pods=MAX_PODS - len(daemons),
        labels={POOL_LABEL: pool["name"]},
        taints=taints_of(pool.get("taints", ())),
        boot_s=boot_s,
        boot_spread_s=BOOT_SPREAD_S,
        registered_s=REGISTERED_S,
    )
    machine = {"cpu_m": kind["cpu"] * 1000, "memory_mib": kind["memory_mib"], "gpu": kind.get("gpu", 0)}
    return TypeModel(shape=shape, usd=kind["price"][capacity], capacity=machine)


def budgets_of(found: Sequence[Found]) -> tuple[DisruptionBudget, ...]:
    budgets: list[DisruptionBudget] = []
    for budget in found:
        number = budget["nodes"]
        reasons = frozenset(DisruptionReason).intersection(budget.get("reasons", DisruptionReason))
        until_s = budget.get("until_s", float("inf"))
        if number.endswith("%"):
            budgets.append(DisruptionBudget(percent=float(number[:-1]), reasons=reasons, until_s=until_s))
        else:
            budgets.append(DisruptionBudget(nodes=int(number), reasons=reasons, until_s=until_s))
    return tuple(budgets)


def workload_of(found: Found) -> WorkloadModel:
    return WorkloadModel(
        name=found["name"],
        category=found["category"],
        cpu_m=found["cpu_m"],
        memory_mib=found["memory_mib"],
        gpu=found.get("gpu", 0),
        node_selector={POOL_LABEL: found["node_pool"]} if found.get("node_pool") else {},
        one_per_node=found.get("one_per_node", False),
        anti_affinity_with=tuple(found.get("anti_affinity_with", ())),
        tolerations=tolerations_of(found.get("tolerations", ())),
        pdb_max_unavailable=found.get("pdb_max_unavailable"),
        do_not_disrupt=found.get("do_not_disrupt", False),
        deletion_cost=found.get("deletion_cost", 0),
        startup_s=START_S,
    )
