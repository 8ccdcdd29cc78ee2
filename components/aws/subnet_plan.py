"""The address ranges of each zone's subnets. Plain data: no cloud.

The VPC has a slot for each zone letter there may be, and for each number that an id ends with, so that adding, removing
or reordering zones renumbers no other zone. Half of a slot is private, for nodes and pods, and its third quarter begins
with the public subnet; the rest is left for what comes later. In a /16 that makes 4,096 private addresses and 256
public ones per zone, in a /20 there are 256 and 32. AWS keeps five of each subnet for itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

from ebbtide.settings.sections.types import ZONE_LETTERS
from ebbtide.settings.sections.zones import is_id

_SLOT_BITS = (len(ZONE_LETTERS) - 1).bit_length()
_PUBLIC_BITS = 8
_SMALLEST_PUBLIC = 27  # what a load balancer asks for; with fewer addresses AWS makes none in the subnet


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneSubnets:
    public: str  # CIDR: load balancers and the NAT gateway
    private: str  # CIDR: nodes and pods


def plan_subnets(cidr: str, zones: Sequence[str]) -> dict[str, ZoneSubnets]:
    """The subnets of each zone in a block of /16 to /20."""
    block = IPv4Network(cidr)
    slots = list(block.subnets(prefixlen_diff=_SLOT_BITS))
    public_prefix = min(block.prefixlen + _PUBLIC_BITS, _SMALLEST_PUBLIC)
    plan: dict[str, ZoneSubnets] = {}
    for zone in zones:
        private, rest = slots[_slot(zone)].subnets(prefixlen_diff=1)
        plan[zone] = ZoneSubnets(public=str(next(rest.subnets(new_prefix=public_prefix))), private=str(private))
    return plan


def _slot(zone: str) -> int:
    """Return the slot of a zone: the place of its letter, or the number of its id less one."""
    return int(zone[-1]) - 1 if is_id(zone) else ZONE_LETTERS.index(zone)
