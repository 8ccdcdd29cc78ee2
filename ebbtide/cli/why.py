"""`ebbtide why pool|budget|node|job NAME`: one answer in sentences, from the controller, the cluster or a worker."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer

from ebbtide.cli.cluster import NAMESPACE, Context, Kubeconfig, Namespace, Url, cluster
from ebbtide.operate.api import controller_config_of
from ebbtide.operate.why.job import explain_job, job_facts
from ebbtide.operate.why.node import explain_node, node_facts
from ebbtide.operate.why.pools_and_budgets import explain_budget, explain_pool, status_or_reason
from ebbtide.terminal import console

command = typer.Typer(add_completion=False, rich_markup_mode=None)


class What(StrEnum):
    POOL = "pool"
    BUDGET = "budget"
    NODE = "node"
    JOB = "job"


@command.command(epilog="Example: ebbtide why node ip-10-0-1-23.ec2.internal")
def why(
    what: Annotated[What, typer.Argument(help="What to explain.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of a job: its id.")],
    *,
    url: Url = "",
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = NAMESPACE,
) -> None:
    """Explain a pool, a budget, a node that is still there, or a job."""
    with cluster(kubeconfig, context) as api:
        if what is What.NODE:
            lines = explain_node(node_facts(api, name, namespace))
        elif what is What.JOB:
            config = controller_config_of(api, namespace)
            lines = explain_job(job_facts(api, config, name), config, datetime.now(UTC))
        else:
            config = controller_config_of(api, namespace)
            document, silence = status_or_reason(api, namespace, url)
            explain = explain_pool if what is What.POOL else explain_budget
            lines = explain(api, config, name, document)
            if silence:
                lines.append(f"the controller does not answer ({silence}), so what it sees and wants is not known")
    out = console()
    for line in lines:
        out.print(line)
