"""Reads the account's availability zones from AWS, before any resource is created in them.

AWS assigns zone letters per account and closes full zones to new accounts. For a zone that the account does not have,
AWS refuses the subnet when half of the network exists; for a zone without EKS it refuses the cluster when all of the
network exists. This check fails in the preview instead.

A rendering gets an empty answer, which refuses nothing.
"""

from collections.abc import Mapping, Sequence

import pulumi
from pulumi_aws.get_availability_zones import get_availability_zones_output

from ebbtide.settings.sections.zones import WITHOUT_EKS, is_id


def zones_of_the_account(
    region: str, zones: Sequence[str], *, parent: pulumi.Resource
) -> Mapping[str, pulumi.Output[str]]:
    """Each zone as a subnet names it, once AWS has said that the account has all of them."""
    found = get_availability_zones_output(opts=pulumi.InvokeOutputOptions(parent=parent))
    asked = pulumi.Output.all(found.names, found.zone_ids)

    def compared(answer: Sequence[Sequence[str]], zone: str) -> str:
        names, ids = answer
        refuse_other_zones(region, zones, dict(zip(names, ids, strict=False)))
        return zone if is_id(zone) else f"{region}{zone}"

    return {zone: asked.apply(lambda answer, zone=zone: compared(answer, zone)) for zone in zones}


def refuse_other_zones(region: str, zones: Sequence[str], found: Mapping[str, str]) -> None:
    """`found`: ids by name, as AWS answered. Raises `pulumi.RunError`, which Pulumi shows without a traceback."""
    if not found:
        return
    id_of = {name.removeprefix(region): id_ for name, id_ in found.items() if name.startswith(region)}
    known = {id_: id_ for id_ in id_of.values()} if any(map(is_id, zones)) else id_of
    usable = sorted(zone for zone, id_ in known.items() if id_ not in WITHOUT_EKS)
    wrong = [zone for zone in zones if zone not in usable]
    if wrong:
        without = [zone for zone in wrong if known.get(zone) in WITHOUT_EKS]
        why = f"; in {' and '.join(without)} EKS makes no cluster" if without else ""
        raise pulumi.RunError(
            f"ebbtide:cluster.zones: wanted zones that this account has in {region}, which are {', '.join(usable)} as "
            f"AWS answers, found {' and '.join(wrong)} (for example [{', '.join(usable[:2])}]){why}; nothing was "
            "changed"
        )
