"""Read the prices of one region: about fifteen calls of AWS's APIs, whose answers become plain figures."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from ebbtide.prices.aws_answers import (
    Item,
    PlanRate,
    Product,
    StrangeAnswer,
    cache_prices,
    list_prices,
    plan_rates,
    products,
    service_prices,
    spot_means,
    spot_points,
)

# Both answer for all regions from these endpoints: the price list has three in the world, Savings Plans one (botocore's
# `savingsplans/2019-06-28/service-2.json`: globalEndpoint).
PRICE_LIST_AT = "us-east-1"
PLANS_AT = "us-east-1"

_NODES = {
    "productFamily": "Compute Instance",
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
_SERVICES: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("AmazonEKS", {}),
    ("AmazonEC2", {"productFamily": "NAT Gateway"}),
    ("AmazonEC2", {"productFamily": "Storage", "volumeApiName": "gp3"}),
    ("AmazonEC2", {"productFamily": "System Operation", "volumeApiName": "gp3"}),
    ("AmazonEC2", {"productFamily": "Provisioned Throughput", "volumeApiName": "gp3"}),
    ("AmazonVPC", {}),  # the price of an address has no product family
    ("awskms", {}),
)
_CACHES = {"productFamily": "Cache Instance"}


class NoAws(Exception):
    """AWS cannot be asked at all: one clear line."""


class AwsRefused(Exception):
    """AWS did not answer this question: one clear line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsCall:
    """One call and its pages."""

    action: str  # as IAM and botocore call it: "pricing:GetProducts"
    parameters: Mapping[str, object]
    region: str  # of the endpoint
    answers: str  # the key of the list in a page
    token: str = ""  # the key of the next page's token in a page
    token_parameter: str = ""  # the key of that token in a call; default: the same

    def __str__(self) -> str:
        return f"{self.action} in {self.region}"


class Aws(Protocol):
    def ask(self, question: AwsCall) -> list[object]:
        """All pages of the answer. Raises `NoAws`, `AwsRefused`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """AWS's prices of one region, in US dollars."""

    region: str
    on_demand: Mapping[str, float]
    plans: tuple[PlanRate, ...]
    spot: Mapping[str, float]
    services: Mapping[Item, float]
    caches: Mapping[str, float]


def read_region(aws: Aws, region: str, start: datetime, end: datetime) -> Figures:
    """Return the region's figures; spot as the mean from `start` to `end`. Raises `NoAws`, `AwsRefused`."""
    on_demand = list_prices(_products(aws, "AmazonEC2", region, _NODES))
    if not on_demand:
        raise AwsRefused("the price list has no instance type for it; is the name right? for example eu-west-1")
    listed = [product for code, where in _SERVICES for product in _products(aws, code, region, where)]
    points = spot_points(aws.ask(_spot_question(region, on_demand, start, end)))
    figures = Figures(
        region=region,
        on_demand=on_demand,
        plans=plan_rates(aws.ask(_plans_question(region))),
        spot=spot_means(points, start, end),
        services=service_prices(listed),
        caches=cache_prices(_products(aws, "AmazonElastiCache", region, _CACHES)),
    )
    _expect_all(figures)
    return figures


def _expect_all(figures: Figures) -> None:
    """Every region has some of each: an empty list means a misread answer, not that everything is free."""
    empty = {
        "Savings Plan rate": not figures.plans,
        "spot price": not figures.spot,
        "price of a service": not figures.services,
        "price of a cache node": not figures.caches,
    }
    if missing := [name for name, is_missing in empty.items() if is_missing]:
        raise StrangeAnswer(f"found no {', no '.join(missing)} in what AWS answered, wanted some of each")


def read_regions(
    aws: Aws, regions: Iterable[str], start: datetime, end: datetime
) -> tuple[list[Figures], dict[str, str]]:
    """Return the figures of regions that answered, and the errors of the others. Raises `NoAws`."""
    figures: list[Figures] = []
    failed: dict[str, str] = {}
    for region in regions:
        try:
            figures.append(read_region(aws, region, start, end))
        except (AwsRefused, StrangeAnswer) as error:
            failed[region] = str(error)
    return figures, failed


def _products(aws: Aws, service_code: str, region: str, where: Mapping[str, str]) -> tuple[Product, ...]:
    filters = [
        {"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in {"regionCode": region, **where}.items()
    ]
    question = AwsCall(
        action="pricing:GetProducts",
        parameters={"ServiceCode": service_code, "Filters": filters},
        region=PRICE_LIST_AT,
        answers="PriceList",
        token="NextToken",
    )
    return products(aws.ask(question))


def _plans_question(region: str) -> AwsCall:
    filters = {"region": region, "tenancy": "shared", "productDescription": "Linux/UNIX"}
    return AwsCall(
        action="savingsplans:DescribeSavingsPlansOfferingRates",
        parameters={
            "savingsPlanPaymentOptions": ["No Upfront"],
            "savingsPlanTypes": ["Compute", "EC2Instance"],
            "products": ["EC2"],
            "serviceCodes": ["AmazonEC2"],
            "maxResults": 1000,
            "filters": [{"name": name, "values": [value]} for name, value in filters.items()],
        },
        region=PLANS_AT,
        answers="searchResults",
        token="nextToken",
    )


def _spot_question(region: str, types: Iterable[str], start: datetime, end: datetime) -> AwsCall:
    return AwsCall(
        action="ec2:DescribeSpotPriceHistory",
        parameters={
            "ProductDescriptions": ["Linux/UNIX"],
            "StartTime": start,
            "EndTime": end,
            "InstanceTypes": list(types),
        },
        region=region,
        answers="SpotPriceHistory",
        token="NextToken",
    )
