"""`ebbtide advise targets` and `advise variants`: settings of a service that suit its history."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from ebbtide.cli.advise.history import HistorySource, VariantFigures, history_of
from ebbtide.cli.advise.stack_file import PatchFile, finish_advice, stack_with_nodes
from ebbtide.cli.console import fail, finish, progress_count
from ebbtide.cli.options import AtOnce, Context, JsonFile, Kubeconfig, PrometheusToken, PrometheusUrl, Queue, Stack
from ebbtide.lab.advice.services.place import StackText, place_of
from ebbtide.lab.simulator.services.replay import ServiceOptions
from ebbtide.lab.simulator.services.served import simulated
from ebbtide.lab.simulator.setup import ReplayError
from ebbtide.lab.simulator.trace.traces import TraceError
from ebbtide.settings.file.contents import files_in
from ebbtide.settings.load import MOST_BYTES, name_of, stack_path
from ebbtide.text.durations import read_duration
from ebbtide.text.files import read_file

command = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


def _history_length(text: str) -> timedelta:
    length = read_duration(text)
    if length is None or not timedelta(hours=1) <= length <= timedelta(days=400):
        raise typer.BadParameter(f"wanted 1h to 400d, found {text!r} (for example 14d)")
    return length


_TRACE = "Requests by window (.csv or .csv.gz), or a bundled trace; default: the history in Prometheus."
Trace = Annotated[str | None, typer.Option("--trace", metavar="FILE", help=_TRACE)]

Since = Annotated[
    timedelta | None,
    typer.Option(
        "--since", parser=_history_length, metavar="14d", help="Without --trace: length of the history; default: 14d."
    ),
]
Size = Annotated[
    float | None,
    typer.Option(
        "--requests-per-second",
        min=0.001,
        max=100_000,
        help="Scale the history to this mean; required for a public trace; default: unscaled.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", help="Random seed; the same seed gives the same figures.")]
_TIME = "Service time of a request on an idle pod of a variant; may be repeated."
_SHARE = "Share of the requests that a variant receives; may be repeated."
FORTNIGHT = timedelta(days=14)


@command.command(epilog="Example: ebbtide advise targets STACK embedder-small --trace requests.csv --patch -")
def targets(
    stack: Stack,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A service, or SERVICE-VARIANT where it has several.")],
    *,
    trace: Trace = None,
    patch: PatchFile = None,
    queue: Queue = None,
    rate: Size = None,
    at_once: AtOnce = None,
    seed: Seed = 0,
    since: Since = None,
    prometheus: PrometheusUrl = "",
    token_file: PrometheusToken = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    json_file: JsonFile = None,
) -> None:
    """Find the cheapest metric, target, min and max that keep a service's SLO."""
    from ebbtide.lab.advice.services.targets import as_json, target_advice
    from ebbtide.lab.advice.services.targets_text import as_text
    from ebbtide.settings.patch import difference

    text = _stack_text(stack)
    source = _source(trace, queue, rate, since, prometheus, token_file, context, kubeconfig)
    try:
        place = place_of(text, name)
        if place is None:
            simulated(text.settings, name, at_once)  # its error lists the services
            raise ReplayError(f"{text.file}: wanted a service, found {name!r}")
        history = history_of(text.settings, place.service, [place.variant], source)
        options = ServiceOptions(rate=rate, at_once=at_once, seed=seed, start=history.start)
        with progress_count("settings") as progress:
            advice = target_advice(text, name, history.trace, options, progress)
    except (ReplayError, TraceError) as error:
        fail(error)
    diff = difference(text.text, text.changed(advice.changes), text.file)
    shown = as_text(advice, diff)
    finish_advice(stack, advice.changes, json_file=json_file, patch=patch, document=as_json(advice), shown=shown)


@command.command(
    epilog="Example: ebbtide advise variants STACK embedder --trace requests.csv --service-time large=60ms"
)
def variants(
    stack: Stack,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A service.")],
    *,
    trace: Trace = None,
    service_time: Annotated[
        list[str] | None, typer.Option("--service-time", metavar="VARIANT=60ms", help=_TIME)
    ] = None,
    share: Annotated[list[str] | None, typer.Option("--share", metavar="VARIANT=20%", help=_SHARE)] = None,
    queue: Queue = None,
    rate: Size = None,
    at_once: AtOnce = None,
    seed: Seed = 0,
    since: Since = None,
    prometheus: PrometheusUrl = "",
    token_file: PrometheusToken = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    json_file: JsonFile = None,
) -> None:
    """Compare the variants of a service: cost of 1,000 requests and latency."""
    from ebbtide.lab.advice.services.variants import as_json, service_of, variant_advice
    from ebbtide.lab.advice.services.variants_text import as_text

    settings = _stack_text(stack).settings
    source = _source(trace, queue, rate, since, prometheus, token_file, context, kubeconfig)
    try:
        service = service_of(settings, name)
        figures = VariantFigures.of(name, service, service_time or [], share or [])
        compared = [variant for variant, settings_ in service.variants.items() if not settings_.spot]
        history = history_of(settings, name, compared, source)
        options = ServiceOptions(rate=rate, at_once=at_once, seed=seed, start=history.start)
        with progress_count("variants") as progress:
            advice = variant_advice(
                settings, name, history.trace, options, figures.times(history), figures.shares(history), progress
            )
    except (ReplayError, TraceError) as error:
        fail(error)
    finish(json_file, as_json(advice), as_text(advice))


def _source(
    trace: str | None,
    queue: str | None,
    rate: float | None,
    since: timedelta | None,
    prometheus: str,
    token_file: Path | None,
    context: str | None,
    kubeconfig: str | None,
) -> HistorySource:
    if trace is None and queue is not None:
        raise typer.BadParameter("--queue: wanted only with --trace, of which it replays one queue")
    return HistorySource(
        trace=trace,
        queue=queue,
        rate=rate,
        since=since or FORTNIGHT,
        prometheus=prometheus,
        token_file=token_file,
        context=context,
        kubeconfig=kubeconfig,
    )


def _stack_text(stack: str) -> StackText:
    """The stack with its file's text, since a patch keeps the other lines."""
    stack_with_nodes(stack)
    path = stack_path(stack)
    text = read_file(path, MOST_BYTES).decode("utf-8")
    return StackText(text=text, file=str(path), stack=name_of(path), reader=files_in(path.parent))
