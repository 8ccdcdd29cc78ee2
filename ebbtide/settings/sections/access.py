"""Access to a cluster's API: source addresses and IAM principals.

EKS accepts access entries for roles and users, not for sessions of a role, which `aws sts get-caller-identity` prints;
a copied session ARN gets a hint with the role's ARN.
"""

import re
from collections.abc import Sequence
from ipaddress import IPv4Network, ip_network
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator

from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.grammar import text_schema
from ebbtide.text.addresses import PRIVATE, SHARED

MOST_RANGES = 40
"""Maximum CIDR ranges of one public endpoint. Source: Amazon EKS service quotas."""

WIDEST_PREFIX = 8
"""Shorter prefixes cannot be an owner's networks: two ranges of /1 would be the entire internet."""

PRINCIPAL = r"^arn:aws:iam::\d{12}:(role|user)/([\w+=,.@/-]+/)?[\w+=,.@-]{1,64}$"
"""Includes the path before the name; only the name has a limit. Source: "IAM and AWS STS quotas"."""

_LONGEST = 64  # letters of a role's or user's name
_RANGE_EXAMPLE = "203.0.113.0/24"
_ROLE_EXAMPLE = "arn:aws:iam::123456789012:role/platform"
_FOREIGN = re.compile(r"arn:aws(-[a-z]+)+:")
_SESSION = re.compile(r"arn:aws:sts::(\d{12}):assumed-role/([\w+=,.@-]+)/.+")

_OWN_RANGE_EXAMPLE = "10.20.0.0/16"

_PRIVATE = tuple(map(IPv4Network, (*PRIVATE, SHARED)))
_RESERVED = tuple(map(IPv4Network, ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")))


def parse_public_range(value: object) -> str:
    """Accept a public address range no wider than an owner's own networks."""
    expected = "a range of public IPv4 addresses, with its prefix"
    network = _network(value, expected, _RANGE_EXAMPLE)
    if any(network.overlaps(private) for private in _PRIVATE):
        hint = "the public endpoint never sees such an address; privateAccess is for your own networks"
        raise wanted("public-range.private", expected, example=_RANGE_EXAMPLE, hint=hint)
    return str(network)


def parse_private_range(value: object) -> str:
    """Accept a private range, which reaches the VPC by peering, a transit gateway or a VPN."""
    expected = "a range of private IPv4 addresses, with its prefix"
    network = _network(value, expected, _OWN_RANGE_EXAMPLE)
    if not any(network.subnet_of(private) for private in _PRIVATE):
        hint = "addresses of the internet belong in publicAccess"
        raise wanted("private-range.public", expected, example=_OWN_RANGE_EXAMPLE, hint=hint)
    return str(network)


def _network(value: object, expected: str, example: str) -> IPv4Network:
    try:
        network = ip_network(value, strict=False) if isinstance(value, str) else None
    except ValueError:
        network = None
    if network is None:
        raise wanted("range.form", expected, example=example)
    if network.prefixlen == 0:
        hint = "this allows every address: any client on the internet could try credentials on the API"
        raise wanted("range.everybody", expected, example=example, hint=hint)
    if not isinstance(network, IPv4Network):
        raise wanted("range.not-ipv4", expected, example=example, hint="the cluster's addresses are IPv4")
    if str(network) != value:
        raise wanted("range.first-address", expected, example=example, hint=f"did you mean {network}?")
    if network.prefixlen < WIDEST_PREFIX:
        raise wanted("range.too-wide", f"a range no wider than /{WIDEST_PREFIX}", example=example)
    if any(network.overlaps(reserved) for reserved in _RESERVED):
        raise wanted("range.reserved", expected, example=example, hint="reserved addresses reach nothing")
    return network


def parse_principal(value: object) -> str:
    """Accept the ARN of an IAM role or user, with its path."""
    if isinstance(value, str) and re.fullmatch(PRINCIPAL, value) and "/aws-service-role/" not in value:
        return value
    code, hint = _principal_fault(value)
    raise wanted(code, "the ARN of an IAM role or user", example=_ROLE_EXAMPLE, hint=hint)


def _principal_fault(value: object) -> tuple[str, str]:
    """Return code and hint."""
    text = value if isinstance(value, str) else ""
    if session := _SESSION.fullmatch(text):
        account, role = session.groups()
        hint = f"a session has no access entry; its role is arn:aws:iam::{account}:role/{role}, with its path"
        return "principal.session", hint
    if text.endswith(":root"):
        return "principal.root", "the account's root has no entry; name a role"
    if _FOREIGN.match(text):
        return "principal.other-partition", "a cluster in arn:aws: knows no principal of another partition"
    if "/aws-service-role/" in text:
        return "principal.service-role", "a service's own role takes no entry"
    name = text.rpartition("/")[2]
    return "principal.form", f"its name has {len(name)} letters, IAM takes {_LONGEST}" if len(name) > _LONGEST else ""


def at_most_forty(ranges: Sequence[object]) -> None:
    if len(ranges) > MOST_RANGES:
        actual = f"{len(ranges)} ranges"
        raise wanted(
            "ranges.too-many",
            f"at most {MOST_RANGES} ranges, which is what EKS takes",
            found=actual,
            example=f'["{_RANGE_EXAMPLE}"]',
        )


def viewers_are_no_admins(admins: Sequence[str], viewers: Sequence[str]) -> None:
    """A cluster has one access entry per principal."""
    both = next((principal for principal in viewers if principal in admins), None)
    if both is not None:
        raise wanted(
            "principal.admin-and-viewer",
            "each principal in admins or in viewers",
            found=f"{both!r} in both",
            at="viewers",
        )


_RANGE_SCHEMA = text_schema(r"^\d{1,3}(\.\d{1,3}){3}/([89]|[12]\d|3[0-2])$")

PublicRange: TypeAlias = Annotated[str, BeforeValidator(parse_public_range), _RANGE_SCHEMA]
PrivateRange: TypeAlias = Annotated[str, BeforeValidator(parse_private_range), _RANGE_SCHEMA]
Principal: TypeAlias = Annotated[str, BeforeValidator(parse_principal), text_schema(PRINCIPAL)]
