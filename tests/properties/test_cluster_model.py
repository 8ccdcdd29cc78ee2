"""Laws of the modelled cluster, whatever is asked of it and in whatever order."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.lab.simulator.cluster import ClusterModel, Node, WorkloadModel
from tests.builders.cluster import Played, group, quick, workload
from tests.counts import examples

FLAGS = quick(max_drain_parallelism=2)
GROUPS = [
    group("fixed", min=1, max=2, initial=1, boot_s=20),
    group("flexible", min=1, max=4, initial=2, boot_s=20, max_pods=6),
    group("gpu", max=2, gpu=1, boot_s=40),
]
SHAPES: list[WorkloadModel] = [
    workload("store", category="fixed", cpu_m=900, pdb_max_unavailable=0, anti_affinity_with=("worker",)),
    workload("api", cpu_m=700, pdb_max_unavailable=1, startup_s=3),
    workload("web", cpu_m=300, pdb_max_unavailable=1, one_per_node=True),
    workload("mail", category="worker", cpu_m=1500, grace_s=90),
    workload("train", category="worker", cpu_m=1500, gpu=1, grace_s=90, pdb_max_unavailable=0),
]
NAMES = [shape.name for shape in SHAPES]


@dataclass(frozen=True)
class Step:
    wait_s: float
    workload: str
    replicas: int
    open_budget: bool


STEPS = st.lists(
    st.builds(Step, st.integers(0, 60).map(float), st.sampled_from(NAMES), st.integers(0, 6), st.booleans()),
    max_size=14,
)


def play(steps: list[Step], seed: int) -> list[ClusterModel]:
    """One cluster, yielded after every step; the caller looks at it in between."""
    played = Played(GROUPS, FLAGS, seed=seed)
    for shape in SHAPES:
        played.cluster.deploy(shape, 1)
    clusters: list[ClusterModel] = []
    for step in steps:
        played.cluster.scale(step.workload, step.replicas)
        if step.workload in ("api", "web"):
            played.cluster.set_budget(step.workload, int(step.open_budget))
        clusters.append(played.at(played.timeline.now + step.wait_s))
        check(played.cluster)
    return clusters


def check(cluster: ClusterModel) -> None:
    for shape in GROUPS:
        assert shape.min <= cluster.node_counts()[shape.name] <= shape.max
    for node in cluster.nodes():
        check_node(node)


def check_node(node: Node) -> None:
    pods = [pod.spec for pod in node.pods.values()]
    assert sum(pod.cpu_m for pod in pods) <= node.shape.cpu_m
    assert sum(pod.memory_mib for pod in pods) <= node.shape.memory_mib
    assert sum(pod.gpu for pod in pods) <= node.shape.gpu
    assert len(pods) <= node.shape.max_pods
    categories = {pod.category for pod in pods}
    assert not any(categories & set(pod.anti_affinity_with) for pod in pods)
    assert sum(pod.one_per_node for pod in pods) <= 1


@settings(max_examples=examples(60), deadline=None)
@given(steps=STEPS, seed=st.integers(0, 1000))
def test_sizes_hold_and_nodes_are_never_overfull_nor_shared_by_pods_that_refuse_each_other(
    steps: list[Step], seed: int
) -> None:
    play(steps, seed)


@settings(max_examples=examples(40), deadline=None)
@given(steps=STEPS, seed=st.integers(0, 1000))
def test_what_has_a_budget_of_zero_is_never_evicted(steps: list[Step], seed: int) -> None:
    played = Played(GROUPS, FLAGS, seed=seed)
    for shape in SHAPES:
        played.cluster.deploy(shape, 1)
    for step in steps:
        played.cluster.scale(step.workload, step.replicas)
        played.at(played.timeline.now + step.wait_s)

    evicted = {eviction.workload for eviction in played.at(played.timeline.now + 500).evictions}
    assert not evicted & {"store", "train"}


@settings(max_examples=examples(40), deadline=None)
@given(steps=STEPS, seed=st.integers(0, 1000))
def test_when_all_pods_leave_the_groups_return_to_their_minimum(steps: list[Step], seed: int) -> None:
    leave = [Step(0, name, 0, open_budget=False) for name in NAMES]
    clusters = play([*steps, *leave, Step(900, NAMES[0], 0, open_budget=False)], seed)

    assert clusters[-1].node_counts() == {shape.name: shape.min for shape in GROUPS}


@settings(max_examples=examples(25), deadline=None)
@given(steps=STEPS, seed=st.integers(0, 1000))
def test_the_same_seed_gives_the_same_story(steps: list[Step], seed: int) -> None:
    def story() -> list[object]:
        (*_, last) = [None, *play(steps, seed)]
        return [] if last is None else [last.billed_seconds(), last.evictions, last.unremovable_reasons()]

    assert story() == story()
