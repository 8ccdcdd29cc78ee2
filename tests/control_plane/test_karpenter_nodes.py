"""NodePools and EC2NodeClasses of a stack on EKS, held against the CRDs of Karpenter's release on a real API server."""

import pytest
import yaml
from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import ApiError, Json
from ebbtide.vocabulary.node_pools import API, budgets_for
from tests.control_plane.support.accepted import rendered_text
from tests.control_plane.support.applying import NEW_KIND, Applying

pytestmark = pytest.mark.control_plane

# The subnets are given: of those that a stack creates a rendering does not know the ids.
STACK = """\
config:
  aws:region: us-east-1
  ebbtide:customer: acme
  ebbtide:businessHours: { timezone: America/New_York, week: { mon-fri: "08:00-18:00" } }
  ebbtide:network:
    vpc: { id: vpc-0a1b2c3d, privateSubnets: { a: subnet-0a1b2c3d, b: subnet-4e5f6071 } }
  ebbtide:cluster: { provisioner: karpenter, zones: [a, b] }
  ebbtide:nodeGroups:
    flexible: { instanceTypes: [m7i.2xlarge, m7i.4xlarge, c7i.4xlarge], max: 20, priority: 99 }
    arm: { kind: flexible, instanceTypes: [m7g.4xlarge], max: 4 }
    gpu: { max: 8, diskSize: 200 }
    spot: { max: 8 }
  ebbtide:workers:
    train: { source: { queues: [train] }, image: "example.com/train:1", max: 4, cpu: 4, memory: 16Gi, longestJob: 12h }
"""
KINDS = ("NodePool", "EC2NodeClass")
POOLS = f"/apis/{API}/nodepools"


def of_karpenter() -> list[Json]:
    objects = rendered_text(STACK).objects
    kinds = [it for it in objects if it["kind"] == NEW_KIND and "karpenter" in it["metadata"]["name"]]
    return [*kinds, *(it for it in objects if it["kind"] in KINDS)]


def test_every_pool_and_class_is_accepted_and_stays_as_it_is(plane: ControlPlane, applying: Applying) -> None:
    objects = of_karpenter()
    assert [it["kind"] for it in objects if it["kind"] in KINDS].count("NodePool") == 4

    first = applying.apply(objects)

    assert applying.apply(objects) == first
    closed = {"spec": {"disruption": {"budgets": budgets_for(0)}}}
    for name in ("arm", "flexible", "gpu", "spot"):
        answer = plane.api.patch(f"{POOLS}/{name}", closed, "application/merge-patch+json", fieldManager="controller")
        assert answer["spec"]["disruption"]["budgets"] == budgets_for(0)
    after = applying.now()
    assert applying.apply(objects) == after


def test_the_definitions_refuse_what_a_pool_may_not_have(applying: Applying) -> None:
    """So that their acceptance means something."""
    objects = of_karpenter()
    pool = next(it for it in objects if it["kind"] == "NodePool")
    applying.apply([*(it for it in objects if it["kind"] == NEW_KIND), pool])
    broken = yaml.safe_load(yaml.safe_dump(pool))
    broken["spec"]["weight"] = 101

    with pytest.raises(ApiError, match=r"spec\.weight"):
        applying.apply([broken])
