"""The jobs and cron jobs of a stack. The scaler does not size them, so it waits for none of them."""

from typing import TypeVar

import pulumi

from components.pods.job import CronJob, Job, JobArgs
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings.sections.jobs import CronJobSettings, JobSettings
from infra.site import Site

_AnyJob = TypeVar("_AnyJob", JobSettings, CronJobSettings)


def jobs(site: Site, options: pulumi.ResourceOptions) -> None:
    for name, job in site.settings.jobs.items():
        Job(name, _args(site, name, job), site.with_role("job", name, job, WORKER_NAMESPACE, options))
    for name, job in site.settings.cron_jobs.items():
        CronJob(name, _args(site, name, job), site.with_role("job", name, job, WORKER_NAMESPACE, options))


def _args(site: Site, name: str, settings: _AnyJob) -> JobArgs[_AnyJob]:
    return JobArgs(stack=site.stack, name=name, settings=settings, nodes=site.nodes_of(settings))
