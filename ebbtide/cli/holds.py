"""Writing and taking back the two holds that an operator may put on a pool or a budget."""

from collections.abc import Mapping, Sequence

import typer
from rich.console import Console

from controllers.adapters.kube_api import ApiError, KubeApi
from ebbtide.cli.cluster_access import MANAGER, Target, one_line


def annotate(api: KubeApi, targets: Sequence[Target], values: Mapping[str, str | None], out: Console) -> list[Target]:
    """Set annotations, or remove those whose value is None; each object is told. Ends with 1 if one failed."""
    done: list[Target] = []
    failed = False
    for target in targets:
        try:
            api.patch(target.path, {"metadata": {"annotations": dict(values)}}, fieldManager=MANAGER)
        except ApiError as error:
            failed = True
            out.print(f"  {target}: NOT done: {one_line(error)}", style="bold red")
            continue
        done.append(target)
        out.print(f"  {target}")
    if failed:
        raise typer.Exit(1)
    if not targets:
        out.print("  nothing: the controller has no pools and no flexible budgets")
    return done


def named(names: Sequence[str] | None) -> str:
    """The same names again, for a command line."""
    return "".join(f" {name}" for name in names or ())
