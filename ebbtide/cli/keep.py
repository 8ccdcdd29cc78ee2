"""`ebbtide keep`: workers stay up and budgets stay closed until a given time; then it ends by itself.

For a late evening: "keep the workers until 23:00". More workers may still come, and a budget that is open is closed.
"""

from datetime import UTC, datetime
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
    rfc3339,
    targets_of,
    told,
)
from ebbtide.cli.holds import annotate, named
from ebbtide.cli.instants import NotUnderstood, instant_after, spoken
from ebbtide.cli.pause import NAMES_HELP
from ebbtide.vocabulary.labels import KEEP_UNTIL

command = typer.Typer(add_completion=False, rich_markup_mode=None)


@command.command(epilog="Example: ebbtide keep train --until 23:00")
def keep(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help=NAMES_HELP)] = None,
    *,
    until: Annotated[str, typer.Option("--until", help="Local time of the customer (23:00), 2h, or ISO 8601.")],
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> None:
    """Lower and open nothing until a given time."""
    out, api = console(), connect(kubeconfig, context)
    with told(api):
        config = config_of(api, namespace)
        try:
            instant = instant_after(until, datetime.now(UTC), config.hours.timezone)
        except NotUnderstood as error:
            fail(f"--until: {error}", 2)
        targets = targets_of(config, names or ())
        out.print(f"kept until {spoken(instant, config.hours.timezone)}:")
        annotate(api, targets, {KEEP_UNTIL: rfc3339(instant)}, out)
    out.print(f"undo: ebbtide resume{named(names)}")
