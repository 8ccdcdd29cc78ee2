"""The nodes that the pods of a stack may use, and the numbers of these pods."""

import pytest

from ebbtide.settings import load_stack
from ebbtide.settings.capacity.placed import placed_pods, resident_pods
from ebbtide.settings.file.document import OURS
from tests.golden.stacks import FILES


@pytest.mark.parametrize(
    ("path", "kind", "group", "numbers"),
    [
        ("workloads.api", "flexible", "", (3, 3)),
        ("workloads.store", "fixed", "", (1, 1)),
        ("workloads.seer", "gpu", "", (1, 1)),
        ("services.embedder.variants.small", "flexible", "", (12, 12)),
        ("services.embedder.variants.cheap", "spot", "", (8, 8)),
        ("workers.train", "gpu", "gpu", (0, 6)),
        ("jobs.migrate", "flexible", "flexible", (0, 1)),
        ("ray.flow.head", "fixed", "", (1, 1)),
        ("ray.flow.groups.cpu", "flexible", "flexible", (0, 8)),
    ],
)
def test_a_pod_has_its_nodes_and_its_numbers(path: str, kind: str, group: str, numbers: tuple[int, int]) -> None:
    stack = load_stack(str(FILES / "stacks" / "full-eks.yaml"))

    (pod,) = (pod for pod in placed_pods(stack) if pod.path == path)

    assert (pod.kind, pod.group, (pod.least, pod.most)) == (kind, group, numbers)
    assert pod.node_set == (group or kind)
    assert pod.groups(stack.node_groups) in ((group,), [kind])


def test_a_service_begins_with_its_minimum_and_its_nodes_have_room_for_its_maximum() -> None:
    stack = load_stack(str(FILES / "stacks" / "full-eks.yaml"))

    (pod,) = (pod for pod in resident_pods(stack) if pod.path == "services.embedder.variants.small")

    assert (pod.initial, pod.least, pod.most) == (2, 12, 12)


def test_no_pod_that_waits_for_work_is_resident() -> None:
    stack = load_stack(str(FILES / "stacks" / "full-eks.yaml"))

    sections = {str(pod.at[0]).removeprefix(OURS) for pod in resident_pods(stack)}
    assert sections >= {"workloads", "services"}
    assert sections.isdisjoint({"workers", "jobs", "cronJobs", "ray"})
