"""How many nodes a NodePool with limits has at one time, on the real Karpenter (docs/evidence/karpenter.md).

Karpenter 1.14.1 compares `limits.nodes` with the nodes that have launched, and does not count those that it plans in
the same batch (`subtractMax` in scheduler.go; kubernetes-sigs/karpenter#2915). It does count their CPU.
"""

from collections.abc import Iterator, Mapping

import pytest
from control_plane.plane.binaries import OF_KARPENTER, how_to_get, missing
from control_plane.plane.driver import ControlPlane
from control_plane.plane.karpenter import NODE_CLAIMS, NODE_CLASS, POOL_LABEL, Karpenter, NodePool

from ebbtide.vocabulary.node_pools import CLOSED
from tests.builders.control_plane import eventually
from tests.control_plane.support.karpenter import FULL, PODS, SLOW, STAYS, TYPES, labels, pod

pytestmark = pytest.mark.control_plane

MOST, BATCH = 3, 4
CPUS = 4  # of a node
NAMESPACE = "/api/v1/namespaces/default"


@pytest.fixture(scope="module")
def karpenter() -> Iterator[Karpenter]:
    """Nodes boot for three seconds, so that pods arrive while launches are under way."""
    if lacking := [*missing(), *missing(OF_KARPENTER)]:
        pytest.skip(how_to_get(lacking))
    with ControlPlane() as plane, Karpenter(plane, TYPES) as karpenter:
        plane.api.patch(NODE_CLASS, {"spec": {"nodeRegistrationDelay": "3s"}})
        yield karpenter


def begin(karpenter: Karpenter, group: str, limits: Mapping[str, str]) -> None:
    pool = NodePool(name=group, types=TYPES[:1], labels=labels(group), budgets=CLOSED, limits=limits)
    karpenter.create(pool)


def claims(karpenter: Karpenter, group: str) -> set[str]:
    """No node of these tests is ever empty, and so none ends."""
    items = karpenter.plane.api.get(NODE_CLAIMS, labelSelector=f"{POOL_LABEL}={group}")["items"]
    return {it["metadata"]["name"] for it in items}


def burst(karpenter: Karpenter, group: str, batch: str) -> None:
    """Pods that fill a node each; return when each is bound, or Karpenter has decided about it."""
    plane, names = karpenter.plane, {f"{group}-{batch}-{index}" for index in range(BATCH)}
    for name in names:
        plane.api.create(PODS, pod(name, group, FULL, tolerations=[STAYS]))
    eventually(lambda: not names & waiting(plane) - decided(plane), what=f"a decision about {batch}", patience=SLOW)


def decided(plane: ControlPlane) -> set[str]:
    events = plane.api.get(f"{NAMESPACE}/events", fieldSelector="involvedObject.kind=Pod,source=karpenter")["items"]
    return {it["involvedObject"]["name"] for it in events}


def waiting(plane: ControlPlane) -> set[str]:
    return {it["metadata"]["name"] for it in plane.api.get(PODS)["items"] if "nodeName" not in it["spec"]}


def test_one_batch_may_exceed_the_limit_of_nodes_and_later_pods_get_no_more(karpenter: Karpenter) -> None:
    begin(karpenter, "nodes", {"nodes": f"{MOST}"})

    burst(karpenter, "nodes", "first")
    first = claims(karpenter, "nodes")
    for batch in ("second", "third"):
        burst(karpenter, "nodes", batch)

    assert MOST <= len(first) <= BATCH
    assert claims(karpenter, "nodes") == first


def test_a_limit_of_cpu_holds_within_a_batch(karpenter: Karpenter) -> None:
    begin(karpenter, "cpu", {"nodes": f"{MOST}", "cpu": f"{MOST * CPUS}"})

    for batch in ("first", "second", "third"):
        burst(karpenter, "cpu", batch)

    assert len(claims(karpenter, "cpu")) == MOST
