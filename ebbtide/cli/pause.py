"""`ebbtide pause`: the controller leaves the replicas of a pool alone, and a budget closed, until `ebbtide resume`.

An annotation on each object, so it works while the controller is away and everybody can see it. A paused budget is
closed and not left as it is: a pause that somebody forgets must not leave pods movable by day.
"""

from typing import Annotated

import typer

from ebbtide.cli.cluster_access import (
    DEFAULT_NAMESPACE,
    Context,
    Kubeconfig,
    Namespace,
    config_of,
    connect,
    console,
    fail,
    targets_of,
    told,
)
from ebbtide.cli.holds import annotate, named
from ebbtide.vocabulary.labels import PAUSED

command = typer.Typer(add_completion=False, rich_markup_mode=None)

NAMES_HELP = "Worker pools and flexible workloads; none: all of them."


@command.command(epilog='Example: ebbtide pause train --why "new driver on the GPU nodes"')
def pause(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help=NAMES_HELP)] = None,
    *,
    why: Annotated[str, typer.Option("--why", help="The reason, for whoever finds the pause.")],
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> None:
    """Tell the controller to leave pools and budgets alone."""
    if not why.strip():
        fail("--why: wanted a reason, for whoever finds the pause", 2)
    out, api = console(), connect(kubeconfig, context)
    with told(api):
        targets = targets_of(config_of(api, namespace), names or ())
        out.print(f"paused, until resumed: {why.strip()}")
        annotate(api, targets, {PAUSED: why.strip()}, out)
    out.print(f"undo: ebbtide resume{named(names)}")
