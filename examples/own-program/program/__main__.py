"""Ebbtide's stack, with a limit on the GPUs that the workers of all pools may request together."""

import pulumi
from pulumi_kubernetes.core.v1 import ResourceQuota

from ebbtide.program import run

stack = run()
quota = ResourceQuota(
    "gpu-quota",
    metadata={"name": "gpus", "namespace": stack.context.worker_namespace},
    spec={"hard": {"requests.nvidia.com/gpu": "8"}},
    # The quota comes after workloads and pools, on which the controller depends, and a destroy deletes it before them.
    opts=pulumi.ResourceOptions(provider=stack.provider, depends_on=[stack.controller]),
)
pulumi.export("gpuQuota", quota.metadata.name)
