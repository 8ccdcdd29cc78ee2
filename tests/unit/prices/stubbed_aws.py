"""boto3 clients whose answers botocore's Stubber plays back, and the answers.

The answers were written by hand, without an account, in the shapes that AWS documents; the Stubber checks questions and
answers against botocore's service models. They include what could mislead: reserved terms beside the price on demand, a
NAT gateway of another sort.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, cast

import boto3
from botocore.stub import ANY, Stubber

from ebbtide.prices.aws_client import Client

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
START = NOW - timedelta(days=30)
REGION = "eu-west-1"

PRICES = {"m7i.2xlarge": 0.4494, "m7i.4xlarge": 0.8988, "g6.2xlarge": 1.1}
SERVICES: tuple[tuple[str, str, str, str, float], ...] = (
    # service code, product family, usage type, unit, USD
    ("AmazonEKS", "Compute", "EU-AmazonEKS-Hours:perCluster", "hours", 0.10),
    ("AmazonEKS", "Compute", "EU-AmazonEKS-Hours:extendedSupport", "hours", 0.60),
    ("AmazonEC2", "NAT Gateway", "EU-NatGateway-Hours", "Hrs", 0.048),
    ("AmazonEC2", "NAT Gateway", "EU-NatGateway-Bytes", "GB", 0.048),
    ("AmazonEC2", "NAT Gateway", "EU-Regional-NatGateway-Hours", "Hrs", 0.9),
    ("AmazonEC2", "Storage", "EU-EBS:VolumeUsage.gp3", "GB-Mo", 0.088),
    ("AmazonEC2", "System Operation", "EU-EBS:VolumeP-IOPS.gp3", "IOPS-Mo", 0.0055),
    ("AmazonEC2", "Provisioned Throughput", "EU-EBS:VolumeP-Throughput.gp3", "GiBps-mo", 45.056),
    ("AmazonVPC", "", "EU-PublicIPv4:InUseAddress", "Hrs", 0.005),
    ("AmazonVPC", "", "EU-PublicIPv4:IdleAddress", "Hrs", 0.005),
    ("AmazonVPC", "VpcEndpoint", "EU-VpcEndpoint-Hours", "Hrs", 0.011),
    ("awskms", "Encryption Key", "eu-west-1-KMS-Keys", "Keys", 1.0),
)


def product(attributes: Mapping[str, str], usd: float, unit: str = "Hrs", *, family: str = "Compute Instance") -> str:
    """One entry of `PriceList`: a text that holds JSON."""
    tier = {
        "unit": unit,
        "beginRange": "0",
        "endRange": "Inf",
        "pricePerUnit": {"USD": f"{usd:.10f}"},
        "description": "USD per hour",
    }
    reserved = {"unit": "Hrs", "beginRange": "0", "pricePerUnit": {"USD": "0.0010000000"}}
    return json.dumps(
        {
            "product": {"productFamily": family, "attributes": dict(attributes), "sku": "SKU1"},
            "serviceCode": "AmazonEC2",
            "terms": {
                "OnDemand": {"SKU1.JRTCKXETXF": {"priceDimensions": {"SKU1.JRTCKXETXF.6YS6EN2CT7": tier}}},
                "Reserved": {"SKU1.38NPMPTW36": {"priceDimensions": {"SKU1.38NPMPTW36.2TG2D8R56U": reserved}}},
            },
            "version": "20261119",
            "publicationDate": "2026-11-19T00:00:00Z",
        }
    )


def node_product(name: str, usd: float, **attributes: str) -> str:
    facts = {"instanceType": name, "usagetype": f"EU-BoxUsage:{name}", "locationType": "AWS Region"}
    return product({**facts, **attributes}, usd)


def service_product(family: str, usage_type: str, unit: str, usd: float) -> str:
    return product({"usagetype": usage_type, "locationType": "AWS Region"}, usd, unit, family=family)


def cache_product(name: str, engine: str, usd: float) -> str:
    facts = {"instanceType": name, "cacheEngine": engine, "usagetype": f"EU-NodeUsage:{name}"}
    return product(facts, usd, family="Cache Instance")


def plan_rate(name: str, usd: float, *, plan: str = "Compute", years: int = 1, **other: Any) -> dict[str, Any]:
    """One entry of `searchResults`."""
    offering = {
        "planType": plan,
        "paymentOption": "No Upfront",
        "durationSeconds": years * 31_536_000,
        "currency": "USD",
    }
    facts = {"region": REGION, "instanceType": name, "productDescription": "Linux/UNIX", "tenancy": "shared"}
    answer = {
        "savingsPlanOffering": offering,
        "rate": f"{usd}",
        "unit": "Hrs",
        "productType": "EC2",
        "serviceCode": "AmazonEC2",
        "usageType": f"EU-BoxUsage:{name}",
        "operation": "RunInstances",
        "properties": [{"name": key, "value": value} for key, value in facts.items()],
    }
    return {**answer, **other}


def spot_point(name: str, usd: float, since: datetime, zone: str = "eu-west-1a") -> dict[str, Any]:
    """One entry of `SpotPriceHistory`."""
    return {
        "AvailabilityZone": zone,
        "InstanceType": name,
        "ProductDescription": "Linux/UNIX",
        "SpotPrice": f"{usd:.6f}",
        "Timestamp": since,
    }


def plans() -> list[dict[str, Any]]:
    rates = [plan_rate(name, usd * 0.75) for name, usd in PRICES.items()]
    rates += [plan_rate(name, usd * 0.5, years=3) for name, usd in PRICES.items()]
    return rates + [plan_rate(name, usd * 0.66, plan="EC2Instance") for name, usd in PRICES.items()]


def spot() -> list[dict[str, Any]]:
    return [spot_point(name, usd * 0.4, START - timedelta(days=1)) for name, usd in PRICES.items()]


@cache
def _session() -> Any:
    """One session: it reads botocore's service models once."""
    return boto3.Session(aws_access_key_id="key", aws_secret_access_key="secret")


class StubbedAws:
    """Clients by service and region; each plays its answers in order."""

    def __init__(self) -> None:
        self._clients: dict[tuple[str, str], tuple[Client, Stubber]] = {}

    def client(self, service: str, region: str) -> Client:
        return self._stubbed(service, region)[0]

    def answers(self, action: str, region: str, answer: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
        """The next answer to an action (`ec2:describe_spot_price_history`), which must be called with `parameters`."""
        service, _, method = action.partition(":")
        self._stubbed(service, region)[1].add_response(method, dict(answer), dict(parameters))

    def refuses(self, action: str, region: str, code: str, message: str = "no") -> None:
        service, _, method = action.partition(":")
        self._stubbed(service, region)[1].add_client_error(method, code, message)

    def assert_all_answers_given(self) -> None:
        for _, stubber in self._clients.values():
            stubber.assert_no_pending_responses()

    def _stubbed(self, service: str, region: str) -> tuple[Client, Stubber]:
        if (service, region) not in self._clients:
            client = _session().client(service, region_name=region)
            stubber = Stubber(client)
            stubber.activate()
            self._clients[service, region] = (cast("Client", client), stubber)
        return self._clients[service, region]


def price_list(products: Sequence[str], following: str = "") -> dict[str, Any]:
    return {"PriceList": list(products), **({"NextToken": following} if following else {})}


def products_question(service_code: str, region: str, **fields: str) -> dict[str, Any]:
    terms = {"regionCode": region, **fields}
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in terms.items()]
    return {"ServiceCode": service_code, "Filters": filters}


def nodes_question(region: str) -> dict[str, Any]:
    return products_question(
        "AmazonEC2",
        region,
        productFamily="Compute Instance",
        operatingSystem="Linux",
        tenancy="Shared",
        preInstalledSw="NA",
        capacitystatus="Used",
        marketoption="OnDemand",
    )


def answer_nodes(aws: StubbedAws, region: str, prices: Mapping[str, float] = PRICES) -> None:
    nodes = price_list([node_product(name, usd) for name, usd in prices.items()])
    aws.answers("pricing:get_products", "us-east-1", nodes, nodes_question(region))


def answer_services(aws: StubbedAws, region: str) -> None:
    for code, family, more in (
        ("AmazonEKS", "", {}),
        ("AmazonEC2", "NAT Gateway", {}),
        ("AmazonEC2", "Storage", {"volumeApiName": "gp3"}),
        ("AmazonEC2", "System Operation", {"volumeApiName": "gp3"}),
        ("AmazonEC2", "Provisioned Throughput", {"volumeApiName": "gp3"}),
        ("AmazonVPC", "", {}),
        ("awskms", "", {}),
    ):
        listed = [service_product(*row[1:]) for row in SERVICES if row[0] == code and family in ("", row[1])]
        fields = {**({"productFamily": family} if family else {}), **more}
        aws.answers("pricing:get_products", "us-east-1", price_list(listed), products_question(code, region, **fields))


def answer_spot(aws: StubbedAws, region: str) -> None:
    parameters = {"ProductDescriptions": ["Linux/UNIX"], "InstanceTypes": ANY, "StartTime": ANY, "EndTime": ANY}
    aws.answers("ec2:describe_spot_price_history", region, {"SpotPriceHistory": spot()}, parameters)


def answer_plans(aws: StubbedAws, region: str, rates: Sequence[Mapping[str, Any]] | None = None) -> None:
    filters = {"region": region, "tenancy": "shared", "productDescription": "Linux/UNIX"}
    parameters = {
        "savingsPlanPaymentOptions": ["No Upfront"],
        "savingsPlanTypes": ["Compute", "EC2Instance"],
        "products": ["EC2"],
        "serviceCodes": ["AmazonEC2"],
        "maxResults": 1000,
        "filters": [{"name": name, "values": [value]} for name, value in filters.items()],
    }
    answer = {"searchResults": plans() if rates is None else rates}
    aws.answers("savingsplans:describe_savings_plans_offering_rates", "us-east-1", answer, parameters)


def answer_caches(aws: StubbedAws, region: str) -> None:
    caches = [cache_product("cache.t4g.small", "Valkey", 0.0288), cache_product("cache.t4g.small", "Redis", 0.036)]
    parameters = products_question("AmazonElastiCache", region, productFamily="Cache Instance")
    aws.answers("pricing:get_products", "us-east-1", price_list(caches), parameters)


def answer_region(aws: StubbedAws, region: str = REGION, prices: Mapping[str, float] = PRICES) -> None:
    """Plausible answers to all questions about a region, in their order."""
    answer_nodes(aws, region, prices)
    answer_rest(aws, region)


def answer_rest(aws: StubbedAws, region: str, rates: Sequence[Mapping[str, Any]] | None = None) -> None:
    """Answers to all questions after that about nodes."""
    answer_services(aws, region)
    answer_spot(aws, region)
    answer_plans(aws, region, rates)
    answer_caches(aws, region)
