"""The zones and subnets of a network: address ranges, and a check of the zones before any resource is created in them.

**Address ranges.** The VPC has a slot for each possible zone letter, and for each number that a zone id ends with, so
that adding, removing or reordering zones renumbers no other zone. The first half of a slot is private, for nodes and
pods; its third quarter begins with the public subnet; the remainder is reserved. A /16 has 4,096 private and 256 public
addresses per zone, a /20 has 256 and 32. AWS reserves five addresses of each subnet.

**Zones.** AWS assigns zone letters per account and closes full zones to new accounts. For a zone that the account does
not have, AWS refuses the subnet when half of the network exists; for a zone without EKS it refuses the cluster when the
entire network exists. The check fails in the preview instead. Without AWS, as in a rendering, the list of zones is
empty and the check passes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

import pulumi
from pulumi_aws.get_availability_zones import get_availability_zones_output

from ebbtide.settings.sections.types import ZONE_LETTERS
from ebbtide.settings.sections.zones import WITHOUT_EKS, is_id

_SLOT_BITS = (len(ZONE_LETTERS) - 1).bit_length()
_PUBLIC_BITS = 8
_SMALLEST_PUBLIC = 27  # a /27: the smallest subnet in which AWS creates a load balancer


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneSubnets:
    public: str  # CIDR: load balancers and the NAT gateway
    private: str  # CIDR: nodes and pods


def plan_subnets(cidr: str, zones: Sequence[str]) -> dict[str, ZoneSubnets]:
    """Return the subnets of each zone. `cidr` is a block of /16 to /20."""
    block = IPv4Network(cidr)
    slots = list(block.subnets(prefixlen_diff=_SLOT_BITS))
    public_prefix = min(block.prefixlen + _PUBLIC_BITS, _SMALLEST_PUBLIC)
    plan: dict[str, ZoneSubnets] = {}
    for zone in zones:
        private, second_half = slots[_slot(zone)].subnets(prefixlen_diff=1)
        plan[zone] = ZoneSubnets(public=str(next(second_half.subnets(new_prefix=public_prefix))), private=str(private))
    return plan


def _slot(zone: str) -> int:
    """Return the slot of a zone: the position of its letter, or the number in its id minus one."""
    return int(zone[-1]) - 1 if is_id(zone) else ZONE_LETTERS.index(zone)


def zones_of_the_account(
    region: str, zones: Sequence[str], *, parent: pulumi.Resource
) -> Mapping[str, pulumi.Output[str]]:
    """Return the names of the zones for subnets, once AWS has confirmed that the account has all of them."""
    account_zones = get_availability_zones_output(opts=pulumi.InvokeOutputOptions(parent=parent))
    answer_of_aws = pulumi.Output.all(account_zones.names, account_zones.zone_ids)

    def compared(answer: Sequence[Sequence[str]], zone: str) -> str:
        names, ids = answer
        refuse_other_zones(region, zones, dict(zip(names, ids, strict=False)))
        return zone if is_id(zone) else f"{region}{zone}"

    return {zone: answer_of_aws.apply(lambda answer, zone=zone: compared(answer, zone)) for zone in zones}


def refuse_other_zones(region: str, zones: Sequence[str], ids: Mapping[str, str]) -> None:
    """Raise `pulumi.RunError`, which Pulumi shows without a traceback. `ids`: AWS's zone ids by zone name."""
    if not ids:
        return
    id_of = {name.removeprefix(region): id_ for name, id_ in ids.items() if name.startswith(region)}
    id_by_zone = {id_: id_ for id_ in id_of.values()} if any(map(is_id, zones)) else id_of
    usable = sorted(zone for zone, id_ in id_by_zone.items() if id_ not in WITHOUT_EKS)
    wrong = [zone for zone in zones if zone not in usable]
    if wrong:
        without = [zone for zone in wrong if id_by_zone.get(zone) in WITHOUT_EKS]
        why = f"; EKS creates no cluster in {' and '.join(without)}" if without else ""
        raise pulumi.RunError(
            f"ebbtide:cluster.zones: wanted zones of this account in {region} (AWS lists {', '.join(usable)}), found "
            f"{' and '.join(wrong)} (for example [{', '.join(usable[:2])}]){why}; nothing was "
            "changed"
        )
