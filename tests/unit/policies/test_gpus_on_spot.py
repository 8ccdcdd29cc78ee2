"""The rules about a pool with GPUs on spot nodes."""

from datetime import date
from pathlib import Path

import pytest

from ebbtide.policies.judging import judge
from tests.builders.policies import edited
from tests.builders.recorded import record
from tests.builders.settings import loaded, shortest

GROUPS = """
ebbtide:nodeGroups:
  gpu-spot: {{ kind: spot, instanceTypes: [g6e.2xlarge, g5.2xlarge, g5.4xlarge], max: 12, provisioner: {} }}
"""
TRAIN = 'gpu: 1, nodeGroup: gpu-spot, checkpoints: { store: "s3://saves/jobs", required: true }'
DAY = date(2026, 11, 30)


@pytest.mark.parametrize("provisioner", ["cluster-autoscaler", "karpenter"])
def test_it_keeps_every_rule_and_a_pod_beyond_its_largest_node_breaks_one(provisioner: str, tmp_path: Path) -> None:
    stack = loaded(shortest(train=TRAIN, more=GROUPS.format(provisioner)), tmp_path)
    resources = record(stack)
    larger = edited("Deployment ebbtide-workers/train", "spec.template.spec.containers.0.resources.requests.cpu", "16")

    assert judge(stack, resources, DAY) == ()
    assert "EB013" in {result.code for result in judge(stack, larger(resources), DAY)}
