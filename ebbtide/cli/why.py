"""`ebbtide why pool|budget|node|job|ray|service|workload NAME`: explain an object in sentences."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer

from ebbtide.cli.cluster import NAMESPACE, Context, Kubeconfig, Namespace, Url, cluster
from ebbtide.operate.api import controller_config_of
from ebbtide.operate.ray.facts import workloads_config_of
from ebbtide.operate.sleepers import explain_sleeper
from ebbtide.operate.why.job import explain_job, job_facts
from ebbtide.operate.why.node import explain_node, node_facts
from ebbtide.operate.why.pools_and_budgets import explain_budget, explain_pool, status_or_reason
from ebbtide.operate.why.ray import clusters_or_reason, explain_ray, job_lines, read_clusters
from ebbtide.operate.why.service import explain_service
from ebbtide.text.terminal import console

command = typer.Typer(add_completion=False, rich_markup_mode=None)


class What(StrEnum):
    POOL = "pool"
    BUDGET = "budget"
    NODE = "node"
    JOB = "job"
    RAY = "ray"
    SERVICE = "service"
    WORKLOAD = "workload"


@command.command(epilog="Example: ebbtide why node ip-10-0-1-23.ec2.internal")
def why(
    what: Annotated[What, typer.Argument(help="Kind of object to explain.")],
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name; for a job its id; for ray a cluster or one of its pods.")
    ],
    *,
    url: Url = "",
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = NAMESPACE,
) -> None:
    """Explain the state of a pool, a budget, a node, a job, a Ray cluster, a service, or a workload that sleeps."""
    with cluster(kubeconfig, context) as api:
        if what is What.NODE:
            lines = explain_node(node_facts(api, name, namespace))
        elif what is What.SERVICE:
            lines = explain_service(api, namespace, name)
        elif what is What.WORKLOAD:
            lines = explain_sleeper(api, workloads_config_of(api, namespace), name, datetime.now(UTC))
        elif what is What.JOB:
            config, now = controller_config_of(api, namespace), datetime.now(UTC)
            job = job_facts(api, config, name)
            clusters, unread = clusters_or_reason(api, namespace, config, now)
            lines = [*explain_job(job, config, now), *job_lines(job, config, clusters)]
            lines += [f"not known: Ray: {unread}"] if unread else []
        elif what is What.RAY:
            config = controller_config_of(api, namespace)
            document, _ = status_or_reason(api, namespace, url)
            clusters = read_clusters(api, namespace, config, document, datetime.now(UTC))
            lines = explain_ray(clusters, name, config.hours.timezone)
        else:
            config = controller_config_of(api, namespace)
            document, silence = status_or_reason(api, namespace, url)
            explain = explain_pool if what is What.POOL else explain_budget
            lines = explain(api, config, name, document)
            if silence:
                lines.append(f"the controller does not answer ({silence}), so what it sees and wants is not known")
        lines = [*lines]
    out = console()
    for line in lines:
        out.print(line)
