"""`python -m tests.fidelity.karpenter FILE [DRAWS]`: the modelled Karpenter beside recordings of the real one.

Three runs of each scenario were recorded. A run *holds* in a draw of the model if the numbers of nodes by NodePool and
type are the same at every plateau, each begins in time, Karpenter gave the same commands in time, and the workloads
end up together on nodes of the same types.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from ebbtide.simulator.cluster import ClusterModel, GroupModel, Pod, StopReason, WorkloadModel
from ebbtide.simulator.cluster.karpenter import DisruptionBudget, DisruptionReason, NodePoolModel, TypeModel
from ebbtide.simulator.timeline import Timeline
from ebbtide.units.durations import HOUR_S
from tests.fidelity.scenario import Plateau, close_in_time, different_nodes, taints_of

KarpenterScenario = Mapping[str, Any]
KarpenterRecording = Mapping[str, Any]
Command = tuple[float, str, tuple[str, ...], tuple[str, ...]]  # when, reason, types removed, types added

POOL_LABEL = "karpenter.sh/nodepool"
SAMPLE_S = 0.25
START_S, STOP_S = 0.025, 1.0
"""Pods have no process; a KWOK stage of 1 s ends them, so that Karpenter sees them stop."""
CREATED_S = 0.3
"""From a change to the first pods."""
BOOT_S, BOOT_SPREAD_S = 1.3, 0.2
REGISTERED_S = 1.2
"""From a launch to a node that takes pods, without a registration delay."""
RESERVED_CPU_M, RESERVED_MIB, MAX_PODS = 100, 10, 58
FIRST_PASS_S = 6.5
"""Karpenter is started anew before each scenario, so its loop begins at about the same second..."""
ALIGNED = "minute_at_s"
"""...unless the scenario waits for a minute of the wall clock: then the seconds of the clock are known instead."""


@dataclass(frozen=True, slots=True)
class KarpenterRun:
    nodes: tuple[Plateau, ...]
    final_packing: tuple[tuple[str, ...], ...]
    commands: tuple[Command, ...]
    dollars: float
    evicted: tuple[str, ...]  # workloads


def run_scenario(scenario: KarpenterScenario, seed: int = 0) -> KarpenterRun:
    timeline = Timeline()
    daemons = [found for found in scenario["workloads"] if found.get("daemon_set")]
    pools = [_pool(found, scenario["karpenter"], daemons) for found in scenario["karpenter"]["node_pools"]]
    minute = scenario.get(ALIGNED)
    cluster = ClusterModel(
        timeline,
        [],
        None,
        seed=seed,
        listener=_Processes(),
        node_pools=pools,
        first_pass_s=None if ALIGNED in scenario else FIRST_PASS_S,
        clock_second=None if minute is None else minute % 1,
    )
    for found in scenario["workloads"]:
        if not found.get("daemon_set"):
            cluster.deploy(_workload(found), 0)
            _plan(timeline, cluster, {"at_s": 0.0, "scale": {found["name"]: found["replicas"]}})
    for change in scenario["timeline"]:
        _plan(timeline, cluster, change)
    rows: list[Plateau] = []
    end_s = float(scenario["end_s"])
    for step in range(int(end_s / SAMPLE_S) + 1):
        timeline.run_until(step * SAMPLE_S)
        counts = _counts(cluster)
        if not rows or rows[-1][1] != counts:
            rows.append((timeline.now, counts))
    karpenter = cluster.karpenter
    assert karpenter is not None
    usd = {kind.shape.name: kind.usd for pool in pools for kind in pool.types}
    return KarpenterRun(
        tuple(rows),
        _sorted(
            [
                [
                    _type(node.group),
                    *(pod.workload for pod in node.pods.values() if not pod.stopping),
                    *(daemon["name"] for daemon in daemons),
                ]
                for node in cluster.nodes()
                if not karpenter.is_draining(node)
            ]
        ),
        tuple(
            (
                command.at,
                command.reason.value,
                tuple(sorted(map(_type, command.removed))),
                (_type(command.added),) if command.added else (),
            )
            for command in karpenter.commands
        ),
        sum(usd[group] * seconds / HOUR_S for group, seconds in cluster.billed_seconds().items()),
        tuple(sorted(eviction.workload for eviction in cluster.evictions)),
    )


def differences(scenario: KarpenterScenario, recording: KarpenterRecording, run: KarpenterRun) -> list[str]:
    """What a reader of both would call different, one line each."""
    end = float(scenario["end_s"])
    lines = different_nodes(recorded_nodes(recording), run.nodes, end)
    seen = recorded_commands(recording)
    if [command[1:] for command in seen] != [command[1:] for command in run.commands]:
        lines.append(f"commands: recorded {seen}, found {run.commands}")
    else:
        lines += [
            f"{there[1]} of {', '.join(there[2])}: recorded at {there[0]:g} s, found at {here[0]:.1f} s"
            for there, here in zip(seen, run.commands, strict=True)
            if not close_in_time(there[0], here[0])
        ]
    evicted = sorted(
        found["workload"] for found in recording["evictions"] if found["workload"] not in daemon_sets(scenario)
    )
    if evicted != list(run.evicted):
        lines.append(f"evictions: recorded {evicted}, found {run.evicted}")
    packing = _sorted(recording["final_packing"])
    if packing != run.final_packing:
        lines.append(f"final packing: recorded {packing}, found {run.final_packing}")
    return lines


def daemon_sets(scenario: KarpenterScenario) -> list[str]:
    """A node has their pods from its begin; the model subtracts them from what it offers."""
    return [found["name"] for found in scenario["workloads"] if found.get("daemon_set")]


def recorded_nodes(recording: KarpenterRecording) -> list[Plateau]:
    return [
        (
            row["t_s"],
            {f"{pool}/{kind}": count for pool, types in row["nodes"].items() for kind, count in types.items()},
        )
        for row in recording["observed"]
    ]


def recorded_commands(recording: KarpenterRecording) -> list[Command]:
    return [
        (found["t_s"], found["reason"], tuple(sorted(found["removes"])), tuple(found["adds"]))
        for found in recording["commands"]
    ]


@dataclass(frozen=True, slots=True)
class Likeness:
    """Draws of one scenario beside its recordings."""

    holding: tuple[int, ...]  # for each recording, the draws in which it holds
    draws: int
    usd: float  # median of the draws
    recorded_usd: float  # median of the recordings


def likeness(scenario: KarpenterScenario, draws: int) -> Likeness:
    runs = [run_scenario(scenario, seed) for seed in range(draws)]
    recordings = scenario["runs"]
    return Likeness(
        tuple(sum(not differences(scenario, recording, run) for run in runs) for recording in recordings),
        draws,
        median(run.dollars for run in runs),
        median(recording["dollars"] for recording in recordings),
    )


class _Processes:
    def pod_running(self, pod: Pod) -> None: ...

    def pod_stopping(self, pod: Pod, why: StopReason) -> float | None:  # noqa: ARG002 - the listener's signature
        return STOP_S

    def pod_gone(self, pod: Pod, killed: bool) -> None: ...

    def nodes_changed(self) -> None: ...


def _counts(cluster: ClusterModel) -> dict[str, int]:
    """Nodes that are not being deleted."""
    counts: dict[str, int] = {}
    for node in cluster.nodes():
        if cluster.karpenter is not None and not cluster.karpenter.is_draining(node):
            counts[node.group] = counts.get(node.group, 0) + 1
    return counts


def _plan(timeline: Timeline, cluster: ClusterModel, change: Mapping[str, Any]) -> None:
    def apply() -> None:
        for workload, replicas in change.get("scale", {}).items():
            cluster.scale(workload, replicas)
        for workload, max_unavailable in change.get("pdb", {}).items():
            cluster.set_budget(workload, max_unavailable)
        for pool, budgets in change.get("budgets", {}).items():
            cluster.set_node_budgets(pool, _budgets(budgets))

    timeline.at(change["at_s"] + CREATED_S, apply)


def _pool(
    found: Mapping[str, Any], karpenter: Mapping[str, Any], daemons: Sequence[Mapping[str, Any]]
) -> NodePoolModel:
    offered = [
        kind for kind in karpenter["instance_types"] if kind["name"] in found.get("instance_types", kind["name"])
    ]
    return NodePoolModel(
        name=found["name"],
        types=tuple(_offered(kind, found, daemons) for kind in offered),
        weight=found.get("weight", 0),
        consolidate_after_s=float(found["consolidate_after"].removesuffix("s")),
        budgets=_budgets(found["budgets"]),
    )


def _offered(kind: Mapping[str, Any], pool: Mapping[str, Any], daemons: Sequence[Mapping[str, Any]]) -> TypeModel:
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
        boot_s=BOOT_S,
        boot_spread_s=BOOT_SPREAD_S,
        registered_s=REGISTERED_S,
    )
    return TypeModel(shape=shape, usd=kind["price"]["on-demand"])


def _budgets(found: Sequence[Mapping[str, Any]]) -> tuple[DisruptionBudget, ...]:
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


def _workload(found: Mapping[str, Any]) -> WorkloadModel:
    return WorkloadModel(
        name=found["name"],
        category=found["category"],
        cpu_m=found["cpu_m"],
        memory_mib=found["memory_mib"],
        gpu=found.get("gpu", 0),
        tolerations=taints_of(found.get("tolerations", ())),
        pdb_max_unavailable=found.get("pdb_max_unavailable"),
        startup_s=START_S,
    )


def _type(group: str) -> str:
    return group.partition("/")[2]


def _sorted(nodes: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(sorted((node[0], *sorted(node[1:])) for node in nodes))


def main(file: str, draws: str = "1000") -> None:
    """Print the rows of the table in docs/evidence/fidelity.md."""
    for scenario in json.loads(Path(file).read_text(encoding="utf-8")):
        found = likeness(scenario, int(draws))
        holding = ", ".join(f"{count:,}" for count in found.holding)
        print(f"| {scenario['name']} | {holding} | ${found.usd:.4f} | ${found.recorded_usd:.4f} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
