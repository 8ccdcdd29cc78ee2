"""`ebbtide prices`: which prices are in use and how old they are, and newer ones from AWS.

`update` is the one command that asks AWS for prices, with the login of whoever runs it and rights to read only:
`pricing:GetProducts`, `savingsplans:DescribeSavingsPlansOfferingRates`, `ec2:DescribeSpotPriceHistory`.
"""

import re
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console, RenderableType
from rich.table import Table

from ebbtide.files import Unwritable, write_directory
from ebbtide.prices import plans_are_derived
from ebbtide.prices.aws_cli import AwsCommand, NoAws
from ebbtide.prices.aws_questions import Figures, read_regions
from ebbtide.prices.book import Book, ListPrice, PlanDiscount, PricesInvalid, ServicePrice, SpotSaving, files_of
from ebbtide.prices.tables import ENVIRONMENT, in_use, place_in_use
from ebbtide.prices.update import Changed, changed, updated

command = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)

SPOT_WINDOW = timedelta(days=30)
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d")
_SHOWN = 5
_WIDTH = 160


def _region(text: str) -> str:
    if _REGION.fullmatch(text) is None:
        raise typer.BadParameter(f"wanted the name of an AWS region, found {text!r} (for example eu-west-1)")
    return text


@command.callback()
def prices() -> None:
    """Show the prices in use, or get newer ones from AWS."""


@command.command(epilog="Example: ebbtide prices show eu-west-1")
def show(
    region: Annotated[str | None, typer.Argument(metavar="REGION", parser=_region, help="None: all, in short.")] = None,
) -> None:
    """Show the prices in use: types, dates, sources."""
    out = _console()
    try:
        book = in_use()
    except PricesInvalid as invalid:
        _fail(*invalid.problems)
    if region is not None and region not in book.regions:
        _fail(f"no prices for region {region}; there are prices for {', '.join(book.regions)}")
    out.print(f"prices {place_in_use()}, US dollars before tax")
    for part in _overview(book) if region is None else _of_region(book, region):
        out.print(part)


_REGIONS_HELP = "May be repeated; default: every region that has prices now."
_OUTPUT_HELP = "Where the files go; an earlier output is replaced."


@command.command(epilog="Example: ebbtide prices update --region eu-west-1 --output prices")
def update(
    *,
    region: Annotated[list[str] | None, typer.Option(metavar="REGION", parser=_region, help=_REGIONS_HELP)] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help=_OUTPUT_HELP)] = Path("prices"),
) -> None:
    """Read AWS's price list with your own login, and write files for --prices."""
    now = datetime.now(UTC)
    try:
        book = in_use()
        regions = list(dict.fromkeys(region or book.regions))
        figures, failed = read_regions(AwsCommand(wait=time.sleep), _announced(regions), now - SPOT_WINDOW, now)
        if failed:
            _fail(*(f"{name}: {reason}" for name, reason in failed.items()), "nothing was written")
        write_directory(output, files_of(updated(book, figures, now.date())))
    except NoAws as error:
        _fail(f"{error}; nothing was written, and the prices in use stay: {place_in_use()}")
    except PricesInvalid as invalid:
        _fail(*invalid.problems)
    except Unwritable as error:
        _fail(str(error))
    _tell(book, figures, output)


def _announced(regions: Sequence[str]) -> Iterator[str]:
    """A region takes some ten to thirty seconds, and silence would look like a hang."""
    for name in regions:
        _console(stderr=True).print(f"asking AWS about {name}")
        yield name


def _tell(book: Book, figures: Sequence[Figures], output: Path) -> None:
    out = _console()
    for found in figures:
        for line in change_lines(changed(book, found)):
            out.print(line)
    out.print(f"written to {output}; to reckon with them: ebbtide --prices {output} ..., or {ENVIRONMENT}={output}")


def change_lines(change: Changed) -> Iterator[str]:
    """What an update changes in a region, a few lines."""
    yield f"{change.region}: {change.types} instance types, {len(change.moved)} with another price than before"
    for name, (old, new) in list(change.moved.items())[:_SHOWN]:
        yield f"  {name}: {old:g} -> {new:g} USD an hour ({new / old - 1:+.1%})"
    if len(change.moved) > _SHOWN:
        yield f"  and {len(change.moved) - _SHOWN} that changed less"
    if change.new:
        yield f"  new: {', '.join(change.new)}"
    if change.gone:
        yield f"  no longer listed by AWS, left out: {', '.join(change.gone)}"
    for note in change.notes:
        yield f"  {note}"


def _overview(book: Book) -> list[RenderableType]:
    table = _table("region", ">types", "on demand", "plans", "spot", "services")
    for region in book.regions:
        count = sum(1 for row in book.list_prices if row.region == region)
        days = (book.as_of(kind, region) for kind in (ListPrice, PlanDiscount, SpotSaving, ServicePrice))
        table.add_row(region, str(count), *(day.isoformat() for day in days))
    return [table, *_sources(book, book.regions)]


def _of_region(book: Book, region: str) -> list[RenderableType]:
    nodes = _table("type", ">vCPU", ">GiB", ">GPU", ">USD/hour", ">1 year", ">3 years", ">spot")
    for row in book.list_prices:
        if row.region == region:
            family = row.instance_type.partition(".")[0]
            plans = (book.discount.get((region, family, "compute", years)) for years in ("1", "3"))
            saving = book.spot_saving.get((region, row.instance_type))
            usd = row.on_demand_usd_per_hour
            sizes = (str(row.vcpu), str(row.memory_gib), str(row.gpu or ""), f"{usd:.4f}")
            nodes.add_row(row.instance_type, *sizes, *(_less(usd, part) for part in (*plans, saving)))
    services = _table("service", ">USD", "per")
    for row in book.services:
        if row.region == region:
            services.add_row(f"{row.service} {row.item}", f"{row.usd:g}", row.unit)
    rates = "approximate, by a like reservation" if plans_are_derived(region) else "AWS's rates, the least of a family"
    notes = f"1 year, 3 years: a Compute Savings Plan without upfront payment ({rates}); spot: the mean of a month"
    return [nodes, notes, "", services, "", *_sources(book, (region,))]


def _less(usd: float, part: float | None) -> str:
    return "-" if part is None else f"{usd * (1 - part):.4f}"


def _sources(book: Book, regions: Sequence[str]) -> list[str]:
    """One line for each source of a file, with its regions and dates."""
    named: dict[tuple[str, str], list[str]] = {}
    for row in book.dates:
        if row.region in regions:
            named.setdefault((row.file, row.source), []).append(f"{row.region} {row.as_of.isoformat()}")
    return [f"{file}: {source} ({', '.join(where)})" for (file, source), where in named.items()]


def _table(*columns: str) -> Table:
    """Headers that begin with `>` are aligned to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column.removeprefix(">"), justify="right" if column.startswith(">") else "left", no_wrap=True)
    return table


def _console(*, stderr: bool = False) -> Console:
    """Wide enough for whole names, as `ebbtide render` prints."""
    width = max(Console(stderr=stderr).width, _WIDTH)
    return Console(stderr=stderr, width=width, soft_wrap=True, highlight=False, markup=False, emoji=False)


def _fail(*lines: str) -> NoReturn:
    for line in lines:
        typer.echo(line, err=True)
    raise typer.Exit(1)
