"""The ledger's shares of workloads beside AWS' split cost allocation of the same month. Pure.

Ours: dollars of nodes at list prices, by requests. AWS': amortised dollars, by the larger of request and use in each
hour, where a vCPU weighs as much as nine GB. So a difference is AWS' dollars less the same at public prices ("by
prices"), and that less ours ("by shares"). What no pod requested is a line of ours; AWS divides what is unused among
pods, and its sum is in the same line here.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ebbtide.lab.ledger.bill.bill import Bill
from ebbtide.lab.ledger.bill.lines import Charge, Part
from ebbtide.lab.ledger.bill.owners import Owner
from ebbtide.lab.ledger.bill.rates import OUTSIDE, nodes_of
from ebbtide.lab.ledger.bill.split import sum_of_known
from ebbtide.lab.ledger.month import NO_POD, OTHER_PODS, UNKNOWN_REQUESTS, CostShare
from ebbtide.text.counts import number_of
from ebbtide.text.sheet import DOLLARS, Cell, Sheet, left, right

MOST_ROWS = 40
"""Rows of workloads in a table; the rest is one row."""
_CENT = 0.005
_NO_NAME = "not attributed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Dollars of one line; None: the side has no such line."""

    name: str
    own_usd: float | None = None
    aws_usd: float | None = None
    listed_usd: float | None = None  # AWS', at public on-demand prices

    @property
    def cells(self) -> Sequence[Cell]:
        own, aws, listed = self.own_usd, self.aws_usd, self.listed_usd
        difference = None if own is None or aws is None else aws - own
        by_price = None if difference is None or listed is None or aws is None else aws - listed
        by_share = None if difference is None or listed is None or own is None else listed - own
        return self.name, own, aws, difference, by_price, by_share


def split_sheets(bill: Bill, shares: Sequence[CostShare] = ()) -> Mapping[str, Sheet]:
    """Return our shares beside AWS', and AWS' workloads that we do not know; empty if the bill has no such rows."""
    if not bill.split_pods:
        return {}
    ours, lines = _ours(shares)
    pairs, others = _paired(ours, bill)
    sheets: dict[str, Sheet] = {}
    if shares:
        rows = [*_shortened([*pairs]), *_remaining(lines, others, bill)]
        sheets["AWS' split of nodes"] = Sheet(
            caption="Our shares are at list prices by requests, AWS' are amortised by the larger of request and use.",
            columns=[
                *left("namespace/workload"),
                *right("ours", "AWS'", "difference", "by prices", "by shares", unit=DOLLARS),
            ],
            rows=[row.cells for row in rows],
            total=("total", _sum(row.own_usd for row in rows), _sum(row.aws_usd for row in rows), "", "", ""),
        )
    if others:
        sheets["other pods by AWS" if shares else "AWS' split of nodes"] = Sheet(
            caption="Workloads that the stack file does not name." if shares else "Amortised, without what is unused.",
            columns=[*left("namespace/workload"), *right("dollars", unit=DOLLARS)],
            rows=[(row.name, row.aws_usd) for row in _shortened(others)],
        )
    return sheets


def placed_sheets(bill: Bill) -> Mapping[str, Sheet]:
    """Return volumes and load balancers by namespace; empty if no tag names one."""
    sums: defaultdict[tuple[Part, str], float] = defaultdict(float)
    for key, amounts in bill.lines.items():
        if key.part in (Part.VOLUMES, Part.BALANCERS) and key.charge is Charge.USAGE:
            sums[key.part, _name(Owner(key.namespace, key.workload))] += amounts.effective
    if all(name == _NO_NAME for _, name in sums):
        return {}
    ranked = sorted(sums.items(), key=lambda entry: (entry[0][0], entry[0][1] == _NO_NAME, -entry[1]))
    return {
        "volumes and load balancers": Sheet(
            caption="By the tags of Kubernetes' drivers. Disks of nodes belong to no namespace.",
            columns=[*left("namespace/Service"), *right("dollars", unit=DOLLARS), *left("line of the bill")],
            rows=[(name, usd, part.value) for (part, name), usd in ranked],
        )
    }


def split_notes(bill: Bill) -> Iterator[str]:
    if bill.unplaced_pods:
        yield (
            "AWS' split of nodes is left out: neither the stack file nor a row names the cluster "
            "(for example context: arn:aws:eks:eu-west-1:111122223333:cluster/prod)."
        )
    if bill.unsplit_pods:
        yield (
            "AWS' split of nodes is left out: the export lacks the columns split_line_item_split_cost, "
            "split_line_item_unused_cost or both."
        )
    if bill.split_pods:
        yield "AWS' split covers the hours of the ledger's month. It divides the nodes' lines and adds nothing to them."
        yield "By prices and by shares offset each other on spot: ours has typical prices, AWS' public ones on demand."
    if any(not pod.workload for pod in bill.split_pods):
        yield "Pods without a workload: activate the cost allocation tags aws:eks:deployment and aws:eks:workload-name."


def _ours(shares: Iterable[CostShare]) -> tuple[Mapping[Owner, float], Mapping[str, float]]:
    """Return dollars of workloads, and of the lines that are no workload ("" for idle)."""
    ours: defaultdict[Owner, float] = defaultdict(float)
    lines: defaultdict[str, float] = defaultdict(float)
    for share in shares:
        if share.idle:
            lines[""] += share.usd
        elif share.workload in (OTHER_PODS, UNKNOWN_REQUESTS):
            lines[share.workload] += share.usd
        else:
            ours[Owner(share.namespace, share.workload)] += share.usd
    return ours, lines


def _paired(ours: Mapping[Owner, float], bill: Bill) -> tuple[Sequence[Compared], Sequence[Compared]]:
    """Return our workloads with AWS' dollars, and AWS' workloads that are none of ours.

    A ledger of an earlier release has no namespaces: its workloads are found by name. A namespace in which AWS names no
    workload is one line; beside named ones, pods without a workload are a line of AWS' other pods.
    """
    unnamed = {pod.namespace for pod in bill.split_pods} - {pod.namespace for pod in bill.split_pods if pod.workload}
    by_name = {owner.workload: owner for owner in ours if not owner.namespace}
    own_usd: defaultdict[Owner, float] = defaultdict(float)
    for owner, usd in ours.items():
        own_usd[Owner(owner.namespace) if owner.namespace in unnamed else owner] += usd
    aws: dict[Owner, tuple[float, float | None]] = {}
    for pod in bill.split_pods:
        owner = Owner(pod.namespace, "" if pod.namespace in unnamed else pod.workload)
        owner = owner if owner in own_usd else by_name.get(pod.workload, owner)
        usd, listed = aws.get(owner, (0.0, 0.0))
        aws[owner] = usd + pod.dollars.usd, sum_of_known((listed, pod.dollars.listed_usd))
    pairs = [
        Compared(
            name=_name(owner),
            own_usd=usd,
            aws_usd=aws[owner][0] if owner in aws else None,
            listed_usd=aws[owner][1] if owner in aws else None,
        )
        for owner, usd in own_usd.items()
    ]
    others = [
        Compared(name=_name(owner, alone=owner.namespace in unnamed), aws_usd=usd, listed_usd=listed)
        for owner, (usd, listed) in aws.items()
        if owner not in own_usd and usd
    ]
    return pairs, others


def _remaining(lines: Mapping[str, float], others: Sequence[Compared], bill: Bill) -> Iterator[Compared]:
    """Yield the lines that are no workload of the stack."""
    yield Compared(
        name=OTHER_PODS,
        own_usd=lines.get(OTHER_PODS),
        aws_usd=_sum(row.aws_usd for row in others),
        listed_usd=sum_of_known(row.listed_usd for row in others),
    )
    unused = sum(pod.dollars.unused_usd for pod in bill.split_pods)
    listed = sum_of_known(pod.dollars.unused_listed_usd for pod in bill.split_pods)
    yield Compared(name=NO_POD, own_usd=lines.get(""), aws_usd=unused, listed_usd=listed)
    if UNKNOWN_REQUESTS in lines:
        yield Compared(name=UNKNOWN_REQUESTS, own_usd=lines[UNKNOWN_REQUESTS])
    if fargate := sum(pod.dollars.fargate_usd for pod in bill.pods):
        yield Compared(name="pods on Fargate", aws_usd=fargate)
    outside = sum(amounts.effective for key, amounts in nodes_of(bill).items() if key.outside)
    left_over = bill.nodes_usd - outside - unused - sum(pod.dollars.usd for pod in bill.split_pods)
    for name, usd in (("nodes' hours that AWS did not split", left_over), (OUTSIDE, outside)):
        if abs(usd) >= _CENT:
            yield Compared(name=name, aws_usd=usd)


def _shortened(rows: Sequence[Compared]) -> Sequence[Compared]:
    """Return the most expensive rows, and one row for the others."""
    ranked = sorted(rows, key=lambda row: -max(row.own_usd or 0.0, row.aws_usd or 0.0))
    shown, rest = ranked[:MOST_ROWS], ranked[MOST_ROWS:]
    if not rest:
        return shown
    return [
        *shown,
        Compared(
            name=number_of(len(rest), "more workload"),
            own_usd=_sum(row.own_usd for row in rest),
            aws_usd=_sum(row.aws_usd for row in rest),
            listed_usd=sum_of_known(row.listed_usd for row in rest if row.aws_usd is not None),
        ),
    ]


def _name(owner: Owner, *, alone: bool = True) -> str:
    """Return the owner's name. `alone`: no workload of its namespace has a name."""
    name = "/".join(filter(None, owner)) or _NO_NAME
    return name if alone or owner.workload or not owner.namespace else f"{name}, {_NO_NAME}"


def _sum(values: Iterable[float | None]) -> float | None:
    """Return the sum of what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
