"""`ebbtide release`: the controller no longer owns replicas and budgets; their values stay as they are.

Afterwards whoever applies them with another manager takes them without a conflict. A controller that is alive would
take them back at its next write, so it is asked for first: stopped, or told to leave the object alone.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console

from controllers.adapters.kube_api import ApiError, KubeApi
from ebbtide.cli.cluster_access import (
    DEFAULT_NAMESPACE,
    MANAGER,
    Context,
    Kubeconfig,
    Namespace,
    Target,
    annotations_of,
    config_of,
    connect,
    console,
    fail,
    lease_holder,
    lease_of,
    one_line,
    seen,
    targets_of,
    told,
)
from ebbtide.cli.managed_fields import MAX_UNAVAILABLE, REPLICAS, owners_of, without_owner
from ebbtide.vocabulary.labels import CONTROLLER, FIELD_MANAGER, PAUSED

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_NAMES_HELP = "Worker pools and flexible workloads; none: all of them."
_FIELDS = {"pool": REPLICAS, "budget": MAX_UNAVAILABLE}
_TRIES = 5  # the object may change between reading and writing; each try reads anew


@command.command(epilog="Example: ebbtide release train")
def release(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help=_NAMES_HELP)] = None,
    *,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> None:
    """Give the controller's fields back; values stay."""
    out, api = console(), connect(kubeconfig, context)
    with told(api):
        targets = targets_of(config_of(api, namespace), names or ())
        objects = {target: item for target in targets if (item := seen(api, target.path)) is not None}
        _refuse_while_it_acts(api, namespace, objects)
        for target in targets:
            if target not in objects:
                out.print(f"  {target}: not in the cluster")
        failed = [target for target in objects if not release_one(api, target, out)]
    if failed:
        raise typer.Exit(1)


def _refuse_while_it_acts(api: KubeApi, namespace: str, objects: Mapping[Target, Mapping[str, Any]]) -> None:
    holder = lease_holder(lease_of(api, namespace), datetime.now(UTC))
    acting = [target.name for target, item in objects.items() if PAUSED not in annotations_of(item)]
    if holder and acting:
        fail(
            f"the controller runs ({holder}) and would take the fields back: first `ebbtide pause {' '.join(acting)}`, "
            f"or stop it with `kubectl --namespace {namespace} scale deployment {CONTROLLER} --replicas 0`"
        )


def release_one(api: KubeApi, target: Target, out: Console) -> bool:
    """Bound to the version that was read: whoever writes in between is never undone."""
    field = _FIELDS[target.kind]
    for attempt in range(_TRIES):
        try:
            item = api.get(target.path)
            metadata: Mapping[str, Any] = item["metadata"]
            entries: Sequence[Mapping[str, Any]] = metadata.get("managedFields") or ()
            value = item["spec"].get(field[-1], 0)
            if FIELD_MANAGER not in owners_of(entries, field):
                out.print(f"  {target}: {field[-1]} {value} was not the controller's")
                return True
            left = without_owner(entries, field, FIELD_MANAGER)
            body = {"metadata": {"managedFields": left, "resourceVersion": metadata["resourceVersion"]}}
            api.patch(target.path, body, fieldManager=MANAGER)
        except ApiError as error:
            if error.status == 409 and attempt + 1 < _TRIES:
                continue
            out.print(f"  {target}: NOT released: {one_line(error)}", style="bold red")
            return False
        others = ", ".join(owners_of(left, field)) or "nobody's; the next apply takes it"
        out.print(f"  {target}: {field[-1]} stays {value}; owner now: {others}")
        return True
    return False
