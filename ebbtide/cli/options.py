"""Options that several commands share. Loads nothing of the lab until an option needs it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ebbtide.cli.console import fail
from ebbtide.settings.sections.types import parse_positive_duration
from ebbtide.text.times import parsed_time
from ebbtide.vocabulary.windows import zone_names

if TYPE_CHECKING:
    from ebbtide.lab.ledger.month import Month
    from ebbtide.lab.simulator.trace.jobs import Reading
    from ebbtide.settings import StackSettings

_TRACES = Path(__file__).parents[1] / "lab" / "simulator" / "trace" / "data"


def duration_option(text: str) -> timedelta:
    """A duration in the format of stack files. Raises `typer.BadParameter`."""
    try:
        return parse_positive_duration(text)
    except ValueError:
        raise typer.BadParameter(f"wanted a duration above zero, found {text!r} (for example 8h)") from None


def time_option(text: str) -> datetime:
    """An ISO date or time. Raises `typer.BadParameter`."""
    if (time := parsed_time(text)) is None:
        raise typer.BadParameter(f"wanted an ISO date and time, found {text!r} (for example 2026-03-02T08:00)")
    return time


def closed_month(name: str, settings: "StackSettings", *, or_running: bool = False) -> "Month":
    """Return the month of this name, or the last one, or end the command: it must have ended, or begun."""
    from ebbtide.lab.ledger.month import last_month, month_named

    zone, now = settings.business_hours.timezone, datetime.now(UTC)
    last = last_month(now, zone)
    month = month_named(name, zone) if name else last
    if month is None:
        raise typer.BadParameter(f"--month: wanted a month, found {name!r} (for example {last.name})")
    if (month.begin if or_running else month.end) > now:
        how = "begun" if or_running else "ended"
        fail(f"--month: wanted a month that has {how}, found {name} (for example {last.name})", code=2)
    return month


def _zone(text: str) -> str:
    if text not in zone_names():
        raise typer.BadParameter(f"wanted a time zone, found {text!r} (for example Europe/Berlin)")
    return text


def trace_reading(
    columns: Sequence[str] | None,
    since: datetime | None,
    days: int | None,
    timezone: str | None,
    queues: Sequence[str] | None,
    where: Sequence[str] | None,
) -> "Reading":
    """Build the `Reading` from the options of every command that reads a trace. Raises `typer.BadParameter`."""
    from ebbtide.lab.simulator.trace.jobs import Reading

    return Reading(
        columns=_columns(columns),
        where=_values_of_columns(where),
        since=since,
        days=days,
        timezone=timezone,
        queue_names=_queue_names(queues),
    )


def _columns(texts: Sequence[str] | None) -> dict[str, str]:
    from ebbtide.lab.simulator.trace.columns import NAMES

    columns: dict[str, str] = {}
    for text in [part for several in texts or () for part in several.split(",")]:
        field, _, name = text.partition("=")
        if field not in NAMES or not name:
            expected = f"FIELD=NAME, with the fields {', '.join(NAMES)}"
        elif columns.get(field, name) != name:
            expected = f"one column for {field}, which has {columns[field]}"
        elif columns.get(field) != name and name in columns.values():
            expected = f"one field for the column {name}"
        else:
            columns[field] = name
            continue
        raise typer.BadParameter(
            f"wanted {expected}, found {text!r} (for example submitted_at=created)", param_hint="--columns"
        )
    return columns


def _values_of_columns(texts: Sequence[str] | None) -> dict[str, tuple[str, ...]]:
    values: dict[str, tuple[str, ...]] = {}
    for text in texts or ():
        column, equals, value = text.partition("=")
        if not column or not equals:
            raise typer.BadParameter(
                f"wanted COLUMN=VALUE, found {text!r} (for example customer=acme)", param_hint="--where"
            )
        values[column] = (*values.get(column, ()), value)
    return values


def _queue_names(texts: Sequence[str] | None) -> dict[str, str]:
    names: dict[str, str] = {}
    for text in [part for several in texts or () for part in several.split(",")]:
        old, _, new = text.rpartition("=")
        if not old or not new or names.get(old, new) != new:
            raise typer.BadParameter(
                f"wanted a queue of the trace and one new name for it, found {text!r} (for example mails=prep)",
                param_hint="--queues",
            )
        names[old] = new
    return names


_BUNDLED = ", ".join(sorted(path.name.removesuffix(".csv.gz") for path in _TRACES.glob("*.csv.gz")))
TRACE_HELP = f"A CSV, JSON or Parquet file of jobs, or a bundled trace: {_BUNDLED}."

Stack = Annotated[str, typer.Argument(metavar="STACK", help="A name (demo for stacks/Pulumi.demo.yaml) or a path.")]
Days = Annotated[int | None, typer.Option(min=1, help="Days of the trace to replay; default: all.")]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FIELD=NAME,…", help="Columns of the trace that have other names than usual; may be repeated."
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="COLUMN=VALUE",
        help="Read only rows of the trace with this value; may be repeated, with more values or columns.",
    ),
]
Since = Annotated[
    datetime | None,
    typer.Option(
        "--from",
        parser=time_option,
        metavar="TIME",
        help="First day, or time, of a trace with dates; default: its first.",
    ),
]
Timezone = Annotated[
    str | None,
    typer.Option(parser=_zone, metavar="ZONE", help="Zone of times without one in the trace; default: the stack's."),
]
MaxJob = Annotated[
    timedelta | None, typer.Option(parser=duration_option, metavar="8h", help="Leave out longer jobs of the trace.")
]
Queues = Annotated[
    list[str] | None,
    typer.Option("--queues", metavar="OLD=NEW", help="Rename queues of the trace; may be repeated, or be a list."),
]


def given_path(text: str) -> Path:
    """Parse a path to read: an empty text, such as of a variable that is not set, would be the current folder."""
    if not text:
        raise typer.BadParameter("wanted a path, found an empty text (for example .)")
    return Path(text)


def written_path(text: str) -> Path:
    """Parse a file to write: only JSON goes to the standard output."""
    if text in ("", "-") or Path(text).is_dir():
        found = f"the folder {text}" if text not in ("", "-") else repr(text)
        raise typer.BadParameter(f"wanted a file to write, found {found} (for example november.out)")
    return Path(text)


JsonFile = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", dir_okay=False, help="Write the figures as JSON; - prints only the JSON."),
]
Context = Annotated[
    str | None, typer.Option("--context", help="Context of the kubeconfig; default: the current context.")
]
Kubeconfig = Annotated[
    str | None, typer.Option("--kubeconfig", metavar="FILE", help="Path of the kubeconfig; default: as for kubectl.")
]
_PROMETHEUS_HELP = "Address of Prometheus; default: the stack's own, through the API server."
PrometheusUrl = Annotated[
    str, typer.Option("--prometheus", metavar="URL", envvar="EBBTIDE_PROMETHEUS_URL", help=_PROMETHEUS_HELP)
]
PrometheusToken = Annotated[
    Path | None,
    typer.Option(
        "--prometheus-token-file",
        metavar="FILE",
        dir_okay=False,
        envvar="EBBTIDE_PROMETHEUS_TOKEN_FILE",
        help="File with the token for that address, or with headers such as X-Scope-OrgID: acme.",
    ),
]
Service = Annotated[
    str | None,
    typer.Option("--service", metavar="NAME", help="A service, or SERVICE-VARIANT; the trace contains requests."),
]
Queue = Annotated[
    str | None, typer.Option("--queue", metavar="NAME", help="Replay only this queue of a trace of requests.")
]
Rate = Annotated[
    float | None,
    typer.Option(
        "--requests-per-second",
        min=0.001,
        max=100_000,
        help="With --service: scale the trace to this mean; default: its busiest window takes 80 % of max.",
    ),
]
AtOnce = Annotated[
    int | None,
    typer.Option(
        "--at-once",
        min=1,
        max=10_000,
        help="Concurrent requests per pod; default: its in-flight target, rounded up, or 1.",
    ),
]
Day = Annotated[
    int | None,
    typer.Option(
        "--day", min=1, metavar="N", help="With --service: the day in the report's chart; default: the busiest."
    ),
]
