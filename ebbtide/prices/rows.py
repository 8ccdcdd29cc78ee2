"""The price tables' rows as pydantic models: one class per file, whose fields are the file's columns, in order.

An error about a cell shows its field's description and example.
"""

import re
from datetime import date
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ebbtide.prices.catalog import instance_type

AWS_PLAN_RATE = "savings_plan_rate"
"""The `proxy` of a discount that was calculated from AWS's own Savings Plan rates."""
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


def _one_of(*texts: str) -> Any:
    return Field(pattern=f"^({'|'.join(map(re.escape, texts))})$", description=f"one of {', '.join(texts)}")


def _digits(value: object) -> object:
    """Refuse "8.0", "+8" and "1_000", which pydantic takes as whole numbers."""
    if isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value) is None:
        raise ValueError("not a whole number")
    return value


def _day(value: object) -> object:
    """Refuse "0" and "2026-11-21T00:00", which pydantic takes as dates."""
    return date.fromisoformat(value) if isinstance(value, str) else value


Name = Annotated[str, Field(pattern=r"^\S(?s:.*\S)?$", description="a name")]
Region = Annotated[Name, Field(examples=["us-east-1"])]
Count = Annotated[int, BeforeValidator(_digits), Field(description="a whole number", examples=["8"])]
Usd = Annotated[float, Field(gt=0, allow_inf_nan=False, description="US dollars above zero")]
Fraction = Annotated[
    float, Field(ge=0, lt=1, description="a fraction from 0 to below 1", examples=["0.265 for 26.5 %"])
]
Years = Annotated[
    Literal[1, 3],
    BeforeValidator(lambda value: {"1": 1, "3": 3}.get(value, value)),
    Field(description="one of 1, 3"),
]


class Row(BaseModel):
    """One line of a price table."""

    model_config = ConfigDict(frozen=True, defer_build=True)  # built when a table is read: imports stay fast

    FILE: ClassVar[str]
    KEY: ClassVar[tuple[str, ...]]
    """Columns whose values identify a row: a second row with the same values is refused."""

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        return tuple(cls.model_fields)

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(str(getattr(self, column)) for column in self.KEY)


class ListPrice(Row):
    """An instance type in a region: on demand, Linux, shared tenancy."""

    FILE = "ec2.csv"
    KEY = ("region", "instance_type")

    region: Region
    instance_type: Annotated[Name, Field(examples=["m7i.2xlarge"])]
    vcpu: Count
    memory_gib: Count
    gpu: Count
    gpu_model: str
    arch: Annotated[str, _one_of("amd64", "arm64")]
    max_pods: Count
    on_demand_usd_per_hour: Annotated[Usd, Field(examples=["0.4032"])]


def listed_sizes(name: str) -> dict[str, Any]:
    """Return the columns of a list price that repeat the size of an instance type, which is in the table of sizes."""
    kind = instance_type(name)
    return {
        "vcpu": kind.vcpu,
        "memory_gib": kind.memory_mib // 1024,
        "gpu": kind.gpu,
        "gpu_model": kind.gpu_model,
        "arch": kind.arch,
        "max_pods": kind.default_pods,
    }


class PlanDiscount(Row):
    """A Savings Plan's discount on the on-demand price of a family; `proxy` names the source of the figure."""

    FILE = "savings_plans_approx.csv"
    KEY = ("region", "family", "plan", "term_years")

    region: Region
    family: Annotated[Name, Field(examples=["m7i"])]
    plan: Annotated[str, _one_of("compute", "ec2_instance")]
    term_years: Years
    payment: Annotated[str, _one_of("no_upfront")]
    discount_fraction: Fraction
    proxy: str


class SpotSaving(Row):
    """The average saving of a month, over zones and days."""

    FILE = "spot_typical.csv"
    KEY = ("region", "instance_type")

    region: Region
    instance_type: Annotated[Name, Field(examples=["m7i.2xlarge"])]
    savings_over_on_demand_fraction: Fraction
    interruption_frequency_band: Annotated[str, _one_of(*BANDS)]


class ServicePrice(Row):
    FILE = "services.csv"
    KEY = ("region", "service", "item")

    region: Region
    service: Annotated[Name, Field(examples=["eks"])]
    item: Annotated[Name, Field(examples=["control_plane_standard"])]
    unit: Annotated[str, _one_of(*UNITS)]
    usd: Annotated[Usd, Field(examples=["0.10"])]
    confidence: Annotated[str, _one_of("high", "medium")]
    source: str


class AsOf(Row):
    """When one file's figures for a region were current, and their source."""

    FILE = "dates.csv"
    KEY = ("file", "region")

    file: Annotated[str, _one_of(*(row.FILE for row in (ListPrice, PlanDiscount, SpotSaving, ServicePrice)))]
    region: Region
    as_of: Annotated[date, BeforeValidator(_day), Field(description="a date", examples=["2026-11-21"])]
    source: str
