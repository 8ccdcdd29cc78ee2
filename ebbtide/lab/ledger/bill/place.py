"""The cluster that a row belongs to: by the cluster's name, region and account. Pure.

A customer may have several stacks, so the tag of the customer alone does not tell which cluster caused a charge. The
account of a cluster follows from a row with the cluster's ARN. Account ids do not leave this package.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ebbtide.lab.ledger.bill.report import LineItem
from ebbtide.lab.ledger.month import LedgerError
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.cluster import EKS_ARN, ClusterKind
from ebbtide.text.counts import number_of

_REGION = re.compile(r"[a-z]{2}(?:-[a-z]+)+-\d")
_ARN = re.compile(r"arn:[\w-]+:[\w-]*:(?P<region>[\w-]*):")
_OF_CLUSTER = re.compile(rf"{EKS_ARN}(?:cluster|pod)/(?P<name>[\w-]+)")
_NAME_TAGS = ("aws_eks_cluster_name", "eks_cluster_name", "eks_eks_cluster_name", "alpha_eksctl_io_cluster_name")


@dataclass(frozen=True, slots=True)
class Place:
    """The region, account and cluster of a charge. A field is "" if the row does not name it."""

    region: str
    account: str
    cluster: str = ""


def place_of(row: LineItem, tags: Mapping[str, str]) -> Place:
    """Return the place of a row. Keys of tags have underscores only."""
    cluster = _OF_CLUSTER.match(row.line_item_resource_id)
    if cluster is not None:
        return Place(cluster["region"], cluster["account"], cluster["name"])
    arn = _ARN.match(row.line_item_resource_id)
    product = (str(row.product.get(key, "")) for key in ("region_code", "region"))
    names = (arn["region"] if arn else "", row.product_region_code, *product, row.line_item_availability_zone)
    region = next((match[0] for name in names if (match := _REGION.match(name))), "")
    name = next((tags[key] for key in _NAME_TAGS if tags.get(key)), "")
    return Place(region, row.line_item_usage_account_id, name)


@dataclass(frozen=True, slots=True)
class StackCluster:
    """The stack's cluster; "" for what the stack file does not name."""

    name: str
    region: str
    account: str = ""

    def is_named(self, place: Place) -> bool:
        """Return True if the place names this cluster, in this region."""
        return bool(place.cluster) and (place.cluster, place.region) == (self.name, self.region)

    def excludes(self, place: Place) -> bool:
        """Return True if the place names another region, cluster or account."""
        pairs = ((place.region, self.region), (place.cluster, self.name), (place.account, self.account))
        return any(own and found and own != found for found, own in pairs)

    def in_account(self, accounts: Iterable[str]) -> "StackCluster":
        """Return the cluster in the account whose rows have its ARN. Raises `LedgerError` if there are several."""
        found = {*accounts} if not self.account else {self.account}
        if len(found) > 1:
            raise LedgerError(
                f"--bill: {number_of(len(found), 'account')} have a cluster {self.name} in {self.region}: wanted one, "
                "since only the account tells their rows apart (for example an export of the cluster's account)"
            )
        return StackCluster(self.name, self.region, *found)

    def several(self, own: Iterable[Place], regions: Iterable[str]) -> str:
        """Return one message if the rows of an unnamed cluster are of several. `regions`: with nodes or a cluster."""
        if self.name:
            return ""
        named = [place for place in own if place.cluster]
        values = {
            "cluster name": {place.cluster for place in named},
            "account": {place.account for place in named},
            "region": {*regions} - {""},
        }
        several = " and ".join(number_of(len(each), what) for what, each in values.items() if len(each) > 1)
        if not several:
            return ""
        return (
            f"--bill: wanted rows of one cluster, found {several} under this customer's tag, and the stack file "
            "does not name its cluster (for example context: arn:aws:eks:eu-west-1:111122223333:cluster/prod)"
        )


def cluster_of(settings: StackSettings) -> StackCluster:
    """Return the cluster of a stack: on EKS it has the customer's name; a context may be the ARN of a cluster."""
    arn = settings.cluster.arn
    if arn is not None:
        return StackCluster(arn["name"], arn["region"], arn["account"])
    return StackCluster(settings.customer if settings.cluster.kind is ClusterKind.EKS else "", settings.stated_region)
