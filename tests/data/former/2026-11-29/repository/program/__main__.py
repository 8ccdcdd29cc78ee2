"""The Pulumi program of every stack in stacks/: Ebbtide's, and what our team adds."""

import pulumi
from pulumi_kubernetes.core.v1 import ResourceQuota

from ebbtide.program import CronJob, JobArgs, Stack, StackContext, run


class Additions(pulumi.ComponentResource):
    """Resources of our own, each beside one of the stack file."""

    def __init__(self, stack: Stack) -> None:
        after = pulumi.ResourceOptions(provider=stack.provider, depends_on=[stack.controller])
        super().__init__("acme:platform:Additions", "additions", None, after)
        context: StackContext = stack.context
        here = pulumi.ResourceOptions(parent=self)
        self.quota = ResourceQuota(
            "gpu-quota",
            metadata={"name": "gpus", "namespace": context.worker_namespace},
            spec={"hard": {"requests.nvidia.com/gpu": "8"}},
            opts=here,
        )
        settings = stack.settings
        for name, job in settings.cron_jobs.items():
            weekly = job.model_copy(update={"schedule": "0 3 * * 0"})
            CronJob(f"{name}-weekly", JobArgs(stack=context, name=f"{name}-weekly", settings=weekly), here)
        self.register_outputs({})


stack = run()
additions = Additions(stack)
pulumi.export("gpuQuota", additions.quota.metadata.name)
