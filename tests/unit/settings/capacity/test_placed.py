"""The nodes that the pods of a stack may use, and the numbers of these pods."""

import pytest

from ebbtide.settings import load_stack
from ebbtide.settings.capacity.placed import placed_pods
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
