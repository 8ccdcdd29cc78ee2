"""Ebbtide's stack, a limit on the GPUs of all workers, and MLflow from its chart, whose pods the stack file adopts."""

from pathlib import Path

import pulumi
import yaml
from pulumi_kubernetes.core.v1 import ResourceQuota
from pulumi_kubernetes.helm.v4 import Chart

from ebbtide.program import run

stack = run()
# Both come after workloads, pools and adoption, on which the controller depends, and a destroy deletes them before it.
after = pulumi.ResourceOptions(provider=stack.provider, depends_on=[stack.controller])
quota = ResourceQuota(
    "gpu-quota",
    metadata={"name": "gpus", "namespace": stack.context.worker_namespace},
    spec={"hard": {"requests.nvidia.com/gpu": "8"}},
    opts=after,
)
mlflow = Chart(
    "mlflow",
    chart="mlflow",
    version="1.11.5",
    repository_opts={"repo": "https://community-charts.github.io/helm-charts"},
    namespace="mlflow",
    values=yaml.safe_load(Path(__file__).with_name("mlflow.yaml").read_text(encoding="utf-8")),
    opts=after,
)
pulumi.export("gpuQuota", quota.metadata.name)
