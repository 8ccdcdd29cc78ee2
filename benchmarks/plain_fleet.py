"""A second model of a cluster, which shares no code with the ledger's: one step a minute, first fit, no scheduler.

Pods go to the fullest node that takes them. Pods without one get nodes of their group at the next step, and a node that
was empty for the group's time ends. While budgets are open, a node below half of its size whose pods fit elsewhere ends
too. Workers follow the jobs: as many as jobs wait or run, and fewer only after a calm time.
"""

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ebbtide.lab.simulator.cluster.model import GroupModel, WorkloadModel
from ebbtide.lab.simulator.world.pools import PooledJob
from ebbtide.lab.simulator.world.rollouts import Rollout
from ebbtide.lab.simulator.world.sleep import Asleep
from ebbtide.lab.simulator.world.world import ClusterPlan
from ebbtide.vocabulary.labels import NODE_GROUP, Category

STEP_S = 60.0
CALM_S = 300.0
UNNEEDED_S = 600.0
HALF = 0.5


@dataclass(slots=True, eq=False)
class _Node:
    name: str
    shape: GroupModel
    launched: float
    ready: float
    cpu_m: int
    memory_mib: int
    gpu: int
    pods: "list[_Pod]" = field(default_factory=list["_Pod"])
    unneeded_since: float | None = None
    end: float = math.inf

    def fits(self, pod: WorkloadModel) -> bool:
        return pod.cpu_m <= self.cpu_m and pod.memory_mib <= self.memory_mib and pod.gpu <= self.gpu


@dataclass(slots=True, eq=False)
class _Pod:
    spec: WorkloadModel
    node: _Node | None = None
    free_at: float = 0.0  # of a worker: when its job ends


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainNode:
    name: str
    shape: str
    launched: float
    ready: float
    end: float


@dataclass(slots=True, kw_only=True)
class PlainFleet:
    """`open_spans`: seconds in which budgets are open. `most`: workers by pool."""

    plan: ClusterPlan
    jobs: Sequence[PooledJob]
    most: Mapping[str, int]
    asleep: Sequence[Asleep]
    rollouts: Sequence[Rollout]
    open_spans: Sequence[tuple[float, float]]
    end_s: float
    now: float = 0.0
    nodes: list[_Node] = field(default_factory=list[_Node])
    gone: list[_Node] = field(default_factory=list[_Node])
    pods: dict[str, list[_Pod]] = field(default_factory=dict[str, list[_Pod]])
    wanted: dict[str, list[tuple[float, float]]] = field(default_factory=dict[str, list[tuple[float, float]]])
    calm: dict[str, float] = field(default_factory=dict[str, float])
    born: int = 0

    def run(self) -> tuple[PlainNode, ...]:
        for group in self.plan.groups:
            for _ in range(group.initial):
                self._launch(group, 0.0)
        specs = {spec.name: spec for spec, _ in self.plan.workloads} | dict(self.plan.workers)
        self.pods = {name: [] for name in specs}
        self.wanted = {name: [(0.0, 0.0)] for name in self.plan.workers}
        queues = {name: deque[PooledJob]() for name in self.plan.workers}
        arriving = deque(sorted(self.jobs, key=lambda job: job.submitted_at))
        rollouts = deque(self.rollouts)
        while self.now < self.end_s:
            while arriving and arriving[0].submitted_at <= self.now:
                job = arriving.popleft()
                queues[job.pool].extend([job] * job.members)
            for name, queue in queues.items():
                self._work(name, queue)
            for spec, replicas in self.plan.workloads:
                self._resize(spec, self._awake(spec.name, replicas))
            while rollouts and rollouts[0].at <= self.now:
                self._roll_out(rollouts.popleft().workload)
            self._place()
            self._remove(is_open=any(first <= self.now < last for first, last in self.open_spans))
            self.now += STEP_S
        return tuple(
            PlainNode(
                name=node.name,
                shape=node.shape.name,
                launched=node.launched,
                ready=node.ready,
                end=min(node.end, self.end_s),
            )
            for node in (*self.gone, *self.nodes)
        )

    def _work(self, name: str, queue: deque[PooledJob]) -> None:
        """Give jobs to idle workers, then set the number of workers."""
        workers = self.pods[name]
        for worker in workers:
            ready = worker.node is not None and worker.node.ready <= self.now
            if queue and ready and worker.free_at <= self.now:
                worker.free_at = self.now + queue.popleft().duration_s
        busy = sum(worker.free_at > self.now for worker in workers)
        ideal = min(self.most[name], len(queue) + busy)
        if ideal >= len(workers):
            self.calm[name] = self.now
        if ideal > len(workers):
            workers.extend(_Pod(self.plan.workers[name]) for _ in range(ideal - len(workers)))
        elif ideal < len(workers) and self.now - self.calm[name] >= CALM_S:
            idle = sorted((it for it in workers if it.free_at <= self.now), key=lambda it: it.node is not None)
            for worker in idle[: len(workers) - ideal]:
                self._drop(worker)
        if self.wanted[name][-1][1] != len(workers):
            self.wanted[name].append((self.now, float(len(workers))))

    def _awake(self, name: str, replicas: int) -> int:
        naps = (nap for nap in self.asleep if nap.workload == name and nap.begin <= self.now < nap.end)
        return next((nap.pods for nap in naps), replicas)

    def _resize(self, spec: WorkloadModel, replicas: int) -> None:
        pods = self.pods[spec.name]
        pods.extend(_Pod(spec) for _ in range(replicas - len(pods)))
        for pod in pods[replicas:]:
            self._drop(pod)

    def _roll_out(self, name: str) -> None:
        """Each new pod is placed before an old one goes; without a place the old one makes room."""
        for old in list(self.pods[name]):
            new = _Pod(old.spec)
            node = self._home(new.spec, self._ready())
            self._drop(old)
            self.pods[name].append(new)
            if node is not None:
                self._bind(new, node)

    def _ready(self) -> Iterator[_Node]:
        return (node for node in self.nodes if node.ready <= self.now)

    def _home(self, spec: WorkloadModel, nodes: Iterator[_Node] | Sequence[_Node]) -> _Node | None:
        """Return the fullest node that takes the pod; nodes of the preferred group first."""
        able = (node for node in nodes if _allowed(spec, node.shape) and node.fits(spec))
        return min(able, key=lambda it: (it.shape.labels[NODE_GROUP] != spec.prefers, it.cpu_m), default=None)

    def _place(self) -> None:
        waiting = [pod for pods in self.pods.values() for pod in pods if pod.node is None]
        for pod in sorted(waiting, key=lambda it: -it.spec.cpu_m):
            node = self._home(pod.spec, [*self._ready()]) or self._home(pod.spec, self.nodes)
            if node is None:
                shapes = [shape for shape in self.plan.shapes if _allowed(pod.spec, shape) and _holds(shape, pod.spec)]
                shapes = [shape for shape in shapes if self._count(shape) < shape.max]
                if not shapes:
                    continue
                preferred = [shape for shape in shapes if shape.labels[NODE_GROUP] == pod.spec.prefers]
                node = self._launch((preferred or shapes)[0], self.now + (preferred or shapes)[0].boot_s)
            self._bind(pod, node)

    def _count(self, shape: GroupModel) -> int:
        return sum(node.shape.name == shape.name for node in self.nodes)

    def _launch(self, shape: GroupModel, ready: float) -> _Node:
        self.born += 1
        name = f"{shape.name}-{self.born}"
        node = _Node(name, shape, self.now, ready, shape.cpu_m, shape.memory_mib, shape.gpu)
        self.nodes.append(node)
        return node

    def _bind(self, pod: _Pod, node: _Node) -> None:
        pod.node = node
        node.pods.append(pod)
        node.cpu_m -= pod.spec.cpu_m
        node.memory_mib -= pod.spec.memory_mib
        node.gpu -= pod.spec.gpu

    def _drop(self, pod: _Pod) -> None:
        self.pods[pod.spec.name].remove(pod)
        self._leave(pod)

    def _leave(self, pod: _Pod) -> None:
        if (node := pod.node) is not None:
            node.pods.remove(pod)
            node.cpu_m += pod.spec.cpu_m
            node.memory_mib += pod.spec.memory_mib
            node.gpu += pod.spec.gpu
            pod.node = None

    def _remove(self, *, is_open: bool) -> None:
        for node in list(self.nodes):
            at_least = node.shape.min >= self._count(node.shape)
            if node.ready > self.now or at_least or not (not node.pods or (is_open and self._may_drain(node))):
                node.unneeded_since = None
                continue
            since = node.unneeded_since = self.now if node.unneeded_since is None else node.unneeded_since
            unneeded_s = node.shape.scale_down_unneeded_s
            if self.now - since >= (UNNEEDED_S if unneeded_s is None else unneeded_s):
                self._drain(node)

    def _may_drain(self, node: _Node) -> bool:
        """True if the node is below half of its size and its pods, none of them a worker's, fit elsewhere."""
        used = max(1 - node.cpu_m / node.shape.cpu_m, 1 - node.memory_mib / node.shape.memory_mib)
        if used >= HALF or any(pod.spec.category != Category.FLEXIBLE for pod in node.pods):
            return False
        free = {other: (other.cpu_m, other.memory_mib) for other in self._ready() if other is not node}
        for pod in node.pods:
            able = [
                other
                for other, (cpu_m, mib) in free.items()
                if _allowed(pod.spec, other.shape) and pod.spec.cpu_m <= cpu_m and pod.spec.memory_mib <= mib
            ]
            if not able:
                return False
            home = min(able, key=lambda it: free[it][0])
            free[home] = free[home][0] - pod.spec.cpu_m, free[home][1] - pod.spec.memory_mib
        return True

    def _drain(self, node: _Node) -> None:
        others = [other for other in self._ready() if other is not node]
        for pod in list(node.pods):
            self._leave(pod)
            if (home := self._home(pod.spec, others)) is not None:
                self._bind(pod, home)
        node.end = self.now
        self.nodes.remove(node)
        self.gone.append(node)


def _allowed(spec: WorkloadModel, shape: GroupModel) -> bool:
    of_selector = all(shape.labels.get(key) == value for key, value in spec.node_selector.items())
    of_group = spec.one_of is None or shape.labels[NODE_GROUP] in spec.one_of
    return of_selector and of_group and (spec.groups is None or shape.name in spec.groups)


def _holds(shape: GroupModel, spec: WorkloadModel) -> bool:
    return spec.cpu_m <= shape.cpu_m and spec.memory_mib <= shape.memory_mib and spec.gpu <= shape.gpu
