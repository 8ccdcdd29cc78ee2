"""`ebbtide resume`: takes back `ebbtide pause` and `ebbtide keep`; the controller goes on at its next pass."""

from typing import Annotated

import typer

from ebbtide.cli.cluster_access import (
    DEFAULT_NAMESPACE,
    Context,
    Kubeconfig,
    Namespace,
    annotations_of,
    config_of,
    connect,
    console,
    seen,
    targets_of,
    told,
)
from ebbtide.cli.holds import annotate
from ebbtide.cli.pause import NAMES_HELP
from ebbtide.vocabulary.labels import KEEP_UNTIL, PAUSED

command = typer.Typer(add_completion=False, rich_markup_mode=None)


@command.command(epilog="Example: ebbtide resume train")
def resume(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help=NAMES_HELP)] = None,
    *,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> None:
    """Take a pause back, and what was kept up."""
    out, api = console(), connect(kubeconfig, context)
    with told(api):
        held = [
            target
            for target in targets_of(config_of(api, namespace), names or ())
            if (item := seen(api, target.path)) is not None and {PAUSED, KEEP_UNTIL} & annotations_of(item).keys()
        ]
        if not held:
            out.print("nothing to resume: none of these is paused or kept")
            return
        out.print("resumed:")
        annotate(api, held, {PAUSED: None, KEEP_UNTIL: None}, out)
