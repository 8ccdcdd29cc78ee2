"""Ebbtide's stack, with a limit on the GPUs that the workers of all pools may request together."""

import pulumi
from pulumi_kubernetes.core.v1 import ResourceQuota

from ebbtide.program import run

stack = run()
quota = ResourceQuota(
    "gpu-quota",
    metadata={"name": "gpus", "namespace": stack.context.worker_namespace},
    spec={"hard": {"requests.nvidia.com/gpu": "8"}},
    # The controller is the stack's last component: the quota comes after all of them, and a destroy deletes it first.
    opts=pulumi.ResourceOptions(provider=stack.provider, depends_on=[stack.controller]),
)
pulumi.export("gpuQuota", quota.metadata.name)
