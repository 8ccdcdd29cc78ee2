"""Read a bill: rows by the tag `ebbtide.dev/customer` and by the cluster, added up.

A bill's month is in UTC, so its first or last hours may lie outside the ledger's month. Rows without a customer's tag
(taxes, credits, plans) belong to the entire organisation: they are counted apart and never divided.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from ebbtide.lab.ledger.bill.bill import Bill, BillKey, LeftOut
from ebbtide.lab.ledger.bill.deliveries import Deliveries, Repeated, Sighting
from ebbtide.lab.ledger.bill.lines import (
    COMMITMENTS,
    SEPARATE_CHARGES,
    BilledAmounts,
    Charge,
    Charged,
    Part,
    Pricing,
    charges_of,
    instance_type_of,
    is_spot,
    part_of,
)
from ebbtide.lab.ledger.bill.owners import Owner, owner_of, owner_of_pod
from ebbtide.lab.ledger.bill.place import Place, StackCluster, cluster_of, place_of
from ebbtide.lab.ledger.bill.report import BadRow, Faults, LineItem, Uncharged, Where, read_rows
from ebbtide.lab.ledger.bill.split import PodDollars, PodShare, has_split_costs, is_split, split_dollars
from ebbtide.lab.ledger.month import ON_DEMAND, SPOT, LedgerError, Month
from ebbtide.settings.capacity.node_sets import with_node_sets
from ebbtide.settings.model import StackSettings
from ebbtide.text.pages import page_command

_OTHER_SIGN = re.compile(r"[^a-z0-9]+")
_CUSTOMER, _GROUP = "ebbtide_dev_customer", "ebbtide_dev_node_group"
_UNITS = {"Hrs": "Hours", "GB-Mo": "GB-Months", "GB": "GB", "LCU-Hrs": "LCU-Hours", "Requests": "Requests"}


@dataclass(slots=True)
class _Rows:
    """The rows of one place, added up, and what forbids to use them."""

    lines: dict[BillKey, BilledAmounts] = field(default_factory=dict[BillKey, BilledAmounts])
    left_out: dict[str, LeftOut] = field(default_factory=dict[str, LeftOut])
    faults: Faults = field(default_factory=Faults)
    repeated: Repeated = field(default_factory=Repeated)
    node_hours: set[datetime] = field(default_factory=set[datetime])  # in UTC

    @property
    def has_cluster(self) -> bool:
        return any(key.part in (Part.NODES, Part.CLUSTER) for key in self.lines)

    def include(self, other: "_Rows") -> None:
        for key, amounts in other.lines.items():
            self.lines.setdefault(key, BilledAmounts()).add(amounts)
        for what, left_out in other.left_out.items():
            self.left_out.setdefault(what, LeftOut(left_out.currency)).add(left_out)
        self.faults.include(other.faults)
        self.repeated.include(other.repeated)
        self.node_hours |= other.node_hours


def _together(places: Iterable[_Rows]) -> _Rows:
    together = _Rows()
    for rows in places:
        together.include(rows)
    return together


@dataclass(slots=True)
class _Reader:
    """Adds up rows. Text of the report is kept only as long as the reader itself."""

    month: Month
    customer: str
    groups: frozenset[str]
    cluster: StackCluster
    files: dict[int, str] = field(default_factory=dict[int, str])  # names by number
    places: dict[Place, _Rows] = field(default_factory=dict[Place, _Rows])  # of this customer
    others: _Rows = field(default_factory=_Rows)  # of other customers, and of none
    pods: dict[Place, dict[Owner, PodDollars]] = field(default_factory=dict[Place, dict[Owner, PodDollars]])
    deliveries: Deliveries = field(default_factory=Deliveries)
    accounts: set[str] = field(default_factory=set[str])  # with a row that names the cluster
    shared_usd: dict[Charge, float] = field(default_factory=lambda: dict.fromkeys(Charge, 0.0))
    committed_usd: float = 0.0
    used_usd: float = 0.0
    unused_reservation_usd: float = 0.0
    shared_capacity_usd: float = 0.0
    unsplit_pods: bool = False
    months: set[str] = field(default_factory=set[str])
    customers: bool = False
    has_net: bool = False
    has_discount: bool = False

    def add(self, where: Where, row: LineItem) -> None:
        """Add a row. Its faults are kept with its place."""
        period = f"{row.bill_billing_period_start_date:%Y-%m}"
        self.months.add(period)
        if period != self.month.name:
            return
        tags = {
            _OTHER_SIGN.sub("_", key.lower()).removeprefix("user_"): str(tag or "")
            for key, tag in row.resource_tags.items()
        }
        self.files[where.file] = where.name
        customer, place = tags.get(_CUSTOMER, ""), place_of(row, tags)
        self.customers |= bool(customer)
        if self.cluster.is_named(place):
            self.accounts.add(place.account)
            place = replace(place, cluster="")  # most rows of the cluster lack its name
        split, pod = is_split(row), self._pod(row, tags, place)
        own = customer == self.customer and not split
        rows = self.places.setdefault(place, _Rows()) if own else self.others
        try:
            if not split:
                self._add(row, tags, rows, pod, where.file)
            elif pod is not None:
                self._add_share(row, pod, where.file)
        except BadRow as fault:
            if customer in ("", self.customer) or _is_of_all(row):
                rows.faults.note(str(where), str(fault))

    def _pod(self, row: LineItem, tags: Mapping[str, str], place: Place) -> PodDollars | None:
        """Return the dollars of the row's pod; None for rows without a pod, of other clusters or of other hours."""
        owner = owner_of_pod(row, tags)
        if owner is None or self.cluster.excludes(place) or not self._is_inside(row):
            return None
        return self.pods.setdefault(place, {}).setdefault(owner, PodDollars())

    def _is_inside(self, row: LineItem) -> bool:
        return self.month.begin <= row.line_item_usage_start_date < self.month.end

    def _add_share(self, row: LineItem, pod: PodDollars, file: int) -> None:
        """Add AWS' share of a node for a pod, which is no charge. Raises `BadRow`."""
        try:
            charges_of(row)
        except Uncharged as fault:
            self.others.left_out.setdefault(fault.what, LeftOut(fault.currency)).add(LeftOut(fault.currency, 1))
            return
        if not has_split_costs(row):
            self.unsplit_pods = True
            return
        share = split_dollars(row)
        sighting, first = self.deliveries.sighting(row, file)
        if sighting is Sighting.NEW:
            pod.add(share)
        elif sighting is Sighting.CHANGED:
            self.others.repeated.changed += 1
            self.others.repeated.files |= {first, file}

    def _add(self, row: LineItem, tags: Mapping[str, str], rows: _Rows, pod: PodDollars | None, file: int) -> None:
        """Add a charge. `pod`: of a pod on Fargate. Raises `BadRow`."""
        customer, group = tags.get(_CUSTOMER, ""), tags.get(_GROUP, "")
        fault, charges = None, ()
        try:
            charges = charges_of(row)
        except Uncharged as uncharged:
            fault = uncharged
        self.has_net |= row.line_item_net_unblended_cost is not None
        self.has_discount |= any(charge in (Charge.DISCOUNT, Charge.ADJUSTMENT) for charge, _, _ in charges)
        if customer not in ("", self.customer) and not (fault or _is_of_all(row)):
            return
        sighting, first = self.deliveries.sighting(row, file, (customer, group))
        if sighting is Sighting.EQUAL:
            return
        if sighting is Sighting.CHANGED:
            rows.repeated.changed += 1
            rows.repeated.files |= {first, file}
            return
        if fault is not None:
            cost = row.first("line_item_unblended_cost")
            rows.left_out.setdefault(fault.what, LeftOut(fault.currency)).add(LeftOut(fault.currency, 1, cost))
            if customer == self.customer:
                raise fault
            return
        self._add_plans(row, charges)
        if pod is not None:
            pod.fargate_usd += sum(amounts.effective for _, _, amounts in charges)
        if customer == self.customer:
            self._own(row, tags, charges, rows)
            # Credits, refunds, discounts, taxes and negations repeat the hours of the usage that they are for.
            is_usage = any(charge is Charge.USAGE for charge, _, _ in charges)
            if is_usage and (full := self.deliveries.overfull(row, file)) is not None:
                rows.repeated.overfull += 1
                rows.repeated.files |= {full, file}
        elif not customer:
            for charge, _, amounts in charges:
                self.shared_usd[charge] += amounts.effective
                if part_of(row) is Part.UNUSED_CAPACITY and charge is Charge.USAGE:
                    self.shared_capacity_usd += amounts.effective

    def _add_plans(self, row: LineItem, charges: Sequence[Charged]) -> None:
        if row.line_item_line_item_type == "SavingsPlanRecurringFee":
            self.committed_usd += row.first("savings_plan_total_commitment_to_date")
            self.used_usd += row.first("savings_plan_used_commitment")
        elif row.line_item_line_item_type == "RIFee":
            self.unused_reservation_usd += sum(amounts.effective for _, _, amounts in charges)

    def _own(self, row: LineItem, tags: Mapping[str, str], charges: Sequence[Charged], rows: _Rows) -> None:
        part, group = part_of(row), tags.get(_GROUP, "")
        owner = owner_of(part, tags)
        is_node = part is Part.NODES
        begin, quantity = row.line_item_usage_start_date, row.first("line_item_usage_amount")
        for charge, pricing, amounts in charges:
            if is_node and charge is Charge.USAGE:
                _check_node(row)
                rows.node_hours.add(begin.replace(minute=0, second=0, microsecond=0))
            key = BillKey(
                outside=not self._is_inside(row),
                part=part,
                charge=charge,
                pricing=pricing,
                group=group if is_node and group in self.groups else "",
                instance_type=instance_type_of(row) if is_node else "",
                capacity_type=(SPOT if is_spot(row) else ON_DEMAND) if is_node else "",
                namespace=owner.namespace,
                workload=owner.workload,
                unit=_UNITS.get(row.pricing_unit, "Hours" if is_node else "Units"),
                correction=charge is Charge.REFUND and begin < row.bill_billing_period_start_date,
            )
            # The hours of a refund are those of the usage: counted in both, they would be twice in a sum.
            amounts.quantity = quantity if charge in (Charge.USAGE, Charge.PURCHASE) else 0.0
            rows.lines.setdefault(key, BilledAmounts()).add(amounts)

    def bill(self, faults: Faults) -> Bill:
        """Add up the rows of the cluster. Raises `LedgerError` with all faults of rows that it needs."""
        cluster = self.cluster.in_account(self.accounts)
        own, elsewhere, unplaced = self._sorted(cluster)
        stack, foreign = _together(own.values()), _together((self.others, *elsewhere.values(), *unplaced.values()))
        faults.include(stack.faults)
        faults.include(self.others.faults)
        stack.repeated.include(self.others.repeated)
        several = cluster.several(own, (place.region for place, rows in own.items() if rows.has_cluster))
        faults.refuse(several, stack.repeated.fault(self.files))
        dropped = Charge.DISCOUNT if self.has_net else None  # net costs include discounts
        lines: dict[BillKey, BilledAmounts] = {}
        for key, amounts in stack.lines.items():
            if key.charge is not dropped:
                of_usage = replace(key, charge=Charge.USAGE) if key.charge is Charge.DISCOUNT else key
                lines.setdefault(of_usage, BilledAmounts()).add(amounts)
        sums = dict.fromkeys((*Part, *Charge), 0.0)
        listed, contracted = dict.fromkeys(Pricing, 0.0), dict.fromkeys(Pricing, 0.0)
        for key, amounts in lines.items():
            sums[key.charge if key.charge in SEPARATE_CHARGES else key.part] += amounts.effective
            if (key.part, key.charge) == (Part.NODES, Charge.USAGE):
                listed[key.pricing] += amounts.listed
                contracted[key.pricing] += amounts.contracted
        has_private_prices = contracted[Pricing.STANDARD] < listed[Pricing.STANDARD] - 0.005
        has_split = any(dollars.on_nodes for pods in self.pods.values() for dollars in pods.values())
        coverable = listed[Pricing.COMMITTED] + listed[Pricing.STANDARD]
        return Bill(
            month=self.month,
            lines=lines,
            parts={part: sums[part] for part in Part if sums[part]},
            apart={charge: sums[charge] for charge in SEPARATE_CHARGES if sums[charge]},
            shared_usd={charge: usd for charge, usd in self.shared_usd.items() if usd and charge is not dropped},
            elsewhere_usd=_effective(elsewhere.values(), dropped),
            unplaced_usd=_effective(unplaced.values(), dropped),
            left_out=foreign.left_out,
            equal_rows=self.deliveries.equal,
            has_discounts=self.has_net or self.has_discount or has_private_prices,
            committed_usd=self.committed_usd,
            utilisation=self.used_usd / self.committed_usd if self.committed_usd else None,
            unused_reservation_usd=self.unused_reservation_usd,
            shared_capacity_usd=self.shared_capacity_usd,
            coverage=listed[Pricing.COMMITTED] / coverable if coverable else None,
            accounts=len({place.account for place in own}),
            pods=tuple(
                PodShare(namespace=owner.namespace, workload=owner.workload, dollars=dollars)
                for owner, dollars in sorted(self._pods_of(cluster, own).items())
            ),
            unplaced_pods=has_split and not _name_of(cluster, own),
            unsplit_pods=self.unsplit_pods,
            node_hours=dict(sorted(Counter(hour.date() for hour in stack.node_hours).items())),
        )

    def _pods_of(self, cluster: StackCluster, own: Iterable[Place]) -> Mapping[Owner, PodDollars]:
        """Return AWS' dollars of the cluster's pods; empty if neither the stack file nor its rows name the cluster."""
        own = [*own]
        name, there = _name_of(cluster, own), {(place.region, place.account) for place in own}
        together: dict[Owner, PodDollars] = {}
        for place, pods in self.pods.items():
            if name and (place.cluster or cluster.name) == name and (place.region, place.account) in there:
                for owner, dollars in pods.items():
                    together.setdefault(owner, PodDollars()).add(dollars)
        return together

    def _sorted(self, cluster: StackCluster) -> tuple[Mapping[Place, _Rows], ...]:
        """Return the rows of the cluster, those of other clusters, and those that may belong to either."""
        elsewhere = {place: rows for place, rows in self.places.items() if cluster.excludes(place)}
        shared = {place.account for place, rows in elsewhere.items() if rows.has_cluster}
        rest = {place: rows for place, rows in self.places.items() if place not in elsewhere}
        unplaced = {place: rows for place, rows in rest.items() if not place.region and place.account in shared}
        return {place: rows for place, rows in rest.items() if place not in unplaced}, elsewhere, unplaced


def _name_of(cluster: StackCluster, own: Iterable[Place]) -> str:
    """Return the cluster's name in the stack file, or else in its rows; "" if there is none."""
    return cluster.name or next((place.cluster for place in own if place.cluster), "")


def _is_of_all(row: LineItem) -> bool:
    """Return True for plans and reservations, whose use is stated for the entire report."""
    return row.line_item_line_item_type in COMMITMENTS


def _check_node(row: LineItem) -> None:
    if row.line_item_usage_end_date - row.line_item_usage_start_date > timedelta(hours=1):
        raise BadRow("line_item_usage_end_date: wanted rows of one hour (TIME_GRANULARITY HOURLY), found longer ones")
    if not row.line_item_resource_id:
        raise BadRow("line_item_resource_id: wanted the id of each node (INCLUDE_RESOURCES), found an empty cell")


def _effective(places: Iterable[_Rows], dropped: Charge | None) -> float:
    return sum(amounts.effective for rows in places for key, amounts in rows.lines.items() if key.charge is not dropped)


def read_bill(files: Sequence[Path], settings: StackSettings, month: Month) -> Bill:
    """Read the bill of a stack and month. Raises `LedgerError` with all faults."""
    faults = Faults()
    groups = frozenset(with_node_sets(settings).node_groups)
    reader = _Reader(month, settings.customer, groups, cluster_of(settings))
    for where, row in read_rows(files, faults):
        reader.add(where, row)
    bill = reader.bill(faults)
    if month.name not in reader.months:
        others = ", ".join(sorted(reader.months)) or "no row at all"
        raise LedgerError(f"--bill: wanted the billing period {month.name}, found {others}")
    if not reader.customers:
        raise LedgerError(
            "--bill: no row has the tag ebbtide.dev/customer: wanted it activated as a cost allocation tag before "
            f"{month.name} ({page_command('cost-tags')})"
        )
    if not bill.lines:
        raise LedgerError(f"--bill: no charge of {month.name} {_wanted(settings.customer, reader.cluster, bill)}")
    return bill


def _wanted(customer: str, cluster: StackCluster, bill: Bill) -> str:
    tag = f"has the tag ebbtide.dev/customer={customer}"
    return f"in {cluster.region} {tag}: all are in other regions, clusters or accounts" if bill.elsewhere_usd else tag
