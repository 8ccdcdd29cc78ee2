"""`ebbtide pause`, `keep`, `wake`, `sleep`, `resume` and `release`: the operator takes control from the controllers, or
returns it.

`pause` closes budgets, so that a forgotten pause does not leave pods movable by day; a paused Ray cluster stays as it
is, awake or asleep. `keep` ends by itself; until then workers may still be added, open budgets are closed, and Ray
clusters are awake. After `wake`, a Ray cluster is awake too, and may apply a new spec. `wake` and `sleep` also apply to
workloads that sleep; the later of the two commands counts.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated

import typer

from controllers.adapters.kube_api import ApiError
from ebbtide.cli.cluster import NAMESPACE, Context, Kubeconfig, Namespace, cluster
from ebbtide.cli.console import fail
from ebbtide.operate.api import OperatorApi, Target, controller_config_of, targets_of
from ebbtide.operate.holds import HoldResult, annotate, held
from ebbtide.operate.holds import resume as resume_held
from ebbtide.operate.instants import NotUnderstood, instant_after, spoken
from ebbtide.operate.objects import rfc3339
from ebbtide.operate.ray.facts import ray_facts, ray_targets, workloads_config_of
from ebbtide.operate.ray.view import ray_view
from ebbtide.operate.release import release as release_fields
from ebbtide.operate.release import release_from_autoscaler
from ebbtide.operate.sleepers import ending_targets, kept_targets, named_targets, sleeper_targets
from ebbtide.text.one_line import collapsed
from ebbtide.text.terminal import console
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.labels import KEEP_UNTIL, PAUSED, SLEEP_UNTIL, WAKE_UNTIL
from ebbtide.vocabulary.workloads import Wake

command = typer.Typer(add_completion=False, rich_markup_mode=None)

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME", help="Pools, flexible or sleeping workloads, Ray clusters; default: all."),
]
_WAKING = "Ray clusters and workloads that sleep; default: all."
Waking = Annotated[list[str] | None, typer.Argument(metavar="NAME", help=_WAKING)]
Sleeping = Annotated[list[str], typer.Argument(metavar="NAME", help="Workloads that sleep.")]
Scaled = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME", help="Worker pools, flexible and sleeping workloads; default: all."),
]
_AUTOSCALER_HELP = "Release replicas of services that no longer scale, and of workloads that no longer sleep."
_UNTIL_HELP = "The customer's local time (23:00), a duration (2h), or ISO 8601."


@command.command(epilog='Example: ebbtide pause train --why "new driver on the GPU nodes"')
def pause(
    names: Names = None,
    *,
    why: Annotated[str, typer.Option("--why", help="Reason, shown with the pause.")],
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = NAMESPACE,
) -> None:
    """Stop the controllers from changing pools, budgets, sleeping workloads and Ray clusters."""
    if not why.strip():
        fail("--why: wanted a reason, which is shown with the pause", code=2)
    with cluster(kubeconfig, context) as api:
        targets = _targets(api, namespace, controller_config_of(api, namespace), names)
        _show(f"paused, until resumed: {why.strip()}", annotate(api, targets, {PAUSED: why.strip()}))
    _show_undo(names)


@command.command(epilog="Example: ebbtide keep train --until 23:00")
def keep(
    names: Names = None,
    *,
    until: Annotated[str, typer.Option("--until", help=_UNTIL_HELP)],
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = NAMESPACE,
) -> None:
    """Until a given time: no scale-down, no open budgets, no sleep."""
    with cluster(kubeconfig, context) as api:
        config = controller_config_of(api, namespace)
        instant = _instant(until, config)
        targets = _targets(api, namespace, config, names)
        title = f"kept until {spoken(instant, config.hours.timezone)}:"
        _show(title, annotate(api, targets, {KEEP_UNTIL: rfc3339(instant)}))
    _show_undo(names)


@command.command(epilog="Example: ebbtide wake flow --until 18:00")
def wake(
    names: Waking = None,
    *,
    until: Annotated[str, typer.Option("--until", help=_UNTIL_HELP)],
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = NAMESPACE,
) -> None:
    """Wake Ray clusters and workloads, and keep them awake until a given time."""
    with cluster(kubeconfig, context) as api:
        config, ray_config = controller_config_of(api, namespace), workloads_config_of(api, namespace)
        instant, all_targets = _instant(until, config), [*ray_targets(ray_config), *sleeper_targets(ray_config)]
        targets = named_targets(all_targets, names or (), "Ray cluster and no workload that sleeps")
        title = f"awake until {spoken(instant, config.hours.timezone)}:"
        values = {WAKE_UNTIL: rfc3339(instant), SLEEP_UNTIL: None}
        _show(title, annotate(api, targets, values), kinds="Ray clusters and no workloads that sleep")
        unwoken = [] if ray_config is None else [policy.name for policy in ray_config.all_sleepers if not policy.manual]
        unwoken += [
            facts.policy.name
            for facts in ray_facts(api, ray_config, datetime.now(UTC), names or ())
            if (view := ray_view(facts, config, None)).sleep is not None and Wake.MANUAL not in view.sleep.wake
        ]
        for name in [name for name in unwoken if not names or name in names]:
            console().print(f"note: wake has no effect on {name} (no manual): ebbtide keep {name} --until {until}")
    _show_undo(names)


@command.command(epilog="Example: ebbtide sleep hub --until 07:00")
def sleep(
    names: Sleeping,
    *,
    until: Annotated[str, typer.Option("--until", help=_UNTIL_HELP)],
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = NAMESPACE,
) -> None:
    """Let workloads sleep until a given time, also in business hours."""
    with cluster(kubeconfig, context) as api:
        config = controller_config_of(api, namespace)
        instant, document = _instant(until, config), workloads_config_of(api, namespace)
        ending = ending_targets(document)
        sleepers = [target for target in sleeper_targets(document) if target not in ending]
        targets = named_targets(sleepers, names, "workload that may sleep")
        title = f"asleep until {spoken(instant, config.hours.timezone)}, unless held:"
        _show(title, annotate(api, targets, {SLEEP_UNTIL: rfc3339(instant), WAKE_UNTIL: None}))
    _show_undo(names)


@command.command(epilog="Example: ebbtide resume train")
def resume(
    names: Names = None,
    *,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = NAMESPACE,
) -> None:
    """End a pause, a keep, a wake or a sleep."""
    with cluster(kubeconfig, context) as api:
        targets = held(api, _targets(api, namespace, controller_config_of(api, namespace), names))
        if targets:
            _show("resumed:", resume_held(api, targets))
        else:
            console().print("nothing to resume: none of these is paused, kept, woken or asleep by command")


@command.command(epilog="Example: ebbtide release train")
def release(
    names: Scaled = None,
    *,
    autoscaler: Annotated[bool, typer.Option("--autoscaler", help=_AUTOSCALER_HELP)] = False,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = NAMESPACE,
) -> None:
    """Release the controller's field ownership; values stay."""
    if autoscaler and not names:
        fail("--autoscaler: wanted names of services that no longer scale or workloads that no longer sleep", code=2)
    with cluster(kubeconfig, context) as api:
        if autoscaler:
            _show("", release_from_autoscaler(api, namespace, names or ()))
            return
        document = workloads_config_of(api, namespace)
        targets = targets_of(controller_config_of(api, namespace), names or (), sleeper_targets(document))
        _show("", release_fields(api, namespace, targets, ending_targets(document), kept_targets(document)))


def _targets(api: OperatorApi, namespace: str, config: ControllerConfig, names: list[str] | None) -> list[Target]:
    """The named targets, with Ray clusters and workloads that sleep if the user may read the document."""
    try:
        document = workloads_config_of(api, namespace)
        more = [*ray_targets(document), *sleeper_targets(document)]
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        console().print(f"note: Ray clusters are not known: {collapsed(error)}")
        more = []
    return targets_of(config, names or (), more)


def _instant(until: str, config: ControllerConfig) -> datetime:
    try:
        return instant_after(until, datetime.now(UTC), config.hours.timezone)
    except NotUnderstood as error:
        fail(f"--until: {error}", code=2)


def _show(title: str, results: Iterable[HoldResult], kinds: str = "pools and no flexible budgets") -> None:
    """Print one line for each object when it is done. Ends the command with 1 if one failed."""
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
        out.print(f"  nothing: the controller has no {kinds}")


def _show_undo(names: Iterable[str] | None) -> None:
    console().print(" ".join(("undo: ebbtide resume", *(names or ()))))
