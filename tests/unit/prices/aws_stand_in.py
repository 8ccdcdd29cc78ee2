"""A stand-in for the `aws` command, and the answers it plays back.

No account was asked for these: they are written by hand in the shapes that AWS documents (the CLI's reference pages
of `pricing get-products`, `savingsplans describe-savings-plans-offering-rates` and `ec2 describe-spot-price-history`,
and the example on the AWS code library's page "Use GetProducts with a CLI"). What AWS also sends stands here where it
could mislead: reserved terms beside the price on demand, a NAT gateway of another sort.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

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
        "Timestamp": since.isoformat(),
    }


def plans() -> list[dict[str, Any]]:
    rates = [plan_rate(name, usd * 0.75) for name, usd in PRICES.items()]
    rates += [plan_rate(name, usd * 0.5, years=3) for name, usd in PRICES.items()]
    return rates + [plan_rate(name, usd * 0.66, plan="EC2Instance") for name, usd in PRICES.items()]


def spot() -> list[dict[str, Any]]:
    return [spot_point(name, usd * 0.4, START - timedelta(days=1)) for name, usd in PRICES.items()]


@dataclass(frozen=True, slots=True)
class Said:
    """What the stand-in says to one call."""

    page: Mapping[str, Any] | None = None
    stderr: str = ""
    code: int = 0


def refused(code: str, operation: str = "GetProducts") -> Said:
    return Said(stderr=f"\nAn error occurred ({code}) when calling the {operation} operation: no\n", code=254)


_SCRIPT = """\
#!{python} -IS
import json, pathlib, sys
here = pathlib.Path({here!r})
said = json.loads((here / "answers.json").read_text())
words = sys.argv[1:]
with (here / "calls.jsonl").open("a") as calls:
    calls.write(json.dumps(words) + "\\n")
for number, (wanted, answers) in enumerate(said):
    if all(any(part in word for word in words) for part in wanted):
        counter = here / f"asked-{{number}}"
        asked = int(counter.read_text()) if counter.exists() else 0
        counter.write_text(str(asked + 1))
        page, stderr, code = answers[min(asked, len(answers) - 1)]
        print(json.dumps(page) if page is not None else "")
        sys.stderr.write(stderr)
        sys.exit(code)
sys.exit("the stand-in has no answer to " + " ".join(words))
"""


class StandInAws:
    """An `aws` in a folder of its own; the first rule whose words all occur in a call answers it, in order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._rules: list[tuple[tuple[str, ...], tuple[Said, ...]]] = []
        program = folder / "aws"
        program.write_text(_SCRIPT.format(python=sys.executable, here=str(folder)), encoding="utf-8")
        program.chmod(0o755)

    @property
    def path(self) -> str:
        """For PATH: the stand-in comes first."""
        return f"{self.folder}{os.pathsep}{os.environ['PATH']}"

    def says(self, *words: str, answers: Sequence[Said]) -> None:
        """To a call with these words, once each; the last again and again."""
        self._rules.append((words, tuple(answers)))
        plain = [[list(words), [[said.page, said.stderr, said.code] for said in told]] for words, told in self._rules]
        (self.folder / "answers.json").write_text(json.dumps(plain), encoding="utf-8")

    def calls(self) -> list[list[str]]:
        file = self.folder / "calls.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def answer_region(aws: StandInAws, region: str = REGION, prices: Mapping[str, float] = PRICES) -> None:
    """Plausible answers to all that is asked about a region; rules that were given before come first."""
    aws.says("Compute Instance", region, answers=[Said({"PriceList": [node_product(*one) for one in prices.items()]})])
    caches = [cache_product("cache.t4g.small", "Valkey", 0.0288), cache_product("cache.t4g.small", "Redis", 0.036)]
    aws.says("AmazonElastiCache", region, answers=[Said({"PriceList": caches})])
    for code, family in dict.fromkeys((code, family) for code, family, *_ in SERVICES if code == "AmazonEC2"):
        listed = [service_product(*one[1:]) for one in SERVICES if one[:2] == (code, family)]
        aws.says(code, family, region, answers=[Said({"PriceList": listed})])
    for code in ("AmazonEKS", "AmazonVPC", "awskms"):
        listed = [service_product(*one[1:]) for one in SERVICES if one[0] == code]
        aws.says(code, region, answers=[Said({"PriceList": listed})])
    aws.says("savingsplans", region, answers=[Said({"searchResults": plans()})])
    aws.says("describe-spot-price-history", region, answers=[Said({"SpotPriceHistory": spot()})])
