"""`python -m tests.fidelity.karpenter FILE [DRAWS]`: the modelled Karpenter beside recordings of the real one.

Three runs of each scenario were recorded. A run *holds* in a draw of the model if the numbers of nodes by NodePool and
type are the same at every plateau, each begins in time, Karpenter gave the same commands in time, and the workloads
end up together on nodes of the same types.
"""

import json
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from ebbtide.lab.simulator.cluster import ClusterModel, Node, Pod, StopReason
from ebbtide.lab.simulator.timeline import Timeline
from ebbtide.text.durations import HOUR_S
from tests.fidelity.karpenter_reading import (
    DELETION_COST,
    DO_NOT_DISRUPT,
    annotated,
    budgets_of,
    left_out,
    node_pools,
    workload_of,
)
from tests.fidelity.scenario import Plateau, close_in_time, different_nodes

KarpenterScenario = Mapping[str, Any]
KarpenterRecording = Mapping[str, Any]
Command = tuple[float, str, tuple[str, ...], tuple[str, ...]]  # when, reason, types removed, types added

SAMPLE_S = 0.25
STOP_S = 1.0
"""Pods have no process; a KWOK stage of 1 s ends them, so that Karpenter sees them stop."""
CREATED_S = 0.3
"""From a change to the first pods."""
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
    timeline, names = Timeline(), random.Random(f"{seed} names of pods")
    daemons = daemon_sets(scenario)
    pools = node_pools(scenario)
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
            cluster.deploy(workload_of(found), 0)
            _plan(timeline, cluster, {"at_s": 0.0, "scale": {found["name"]: found["replicas"]}}, names)
    for change in scenario["timeline"]:
        _plan(timeline, cluster, change, names)
    rows: list[Plateau] = []
    usd = {kind.shape.name: kind.usd for pool in pools for kind in pool.types}
    end_s, dollars = float(scenario["end_s"]), 0.0
    for step in range(int(end_s / SAMPLE_S) + 1):
        timeline.run_until(step * SAMPLE_S)
        dollars += sum(usd[node.group] for node in _registered(cluster, timeline.now)) * SAMPLE_S / HOUR_S
        counts = _counts(cluster, timeline.now)
        if not rows or rows[-1][1] != counts:
            rows.append((timeline.now, counts))
    karpenter = cluster.karpenter
    assert karpenter is not None
    return KarpenterRun(
        tuple(rows),
        _sorted(
            [
                [
                    _type(node.group),
                    *(pod.workload for pod in node.pods.values() if not pod.stopping),
                    *daemons,
                ]
                for node in _registered(cluster, timeline.now)
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
        dollars,
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


def _registered(cluster: ClusterModel, now: float) -> list[Node]:
    """Return the nodes that have registered: a recording knows no node before."""
    return [node for node in cluster.nodes() if now >= node.registered_at]


def _counts(cluster: ClusterModel, now: float) -> dict[str, int]:
    """Nodes that have registered and are not being deleted."""
    counts: dict[str, int] = {}
    for node in _registered(cluster, now):
        if cluster.karpenter is not None and not cluster.karpenter.is_draining(node):
            counts[node.group] = counts.get(node.group, 0) + 1
    return counts


def _plan(timeline: Timeline, cluster: ClusterModel, change: Mapping[str, Any], names: random.Random) -> None:
    def apply() -> None:
        for workload, replicas in change.get("scale", {}).items():
            cluster.scale(workload, replicas)
        for workload, max_unavailable in change.get("pdb", {}).items():
            cluster.set_budget(workload, max_unavailable)
        for pool, budgets in change.get("budgets", {}).items():
            cluster.set_node_budgets(pool, budgets_of(budgets))
        for workload, count, annotations in annotated(change):
            _annotate(cluster, workload, count, annotations, names)

    timeline.at(change["at_s"] + CREATED_S, apply)


def _annotate(
    cluster: ClusterModel, workload: str, count: int, annotations: Mapping[str, str | None], names: random.Random
) -> None:
    """Annotate the first pods by name. The end of a pod's name is random."""
    staying = [pod for pod in cluster.pods(workload) if not pod.stopping]
    for pod in names.sample(staying, min(count, len(staying))):
        if DO_NOT_DISRUPT in annotations:
            cluster.set_do_not_disrupt(pod, annotations[DO_NOT_DISRUPT] == "true")
        if DELETION_COST in annotations:
            cluster.annotate(pod.name, int(annotations[DELETION_COST] or 0))


def _type(group: str) -> str:
    return group.partition("/")[2]


def _sorted(nodes: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(sorted((node[0], *sorted(node[1:])) for node in nodes))


def main(file: str, draws: str = "1000") -> None:
    """Print the rows of the table in docs/evidence/fidelity.md."""
    for scenario in json.loads(Path(file).read_text(encoding="utf-8")):
        for line in left_out(scenario):
            print(f"{file}: {scenario['name']}: {line}", file=sys.stderr)
        found = likeness(scenario, int(draws))
        holding = ", ".join(f"{count:,}" for count in found.holding)
        print(f"| {scenario['name']} | {holding} | ${found.usd:.4f} | ${found.recorded_usd:.4f} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
