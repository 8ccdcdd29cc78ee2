"""`ebbtide advise sizes`: compare container requests with the usage in Prometheus, and find suitable nodes."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ebbtide.cli.advise.stack_file import PatchFile, finish_advice
from ebbtide.cli.cluster import Context, Kubeconfig, cluster, watching
from ebbtide.cli.console import fail
from ebbtide.cli.options import JsonFile, PrometheusToken, PrometheusUrl, Stack
from ebbtide.settings import StackInvalid, StackSettings, load_stack
from ebbtide.settings.load import read_stack
from ebbtide.text.durations import read_duration

if TYPE_CHECKING:
    from ebbtide.lab.advice.sizes.advice import Recommended, SizesAdvice
    from ebbtide.lab.advice.sizes.containers import Container
    from ebbtide.monitoring.client import Prometheus
    from ebbtide.operate.api import OperatorApi

_LEAST, _MOST = 7, 30


def _whole_days(text: str) -> int:
    length = read_duration(text)
    days = 0 if length is None else length.days
    if length != timedelta(days=days) or not _LEAST <= days <= _MOST:
        raise typer.BadParameter(f"wanted {_LEAST}d to {_MOST}d, found {text!r} (for example 14d)")
    return days


History = Annotated[
    int | None,
    typer.Option(
        "--since",
        parser=_whole_days,
        metavar="14d",
        help="Length of the history, with at least 7 days of samples; default: 14d.",
    ),
]
Days = Annotated[int | None, typer.Option("--days", min=_LEAST, max=_MOST, hidden=True)]


def sizes(
    stack: Stack,
    *,
    since: History = None,
    former_days: Days = None,
    json_file: JsonFile = None,
    patch: PatchFile = None,
    prometheus: PrometheusUrl = "",
    token_file: PrometheusToken = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Find pod requests and instance types that fit the usage in Prometheus."""
    from ebbtide.lab.advice.sizes.containers import containers

    if former_days is not None:
        if since is not None:
            raise typer.BadParameter("give only --since, for example --since 14d", param_hint="--days")
        typer.echo(f"--days {former_days} is --since {former_days}d now; the next release no longer reads it", err=True)
    days = since or former_days or 14
    try:
        settings = load_stack(stack)
    except StackInvalid as invalid:
        fail(invalid)
    asking = watching(settings, prometheus, token_file, context, kubeconfig)
    recommended: Recommended = {}
    unread: Mapping[str, str] = {}
    if context or kubeconfig or not prometheus:
        with cluster(kubeconfig, context or settings.cluster.context) as api:
            recommended, unread = _recommended(api, containers(settings))
    _finish(_advice(settings, stack, asking, days, recommended, unread), stack, json_file, patch)


def _advice(
    settings: StackSettings,
    stack: str,
    asking: "Prometheus",
    days: int,
    recommended: "Recommended",
    unread: Mapping[str, str],
) -> "SizesAdvice":
    from dataclasses import replace

    from ebbtide.lab.advice.sizes.advice import advise
    from ebbtide.lab.advice.sizes.containers import containers
    from ebbtide.lab.advice.sizes.evidence import Evidence
    from ebbtide.lab.advice.sizes.queries import NothingRecorded
    from ebbtide.lab.advice.sizes.reading import read_uses

    until, evidence = datetime.now(UTC), Evidence(days=days)
    try:
        recorded = read_uses(asking, settings.customer, containers(settings), until, evidence)
    except NothingRecorded as nothing:
        fail(*nothing.lines)
    advice = advise(settings, read_stack(stack).merged.config, recorded, evidence, recommended)
    return replace(advice, missing={**advice.missing, **unread})


def _recommended(api: "OperatorApi", containers_: "list[Container]") -> "tuple[Recommended, Mapping[str, str]]":
    """The cluster's recommendations, and the reason if they cannot be read."""
    from ebbtide.lab.advice.sizes.rules import ResourceName
    from ebbtide.operate.services import recommendations

    unread: list[str] = []
    places = {
        (container.place.namespace, container.place.workload, container.place.container): container.place
        for container in containers_
    }
    recommended = recommendations(api, sorted({space for space, _, _ in places}), unread)
    by_place = {
        places[at]: {ResourceName.CPU: cpu, ResourceName.MEMORY: memory}
        for at, (cpu, memory) in recommended.items()
        if at in places
    }
    return by_place, {"the Vertical Pod Autoscaler's advice": unread[0]} if unread else {}


def _finish(advice: "SizesAdvice", stack: str, json_file: Path | None, patch: Path | None) -> None:
    from ebbtide.lab.advice.sizes.text import as_json, as_text

    document, shown = as_json(advice), as_text(advice)
    finish_advice(stack, advice.changes, json_file=json_file, patch=patch, document=document, shown=shown)
