"""Jobs, which run once to completion, and cron jobs, which run by a schedule.

Decisions:

- **In the workers' namespace.** Job pods are workers: no drain moves them, and their nodes are removed after they end.
  The controller matches pods to pools by their ReplicaSet, so a Job's pods count for no pool. In the workloads'
  namespace every private address may call a pod, which a job does not need.
- **No pool label.** The label refers to a pool's settings, and a job has no pool.
- **`minAvailable`, not `maxUnavailable`.** A Job has no scale subresource: see `components.pods.budget`.
- **`restartPolicy: Never`.** A retry is another pod, so that the failed pod's logs stay.
- **A changed Job is stopped and runs again**, even if it has ended. A Job's template cannot be changed, so the provider
  replaces the Job, and deletes the old one first since both have the same name. A changed cron job takes effect at its
  next run.
- **No digest of Secrets.** With one, a new password would rerun a job that ended long ago. A retry, or the next run of
  a cron job, reads the values of its time.
- **`up` does not wait for the job's end**, which may be hours away.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import pulumi
from pulumi_kubernetes.batch.v1 import CronJob as KubernetesCronJob
from pulumi_kubernetes.batch.v1 import Job as KubernetesJob

from components.context import StackContext
from components.pods.account import account_fields, own_account
from components.pods.budget import budget_without_scale
from components.pods.container import file_maps, main_container, pod_template, pod_volumes
from components.pods.fragment import merged
from components.pods.rules import (
    NodeRequirement,
    PodIdentity,
    affinity,
    nodes_of_group,
    pod_security,
    priority,
    required,
    spread,
    tolerations,
)
from components.pods.secrets import NO_SECRETS
from components.pods.workload import SKIP_AWAIT
from ebbtide.settings.sections.jobs import CronJobSettings, JobSettings
from ebbtide.vocabulary.labels import Category

if TYPE_CHECKING:
    from pulumi_kubernetes.batch.v1 import CronJobSpecArgsDict, JobSpecArgsDict
    from pulumi_kubernetes.core.v1 import PodSpecArgsDict, PodTemplateSpecArgsDict

_JOB, _CRON_JOB = "ebbtide:components:Job", "ebbtide:components:CronJob"
_Settings = TypeVar("_Settings", bound=JobSettings, covariant=True)


@dataclass(frozen=True, kw_only=True)
class JobArgs(Generic[_Settings]):
    stack: StackContext
    name: str
    settings: _Settings
    nodes: NodeRequirement | None = None  # required by its GPUs, in addition to its selector

    @property
    def identity(self) -> PodIdentity:
        return PodIdentity(name=self.name, category=Category.WORKER, customer=self.stack.customer, ends=True)


def _formerly(type_: str, name: str, opts: pulumi.ResourceOptions | None) -> pulumi.ResourceOptions:
    """Add an alias: a job may have been a cron job before, or the reverse, with the same budget, files and account."""
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(aliases=[pulumi.create_urn(name, type_)]))


class Job(pulumi.ComponentResource):
    def __init__(self, name: str, args: "JobArgs[JobSettings]", opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(_JOB, name, None, _formerly(_CRON_JOB, name, opts))
        before = _before(name, args, parent=self)
        KubernetesJob(
            f"{name}-job",
            metadata={
                "name": args.name,
                "namespace": args.stack.worker_namespace,
                "labels": args.identity.labels,
                "annotations": {SKIP_AWAIT: "true"},
            },
            spec=_spec(args),
            opts=pulumi.ResourceOptions(parent=self, depends_on=before),
        )
        self.register_outputs({})


class CronJob(pulumi.ComponentResource):
    def __init__(self, name: str, args: "JobArgs[CronJobSettings]", opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(_CRON_JOB, name, None, _formerly(_JOB, name, opts))
        before = _before(name, args, parent=self)
        settings, labels = args.settings, args.identity.labels
        spec: CronJobSpecArgsDict = {
            "schedule": settings.schedule,
            "concurrency_policy": settings.concurrency.value.capitalize(),
            "suspend": settings.suspended,
            "successful_jobs_history_limit": settings.history.succeeded,
            "failed_jobs_history_limit": settings.history.failed,
            "job_template": {"metadata": {"labels": labels}, "spec": _spec(args)},
        }
        if settings.timezone is not None:
            spec["time_zone"] = settings.timezone
        if settings.start_within is not None:
            spec["starting_deadline_seconds"] = int(settings.start_within.total_seconds())
        KubernetesCronJob(
            f"{name}-cron-job",
            metadata={"name": args.name, "namespace": args.stack.worker_namespace, "labels": labels},
            spec=spec,
            opts=pulumi.ResourceOptions(parent=self, depends_on=before),
        )
        self.register_outputs({})


def _spec(args: "JobArgs[JobSettings]") -> "JobSpecArgsDict":
    settings = args.settings
    return {
        "active_deadline_seconds": int(settings.longest_run.total_seconds()),
        "backoff_limit": settings.retries,
        "completions": settings.completions,
        "parallelism": settings.parallelism,
        "template": _template(args),
    }


def _template(args: "JobArgs[JobSettings]") -> "PodTemplateSpecArgsDict":
    settings, identity = args.settings, args.identity
    pod: PodSpecArgsDict = {
        "restart_policy": "Never",
        "affinity": affinity(identity.category),
        "topology_spread_constraints": spread(identity, revision_label=""),
        "node_selector": nodes_of_group(settings.node_group, settings.arch),
        **priority(settings.priority),
        "tolerations": tolerations(settings.gpu),
        **account_fields(args.name, settings),
        "security_context": pod_security(settings.user),
        "containers": [main_container(settings, args.name)],
        **pod_volumes(settings, args.name),
    }
    placed = required(merged(pod, settings.pod, main=args.name), args.nodes)
    return pod_template(settings, identity, args.stack.images.pulled(args.stack.egress.through(placed)), NO_SECRETS)


def _before(name: str, args: "JobArgs[JobSettings]", *, parent: pulumi.Resource) -> list[pulumi.Resource]:
    """Create the objects that the pods need. A Job starts at once, so these must exist first."""
    return [
        budget_without_scale(f"{name}-budget", args.identity, args.stack.worker_namespace, parent=parent),
        *file_maps(args.settings, args.identity, args.stack.worker_namespace, parent=parent),
        *own_account(f"{name}-account", args.identity, args.settings, args.stack.worker_namespace, parent=parent),
    ]
