"""`ebbtide pause`, `keep`, `resume` and `release`: what an operator takes from the controller, and gives back.

A paused budget is closed and not left as it is: a pause that somebody forgets must not leave pods movable by day.
`keep` ends by itself; until then more workers may still come, and a budget that is open is closed.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated

import typer

from ebbtide.cli.cluster import NAMESPACE, Context, Kubeconfig, Namespace, cluster
from ebbtide.cli.console import fail
from ebbtide.operate.api import controller_config_of, targets_of
from ebbtide.operate.holds import NO_HOLDS, Result, annotate, held
from ebbtide.operate.instants import NotUnderstood, instant_after, spoken
from ebbtide.operate.objects import rfc3339
from ebbtide.operate.release import release as release_fields
from ebbtide.terminal import console
from ebbtide.vocabulary.labels import KEEP_UNTIL, PAUSED

command = typer.Typer(add_completion=False, rich_markup_mode=None)

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME", help="Worker pools and flexible workloads; none: all of them."),
]


@command.command(epilog='Example: ebbtide pause train --why "new driver on the GPU nodes"')
def pause(
    names: Names = None,
    *,
    why: Annotated[str, typer.Option("--why", help="The reason, shown to everybody who sees the pause.")],
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = NAMESPACE,
) -> None:
    """Stop the controller from changing pools and budgets."""
    if not why.strip():
        fail("--why: wanted a reason, shown to everybody who sees the pause", code=2)
    with cluster(kubeconfig, context) as api:
        targets = targets_of(controller_config_of(api, namespace), names or ())
        _show(f"paused, until resumed: {why.strip()}", annotate(api, targets, {PAUSED: why.strip()}))
    _show_undo(names)


@command.command(epilog="Example: ebbtide keep train --until 23:00")
def keep(
    names: Names = None,
    *,
    until: Annotated[str, typer.Option("--until", help="The customer's local time (23:00), 2h, or ISO 8601.")],
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = NAMESPACE,
) -> None:
    """Lower no workers and open no budgets until a given time."""
    with cluster(kubeconfig, context) as api:
        config = controller_config_of(api, namespace)
        try:
            instant = instant_after(until, datetime.now(UTC), config.hours.timezone)
        except NotUnderstood as error:
            fail(f"--until: {error}", code=2)
        targets = targets_of(config, names or ())
        title = f"kept until {spoken(instant, config.hours.timezone)}:"
        _show(title, annotate(api, targets, {KEEP_UNTIL: rfc3339(instant)}))
    _show_undo(names)


@command.command(epilog="Example: ebbtide resume train")
def resume(
    names: Names = None,
    *,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = NAMESPACE,
) -> None:
    """End a pause or a keep."""
    with cluster(kubeconfig, context) as api:
        targets = held(api, targets_of(controller_config_of(api, namespace), names or ()))
        if targets:
            _show("resumed:", annotate(api, targets, NO_HOLDS))
        else:
            console().print("nothing to resume: none of these is paused or kept")


@command.command(epilog="Example: ebbtide release train")
def release(
    names: Names = None,
    *,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = NAMESPACE,
) -> None:
    """Give up the controller's field ownership; values stay."""
    with cluster(kubeconfig, context) as api:
        targets = targets_of(controller_config_of(api, namespace), names or ())
        _show("", release_fields(api, namespace, targets))


def _show(title: str, results: Iterable[Result]) -> None:
    """One line for each object, as it is done. Ends the command with 1 if one failed."""
    out = console()
    if title:
        out.print(title)
    count, failed = 0, False
    for result in results:
        count, failed = count + 1, failed or not result.done
        out.print(f"  {result}", style=None if result.done else "bold red")
    if failed:
        raise typer.Exit(1)
    if not count:
        out.print("  nothing: the controller has no pools and no flexible budgets")


def _show_undo(names: Iterable[str] | None) -> None:
    console().print(" ".join(("undo: ebbtide resume", *(names or ()))))
