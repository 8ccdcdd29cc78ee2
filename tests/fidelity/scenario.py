"""Replays recorded scenarios of the real cluster autoscaler on the modelled cluster, and says where the two differ.

A scenario is plain JSON: `flags`, `node_groups`, `workloads`, a `timeline` of changes, `end_s`, and what was seen
(`observed`, `final_packing`, `unremovable_reasons`). Chance has a part in the real thing (the order in which waiting
pods are packed, nodes that score alike), so a recording is one draw; a seed makes one draw of the model.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ebbtide.kube.taints import Taint, Toleration, taint_of
from ebbtide.lab.simulator.cluster import AutoscalerFlags, ClusterModel, GroupModel, Pod, StopReason, WorkloadModel
from ebbtide.lab.simulator.cluster.model import LABELS_IGNORED_ANYWHERE
from ebbtide.lab.simulator.timeline import Timeline

AutoscalerScenario = Mapping[str, Any]
Counts = Mapping[str, int]
Plateau = tuple[float, Counts]  # when so many nodes by group began

GROUP_LABEL = "eks.amazonaws.com/nodegroup"
PLATEAU_S = 4.0
"""Shorter than this, a number of nodes is a step on the way: nodes are created and seen one after the other."""
START_S, STOP_S = 0.025, 0.1
"""Pods of the recordings have no process: they are ready, and gone, in a moment."""
BOOT_S, BOOT_SPREAD_S, BETWEEN_NODES_S = 0.23, 0.1, 0.04
"""The recordings' nodes boot in a moment, but are made one after the other and take pods in no order."""
KUBE_PROXY_CPU_M = 100
"""Requested by the pod that the KWOK provider puts on the made-up node of a group."""
TOLERANCE_S, TOLERANCE_SHARE = 2.0, 0.1


@dataclass(frozen=True, slots=True)
class ScenarioRun:
    nodes: tuple[Plateau, ...]  # at every change: seconds, and nodes by group; groups without any left out
    final_packing: tuple[tuple[str, ...], ...]  # the workloads on each node that has any, sorted
    unremovable_reasons: tuple[str, ...]


def run_scenario(scenario: AutoscalerScenario, seed: int = 0) -> ScenarioRun:
    """Play the scenario's changes on a modelled cluster that starts without a node."""
    timeline = Timeline()
    recorder = _Recorder(timeline)
    cluster = ClusterModel(
        timeline,
        [_group(found) for found in scenario["node_groups"]],
        _flags(scenario["flags"]),
        seed=seed,
        listener=recorder,
    )
    recorder.cluster = cluster
    recorder.nodes_changed()
    for found in scenario["workloads"]:
        cluster.deploy(_workload(found), found["replicas"])
    for change in scenario["timeline"]:
        _plan(timeline, cluster, change)
    timeline.run_until(scenario["end_s"])
    return ScenarioRun(tuple(recorder.rows), _packing(cluster), cluster.unremovable_reasons())


def differences(scenario: AutoscalerScenario, run: ScenarioRun) -> list[str]:
    """What a reader of both would call different, one line each; empty when the run holds, or nothing was recorded."""
    end = float(scenario["end_s"])
    lines: list[str] = []
    if "observed" in scenario:
        lines += different_nodes([(row["t_s"], row["nodes"]) for row in scenario["observed"]], run.nodes, end)
    if "final_packing" in scenario and (packing := _sorted_packing(scenario["final_packing"])) != run.final_packing:
        lines.append(f"final packing: recorded {packing}, found {run.final_packing}")
    if "unremovable_reasons" in scenario:
        reasons = tuple(sorted(scenario["unremovable_reasons"]))
        if reasons != run.unremovable_reasons:
            lines.append(f"reasons: recorded {reasons}, found {run.unremovable_reasons}")
    return lines


def seconds_apart(scenario: AutoscalerScenario, run: ScenarioRun) -> float:
    """The greatest distance in time between the two, of a run with the recorded numbers of nodes."""
    end = float(scenario["end_s"])
    seen = plateaus([(row["t_s"], row["nodes"]) for row in scenario.get("observed", ())], end)
    return max(
        (abs(now - then) for (then, _), (now, _) in zip(seen, plateaus(run.nodes, end), strict=False)), default=0
    )


def recorded(scenario: AutoscalerScenario) -> bool:
    """Whether the scenario says what was seen."""
    return any(key in scenario for key in ("observed", "final_packing", "unremovable_reasons"))


def close_in_time(then: float, now: float) -> bool:
    return abs(now - then) <= TOLERANCE_S + TOLERANCE_SHARE * then


def different_nodes(recorded_rows: Sequence[Plateau], rows: Sequence[Plateau], end: float) -> list[str]:
    seen, found = plateaus(recorded_rows, end), plateaus(rows, end)
    if [counts for _, counts in seen] != [counts for _, counts in found]:
        return [f"plateaus: recorded {_listed(seen)}, found {_listed(found)}"]
    return [
        f"nodes {dict(counts)}: recorded at {then:g} s, found at {now:g} s"
        for (then, counts), (now, _) in zip(seen, found, strict=True)
        if not close_in_time(then, now)
    ]


class _Recorder:
    """Writes a row whenever the number of nodes changes; changes of one instant are one row."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.cluster: ClusterModel | None = None
        self.rows: list[tuple[float, Counts]] = []

    def pod_running(self, pod: Pod) -> None: ...

    def pod_stopping(self, pod: Pod, why: StopReason) -> float | None:  # noqa: ARG002 - the listener's signature
        return STOP_S

    def pod_gone(self, pod: Pod, killed: bool) -> None: ...

    def nodes_changed(self) -> None:
        if self.cluster is None:
            return
        counts = {name: count for name, count in self.cluster.node_counts().items() if count}
        if self.rows and self.rows[-1][0] == self._timeline.now:
            self.rows.pop()
        if not self.rows or self.rows[-1][1] != counts:
            self.rows.append((self._timeline.now, counts))


def _plan(timeline: Timeline, cluster: ClusterModel, change: Mapping[str, Any]) -> None:
    def apply() -> None:
        for workload, replicas in change.get("scale", {}).items():
            cluster.scale(workload, replicas)
        for workload, max_unavailable in change.get("pdb", {}).items():
            cluster.set_budget(workload, max_unavailable)

    timeline.at(change["at_s"], apply)


def _flags(found: Mapping[str, Any]) -> AutoscalerFlags:
    given: dict[str, Any] = {key: value for key, value in found.items() if key != "balancing_ignore_labels"}
    ignored = LABELS_IGNORED_ANYWHERE.union(found.get("balancing_ignore_labels", ()))
    return AutoscalerFlags(**given, balancing_ignored_labels=ignored)


def _group(found: Mapping[str, Any]) -> GroupModel:
    given: dict[str, Any] = {
        **found,
        "labels": {**found["labels"], GROUP_LABEL: found["name"]},
        "taints": taints_of(found["taints"]),
        "template_less_cpu_m": KUBE_PROXY_CPU_M,
        "boot_s": BOOT_S,
        "boot_spread_s": BOOT_SPREAD_S,
        "boot_step_s": BETWEEN_NODES_S,
    }
    return GroupModel(**given)


def _workload(found: Mapping[str, Any]) -> WorkloadModel:
    given: dict[str, Any] = {key: value for key, value in found.items() if key not in ("group", "replicas")}
    given |= {
        "node_selector": {GROUP_LABEL: found["group"]} if found["group"] else {},
        "anti_affinity_with": tuple(found["anti_affinity_with"]),
        "tolerations": tolerations_of(found["tolerations"]),
        "startup_s": START_S,
    }
    return WorkloadModel(**given)


def taints_of(found: Iterable[Mapping[str, str]]) -> tuple[Taint, ...]:
    return tuple(map(taint_of, found))


def tolerations_of(found: Iterable[Mapping[str, str]]) -> tuple[Toleration, ...]:
    """A scenario leaves out the operator: without a value it is Exists."""
    return tuple(Toleration(it.get("key", ""), it.get("value") or None, it.get("effect", "")) for it in found)


def _packing(cluster: ClusterModel) -> tuple[tuple[str, ...], ...]:
    staying = ([pod.workload for pod in node.pods.values() if not pod.stopping] for node in cluster.nodes())
    return _sorted_packing(staying)


def _sorted_packing(nodes: Iterable[Iterable[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(sorted(tuple(sorted(node)) for node in nodes if node))


def plateaus(rows: Sequence[Plateau], end: float) -> list[Plateau]:
    """When each number of nodes began that then held for a while; the last one always counts."""
    changes = _changes(rows)
    ends = [*(t for t, _ in changes[1:]), end][: len(changes)]
    return _changes(
        row for row, until in zip(changes, ends, strict=True) if until - row[0] >= PLATEAU_S or until == end
    )


def _changes(rows: Iterable[Plateau]) -> list[Plateau]:
    kept: list[Plateau] = []
    for row in rows:
        if not kept or kept[-1][1] != row[1]:
            kept.append(row)
    return kept


def _listed(rows: Sequence[Plateau]) -> str:
    return ", ".join(f"{dict(counts)} at {t:g} s" for t, counts in rows)
