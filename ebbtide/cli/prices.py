"""`ebbtide prices`: show the prices in use and their dates, or download newer ones from AWS.

`update` is the only command that requests prices from AWS, with the caller's login. It needs the extra `aws` and rights
to read: `pricing:GetProducts`, `savingsplans:DescribeSavingsPlansOfferingRates`, `ec2:DescribeSpotPriceHistory`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from ebbtide.cli.console import aws_client, fail
from ebbtide.prices.aws_questions import Figures, NoAws, read_regions
from ebbtide.prices.book import Book, PricesInvalid, RegionPrices, files_of
from ebbtide.prices.listing import change_lines, overview_parts, region_parts
from ebbtide.prices.tables import ENVIRONMENT, in_use, place_in_use, priced_regions, replacement
from ebbtide.prices.update import changed, updated
from ebbtide.text.files import Unwritable, write_directory
from ebbtide.text.terminal import console

command = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)

SPOT_WINDOW = timedelta(days=30)
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d")
_WIDTH = 160  # columns: enough for whole names where the output is a file


def _region(text: str) -> str:
    if _REGION.fullmatch(text) is None:
        raise typer.BadParameter(f"wanted the name of an AWS region, found {text!r} (for example eu-west-1)")
    return text


@command.callback()
def prices() -> None:
    """Show the prices in use, or download newer ones from AWS."""


@command.command(epilog="Example: ebbtide prices show eu-west-1")
def show(
    region: Annotated[
        str | None, typer.Argument(metavar="REGION", parser=_region, help="AWS region; default: a summary of all.")
    ] = None,
) -> None:
    """Show the prices in use: types, dates, sources."""
    out = console(min_width=_WIDTH)
    try:
        regions = priced_regions()
    except PricesInvalid as invalid:
        fail(*invalid.problems)
    if region is not None and region not in regions:
        fail(f"no prices for region {region}; there are prices for {', '.join(regions)}")
    out.print(f"prices {place_in_use()}, US dollars before tax")
    by_region = {name: in_use(name) for name in ([region] if region else regions)}
    for part in region_parts(region, by_region[region]) if region else overview_parts(by_region):
        out.print(part)


_REGIONS_HELP = "AWS region; may be repeated; default: every region whose services have prices."
_OUTPUT_HELP = "Directory of the files; replaces an earlier output."


@command.command(epilog="Example: ebbtide prices update --region eu-west-1 --output prices")
def update(
    *,
    region: Annotated[list[str] | None, typer.Option(metavar="REGION", parser=_region, help=_REGIONS_HELP)] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help=_OUTPUT_HELP)] = Path("prices"),
) -> None:
    """Read AWS's price list with your login and write files for --prices."""
    aws = aws_client("prices update")
    now = datetime.now(UTC)
    try:
        book = replacement() or Book()
        regions = list(dict.fromkeys(region or _with_services()))
        before = {name: in_use(name) for name in regions}
        figures, failed = read_regions(aws, _announced(regions), now - SPOT_WINDOW, now)
        if failed:
            fail(*(f"{name}: {reason}" for name, reason in failed.items()), "nothing was written")
        write_directory(output, files_of(updated(book, before, figures, now.date())))
    except NoAws as error:
        fail(f"{error}; nothing was written, and the prices in use stay: {place_in_use()}")
    except PricesInvalid as invalid:
        fail(*invalid.problems)
    except Unwritable as error:
        fail(error)
    _show_changes(before, figures, output)


def _with_services() -> list[str]:
    """The regions that a login can usually read: AWS answers for many others only after they are enabled."""
    return [name for name in priced_regions() if in_use(name).services]


def _announced(regions: Sequence[str]) -> Iterator[str]:
    """Announce each region, since one takes ten to thirty seconds."""
    for name in regions:
        console(stderr=True).print(f"asking AWS about {name}")
        yield name


def _show_changes(before: Mapping[str, RegionPrices], figures: Sequence[Figures], output: Path) -> None:
    out = console(min_width=_WIDTH)
    for region_figures in figures:
        for line in change_lines(changed(before[region_figures.region], region_figures)):
            out.print(line)
    out.print(f"written to {output}; to use them: ebbtide --prices {output} ..., or {ENVIRONMENT}={output}")
