"""Availability zones: letters, which AWS assigns per account, and ids, which are the same for all accounts.

Letters of old regions differ between accounts, and some zones accept no new accounts. So a file is only refused for a
zone that no account has. Only AWS knows the zones of an account: `components.aws.subnets` asks.

Regions that are not in the table are not checked.
"""

import re
from collections.abc import Mapping, Sequence

from ebbtide.settings.file.problems import Finding, Location, wanted
from ebbtide.settings.sections.types import ZONE_ID, ZONE_LETTERS, ZONE_NUMBERS

_KNOWN: Mapping[str, tuple[str, str, str]] = {
    "af-south-1": ("abc", "afs1", "123"),
    "ap-east-1": ("abc", "ape1", "123"),
    "ap-northeast-1": ("acd", "apne1", "124"),
    "ap-northeast-2": ("abcd", "apne2", "1234"),
    "ap-northeast-3": ("abc", "apne3", "123"),
    "ap-south-1": ("abc", "aps1", "123"),
    "ap-south-2": ("abc", "aps2", "123"),
    "ap-southeast-1": ("abc", "apse1", "123"),
    "ap-southeast-2": ("abc", "apse2", "123"),
    "ap-southeast-3": ("abc", "apse3", "123"),
    "ap-southeast-4": ("abc", "apse4", "123"),
    "ap-southeast-5": ("abc", "apse5", "123"),
    "ca-central-1": ("abd", "cac1", "124"),
    "ca-west-1": ("abc", "caw1", "123"),
    "eu-central-1": ("abc", "euc1", "123"),
    "eu-central-2": ("abc", "euc2", "123"),
    "eu-north-1": ("abc", "eun1", "123"),
    "eu-south-1": ("abc", "eus1", "123"),
    "eu-south-2": ("abc", "eus2", "123"),
    "eu-west-1": ("abc", "euw1", "123"),
    "eu-west-2": ("abcd", "euw2", "1234"),
    "eu-west-3": ("abc", "euw3", "123"),
    "il-central-1": ("abc", "ilc1", "123"),
    "me-central-1": ("abc", "mec1", "123"),
    "me-south-1": ("abc", "mes1", "123"),
    "sa-east-1": ("abc", "sae1", "123"),
    "us-east-1": ("abcdef", "use1", "123456"),
    "us-east-2": ("abc", "use2", "123"),
    "us-west-1": ("ab", "usw1", "13"),
    "us-west-2": ("abcd", "usw2", "1234"),
}
"""Letters, the prefix of ids, and the numbers that end them. Source: AWS' answers to
`describe-instance-type-offerings`, as moto 5.2.5 keeps them in moto/ec2/resources (Apache-2.0)."""

_OF_OLD_ACCOUNTS: Mapping[str, tuple[str, str]] = {
    "ap-northeast-1": ("b", "3"),
    "ca-central-1": ("c", "3"),
    "us-west-1": ("c", "2"),
}
"""Letters and numbers of zones that a new account does not get. Source: AWS Regions and Availability Zones."""

WITHOUT_EKS = frozenset(("use1-az3", "usw1-az2", "cac1-az3"))
"""No cluster may have a subnet in these zones. Source: EKS user guide, "Networking requirements for VPC and subnets".
"""


def known_regions() -> tuple[str, ...]:
    return tuple(_KNOWN)


def is_id(zone: str) -> bool:
    return re.fullmatch(ZONE_ID, zone) is not None


def one_way_of_naming(zones: Sequence[object]) -> None:
    """A letter and an id may be the same zone, which AWS would report in the middle of an `up`."""
    names = [zone for zone in zones if isinstance(zone, str)]
    if any(map(is_id, names)) and any(name in ZONE_LETTERS for name in names):
        raise wanted(
            "zones.mixed", "only letters or only ids: a letter and an id may name the same zone", example="[a, b]"
        )


def usual_letters(region: str) -> str:
    """Return the letters that every account has; all possible letters for an unknown region."""
    return _KNOWN[region][0] if region in _KNOWN else ZONE_LETTERS


def usual_id(region: str) -> str:
    """Return an id that every account has, in a known region."""
    _, prefix, numbers = _KNOWN[region]
    return f"{prefix}-az{numbers[0]}"


def zone_findings(zones: Sequence[str], region: str, at: Location) -> list[Finding]:
    """Return findings for zones that no account has or that lack EKS. `at` is the location of the list."""
    return [finding for index, zone in enumerate(zones) for finding in _of_zone(zone, region, (*at, index))]


def _of_zone(zone: str, region: str, at: Location) -> list[Finding]:
    if zone in WITHOUT_EKS:
        expected = "a zone in which EKS creates clusters"
        return [
            Finding(code="zone.without-eks", at=at, wanted=expected, found=repr(zone), example=_names(region, zone)[0])
        ]
    if region not in _KNOWN and is_id(zone) and zone[-1] not in ZONE_NUMBERS:
        expected = "the id of a zone, with a number from 1 to 8"
        return [Finding(code="zone.letter", at=at, wanted=expected, found=repr(zone), example=f"{zone[:-1]}1")]
    if region not in _KNOWN or zone in (*_names(region, zone), *_names(region, zone, old=True)):
        return []
    listed = ", ".join(_names(region, zone))
    return [
        Finding(
            code="zone.not-in-region",
            at=at,
            wanted=f"a zone of {region}: {listed}",
            found=repr(zone),
            example=_names(region, zone)[0],
        )
    ]


def _names(region: str, like: str, *, old: bool = False) -> list[str]:
    """Return zones in the notation of `like`, letters or ids. `old` adds those that only old accounts have."""
    letters, prefix, numbers = _KNOWN.get(region, (ZONE_LETTERS, "", ""))
    if old:
        letters, numbers = _OF_OLD_ACCOUNTS.get(region, ("", ""))
    names = [f"{prefix}-az{number}" for number in numbers] if is_id(like) else list(letters)
    return [name for name in names if name not in WITHOUT_EKS]
