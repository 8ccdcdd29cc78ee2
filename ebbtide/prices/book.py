"""The price tables as typed rows: one class per file, whose fields are the file's columns, in order.

A book is what every cost is calculated from. Its five files stand in one directory, the shipped one or a replacement
(`ebbtide.prices.tables`). Instance sizes are no part of it: they decide what is built, and two people with different
price files must build the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import date
from functools import cached_property
from typing import ClassVar

from ebbtide.prices.cells import Cells, cell_text, csv_text, read_table

PLANS = ("compute", "ec2_instance")
AWS_PLAN_RATE = "savings_plan_rate"
"""The `proxy` of a discount that stands for none: it was read from AWS's own rates."""
TERMS = ("1", "3")
NO_BAND = "unknown"
BANDS = ("<5%", "5-10%", "10-15%", "15-20%", ">20%", NO_BAND)
UNITS = (
    "address-hour",
    "cluster-hour",
    "endpoint-zone-hour",
    "gateway-hour",
    "gb",
    "gb-month",
    "iops-month",
    "key-month",
    "mbps-month",
    "node-hour",
)


class PricesInvalid(Exception):
    """A directory cannot serve as prices. `problems`: a line each, with file, line, what was found, what is wanted."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = tuple(map(_printable, problems))
        super().__init__("\n".join(self.problems))


def _printable(text: str) -> str:
    """No cursor movement and no turned direction: the files are anybody's."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPrice:
    """An instance type in a region: on demand, Linux, shared tenancy."""

    FILE: ClassVar[str] = "ec2.csv"

    region: str
    instance_type: str
    vcpu: int
    memory_gib: int
    gpu: int
    gpu_model: str
    arch: str
    max_pods: int
    on_demand_usd_per_hour: float

    @classmethod
    def read(cls, cells: Cells) -> "ListPrice":
        return cls(
            region=cells.name("region", "us-east-1"),
            instance_type=cells.name("instance_type", "m7i.2xlarge"),
            vcpu=cells.whole("vcpu"),
            memory_gib=cells.whole("memory_gib"),
            gpu=cells.whole("gpu"),
            gpu_model=cells.text("gpu_model"),
            arch=cells.one_of("arch", ("amd64", "arm64")),
            max_pods=cells.whole("max_pods"),
            on_demand_usd_per_hour=cells.usd("on_demand_usd_per_hour", "0.4032"),
        )

    @property
    def key(self) -> tuple[str, ...]:
        return (self.region, self.instance_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDiscount:
    """What a Savings Plan takes off the on-demand price of a family. `proxy` says what the figure was read from."""

    FILE: ClassVar[str] = "savings_plans_approx.csv"

    region: str
    family: str
    plan: str
    term_years: int
    payment: str
    discount_fraction: float
    proxy: str

    @classmethod
    def read(cls, cells: Cells) -> "PlanDiscount":
        return cls(
            region=cells.name("region", "us-east-1"),
            family=cells.name("family", "m7i"),
            plan=cells.one_of("plan", PLANS),
            term_years=int(cells.one_of("term_years", TERMS)),
            payment=cells.one_of("payment", ("no_upfront",)),
            discount_fraction=cells.fraction("discount_fraction"),
            proxy=cells.text("proxy"),
        )

    @property
    def key(self) -> tuple[str, ...]:
        return (self.region, self.family, self.plan, str(self.term_years))


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotSaving:
    """The average saving of a month, over zones and days."""

    FILE: ClassVar[str] = "spot_typical.csv"

    region: str
    instance_type: str
    savings_over_on_demand_fraction: float
    interruption_frequency_band: str

    @classmethod
    def read(cls, cells: Cells) -> "SpotSaving":
        return cls(
            region=cells.name("region", "us-east-1"),
            instance_type=cells.name("instance_type", "m7i.2xlarge"),
            savings_over_on_demand_fraction=cells.fraction("savings_over_on_demand_fraction"),
            interruption_frequency_band=cells.one_of("interruption_frequency_band", BANDS),
        )

    @property
    def key(self) -> tuple[str, ...]:
        return (self.region, self.instance_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePrice:
    FILE: ClassVar[str] = "services.csv"

    region: str
    service: str
    item: str
    unit: str
    usd: float
    confidence: str
    source: str

    @classmethod
    def read(cls, cells: Cells) -> "ServicePrice":
        return cls(
            region=cells.name("region", "us-east-1"),
            service=cells.name("service", "eks"),
            item=cells.name("item", "control_plane_standard"),
            unit=cells.one_of("unit", UNITS),
            usd=cells.usd("usd", "0.10"),
            confidence=cells.one_of("confidence", ("high", "medium")),
            source=cells.text("source"),
        )

    @property
    def key(self) -> tuple[str, ...]:
        return (self.region, self.service, self.item)


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOf:
    """When the figures of one file for one region were current, and where they were read."""

    FILE: ClassVar[str] = "dates.csv"

    file: str
    region: str
    as_of: date
    source: str

    @classmethod
    def read(cls, cells: Cells) -> "AsOf":
        return cls(
            file=cells.one_of("file", tuple(row.FILE for row in (ListPrice, PlanDiscount, SpotSaving, ServicePrice))),
            region=cells.name("region", "us-east-1"),
            as_of=cells.day("as_of"),
            source=cells.text("source"),
        )

    @property
    def key(self) -> tuple[str, ...]:
        return (self.file, self.region)


Row = ListPrice | PlanDiscount | SpotSaving | ServicePrice | AsOf
FILES = tuple(row.FILE for row in (ListPrice, PlanDiscount, SpotSaving, ServicePrice, AsOf))


def columns(row: type[Row]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(row))


@dataclass(frozen=True, kw_only=True)  # no slots: the look-ups are kept once they were built
class Book:
    list_prices: tuple[ListPrice, ...]
    discounts: tuple[PlanDiscount, ...]
    spot: tuple[SpotSaving, ...]
    services: tuple[ServicePrice, ...]
    dates: tuple[AsOf, ...]

    @cached_property
    def on_demand(self) -> Mapping[tuple[str, str], float]:
        return {(row.region, row.instance_type): row.on_demand_usd_per_hour for row in self.list_prices}

    @cached_property
    def discount(self) -> Mapping[tuple[str, str, str, str], float]:
        return {
            (row.region, row.family, row.plan, str(row.term_years)): row.discount_fraction for row in self.discounts
        }

    @cached_property
    def spot_saving(self) -> Mapping[tuple[str, str], float]:
        return {(row.region, row.instance_type): row.savings_over_on_demand_fraction for row in self.spot}

    @cached_property
    def interruption_band(self) -> Mapping[tuple[str, str], str]:
        return {(row.region, row.instance_type): row.interruption_frequency_band for row in self.spot}

    @cached_property
    def service(self) -> Mapping[tuple[str, str, str], float]:
        return {(row.region, row.service, row.item): row.usd for row in self.services}

    @cached_property
    def regions(self) -> tuple[str, ...]:
        return tuple(sorted({row.region for row in self.list_prices}))

    def as_of(self, row: type[Row], region: str) -> date:
        """The date of a file's figures for a region; for one without figures, the oldest date in the file."""
        dated = {entry.region: entry.as_of for entry in self.dates if entry.file == row.FILE}
        return dated.get(region) or min(dated.values())


def read_book(text_of: Callable[[str], str]) -> Book:
    """The book of the files that `text_of` reads by name. Raises `PricesInvalid`, with all that is wrong."""
    problems: list[str] = []
    book = Book(
        list_prices=read_table(ListPrice, text_of, problems),
        discounts=read_table(PlanDiscount, text_of, problems),
        spot=read_table(SpotSaving, text_of, problems),
        services=read_table(ServicePrice, text_of, problems),
        dates=read_table(AsOf, text_of, problems),
    )
    if not problems:
        problems = _undated(book)
    if problems:
        raise PricesInvalid(tuple(problems))
    return book


def _undated(book: Book) -> list[str]:
    """A figure without a date cannot be shown: nobody could tell how old it is."""
    tables: tuple[tuple[Row, ...], ...] = (book.list_prices, book.discounts, book.spot, book.services)
    figures = sorted({(row.FILE, row.region) for table in tables for row in table})
    dated = {entry.key for entry in book.dates}
    return [
        f"{AsOf.FILE}: found no line for {file} in {region}; wanted one, for example: {file},{region},2026-11-21,offer"
        for file, region in figures
        if (file, region) not in dated
    ]


def files_of(book: Book) -> dict[str, str]:
    """The five files, name to text; reading them gives an equal book."""
    tables: tuple[tuple[type[Row], tuple[Row, ...]], ...] = (
        (ListPrice, book.list_prices),
        (PlanDiscount, book.discounts),
        (SpotSaving, book.spot),
        (ServicePrice, book.services),
        (AsOf, book.dates),
    )
    return {
        kind.FILE: csv_text(columns(kind), ([cell_text(getattr(row, name)) for name in columns(kind)] for row in rows))
        for kind, rows in tables
    }
