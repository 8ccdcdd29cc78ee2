"""The monthly cost of a stack: what always runs, all groups at their maximum, and a stated usage.

An autoscaled group has no single price, so there are three. `usd_always` is the cost of the pods that always run, on
the nodes that they need (`ebbtide.preview.cost.always`); a Karpenter node is of the cheapest type that holds its pods.
`usd_at_min`, with each group at its `min`, is kept for one release. A month is 730 hours, as AWS counts it. If a group
may get one of several instance types, the most expensive counts, since AWS or Karpenter chooses; a Karpenter group has
a note with the range. Of a spot group with several sizes each size has its share of `min` and `max`. A plan covers only
a group's `min`; further nodes are on demand (`ebbtide.prices.rates`). Spot groups always have the typical spot price,
since no plan covers them. The nodes' disks are one line: a disk is billed as long as its node exists. Further lines are
the same at any size: the EKS control plane, NAT gateways with their addresses, interface endpoints, the key of the
cluster's secrets, the queues' volume or ElastiCache nodes, and the disks of stateful services, which are billed by
size.

Left out because they depend on use: data through the NAT gateway and between zones, logs, and volumes that the
customer's own objects claim. Load balancers and snapshots have no price in the tables; `not_in_figures` lists the
stack's. Pure: list prices from the shipped tables, no clock (the day is an argument) and no cloud.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from ebbtide.preview.cost.always import Always, karpenter_usd, what_always_runs
from ebbtide.prices import (
    Capacity,
    GroupRate,
    InstanceType,
    NoPrice,
    PricingAssumption,
    estimates_text,
    group_rate,
    has_rate,
    price_date,
    service_price,
    spot_typical,
    unknown_spot_prices,
)
from ebbtide.prices.missing import how_to_price
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.shapes_of_group import parts_of
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.cluster import ControlPlaneTier, SupportType
from ebbtide.settings.sections.eks_versions import STANDARD_SUPPORT_UNTIL
from ebbtide.settings.sections.network import called_services
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.settings.sections.redis import RedisKind
from ebbtide.text.money import HOURS_PER_MONTH as HOURS_PER_MONTH
from ebbtide.text.money import dollars

SPOT = "spot, typical"
_ON_DEMAND = PricingAssumption.ON_DEMAND.value
DISKS = "node disks"
_GP3 = ("ebs", "gp3_storage")  # per GB and month
_SQS_USD_PER_MILLION = {False: 0.40, True: 0.50}
"""US dollars for a million requests, by whether the queue is FIFO. Source: AWS' price list of SQS, us-east-1."""

_PRICED_CLASSES = (None, "gp3")
"""Storage classes that are gp3 on a cluster that Ebbtide creates: none named, or the default one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCost:
    """One line of the estimate, in US dollars a month. Unknown amounts are None; `note` says why."""

    name: str
    node_group: bool  # False for the disks and for lines that are the same at any size
    rate: GroupRate | None  # None for those lines
    usd_always: float | None
    usd_at_min: float | None
    usd_at_max: float | None
    usd_at_usage: float | None  # None also without stated node-hours
    node_hours: float | None  # the stated usage, per month
    assumption: str
    approximate: bool  # the rate comes from a similar reservation's discount, a monthly average or an estimate
    price_date: date
    note: str = ""
    estimated: bool = False  # the on-demand price of one of its types is an estimate


def group_costs(
    settings: StackSettings,
    day: date,
    node_hours: Mapping[str, float] | None = None,
    always: Always | None = None,
) -> tuple[GroupCost, ...]:
    """The lines of the estimate: node groups in the file's order, their disks, then the fixed lines.

    Empty for an existing cluster, whose nodes' cost is not known here. `node_hours` are per month and group, such as
    a replay's; default: `costs.expectedNodeHours`. `day` decides whether the cluster's version has standard support or
    the higher price of extended support, and its year is that of the calendar of what always runs, for
    `always` if the caller has not calculated it.
    """
    if settings.cluster.context is not None:
        return ()
    stated = settings.costs.expected_node_hours if node_hours is None else node_hours
    hours = (always or what_always_runs(settings, day.year)).node_hours
    groups = [
        _group(name, group, settings, hours[name], stated.get(name)) for name, group in settings.node_groups.items()
    ]
    return (*groups, _disks(settings, hours, stated), *_fixed_lines(settings, day))


def unpriced(lines: Sequence[GroupCost]) -> list[str]:
    """The lines without a price, which every sum lacks."""
    return [line.name for line in lines if line.usd_at_min is None]


def price_hint(lines: Sequence[GroupCost], region: str) -> str:
    """Return how to add missing prices; "" if no table can have them, as for volumes of other storage classes."""
    return how_to_price(region) if any(line.usd_at_min is None and line.assumption for line in lines) else ""


def sum_known(lines: Sequence[GroupCost], amount_of: Callable[[GroupCost], float | None]) -> float | None:
    """Add up the lines that have a price; None if no line has a price, or if a priced line lacks this amount."""
    amounts = [amount_of(line) for line in lines if line.usd_at_min is not None]
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known and len(known) == len(amounts) else None


def not_in_figures(settings: StackSettings) -> tuple[str, ...]:
    """Parts of the stack without a line, since the tables have no price for them."""
    if settings.cluster.context is not None:
        return ()
    return (*_tier(settings), *_balancers(settings), *_snapshots(settings), *_counting(settings))


def _tier(settings: StackSettings) -> Iterator[str]:
    tier = settings.cluster.control_plane_tier
    if tier is not ControlPlaneTier.STANDARD:
        yield f"without the control plane's {tier.value}, which AWS bills by the hour in addition to the cluster's fee"


def _balancers(settings: StackSettings) -> Iterator[str]:
    exposed = [name for name, workload in settings.workloads.items() if workload.expose is not None]
    exposed += ["the gateway"] if any(service.route is not None for service in settings.services.values()) else []
    if exposed:
        several = f"{len(exposed)} network load balancers" if len(exposed) > 1 else "a network load balancer"
        yield f"without {several} ({', '.join(exposed)}), which AWS bills by the hour and by traffic"


def _snapshots(settings: StackSettings) -> Iterator[str]:
    taken = [
        f"{name}.{volume_name}"
        for name, workload in settings.all_workloads.items()
        for volume_name, volume in workload.volumes.items()
        if volume.snapshots is not None
    ]
    if taken:
        yield f"without the snapshots of {', '.join(taken)}, which AWS bills by changed data"


def _counting(settings: StackSettings) -> Iterator[str]:
    """Yield the controller's requests: one for each queue and second, fewer while nothing happens."""
    queues = {queue for pool in settings.pools_on_sqs for queue in pool.source.queues}
    millions = HOURS_PER_MONTH * 3600 / 1e6  # of one queue
    usd = sum(millions * _SQS_USD_PER_MILLION[queue.endswith(".fifo")] for queue in queues)
    if queues:
        subject = f"{len(queues)} queues" if len(queues) > 1 else "a queue"
        yield (
            f"without the controller's requests to SQS, which counts the messages of {subject}: at most "
            f"{millions * len(queues):.1f} million a month, {dollars(usd)}"
        )


def disk_usd_per_node_hour(settings: StackSettings, group: NodeGroupSettings) -> float:
    """The hourly cost of a node's disk. Raises `NoPrice`."""
    return service_price(settings.region, *_GP3) * group.disk_size / HOURS_PER_MONTH


def _group(
    name: str,
    group: NodeGroupSettings,
    settings: StackSettings,
    always: Mapping[Capacity, float],
    used: float | None,
) -> GroupCost:
    rate, usd_always, note = None, None, ""
    parts: list[tuple[NodeGroupSettings, GroupRate]] = []
    try:
        rates = _rates(group, settings)
        rate, note = _dearest(rates), _range(group, rates, used)
        parts = [(part, _dearest(_rates(part, settings))) for part in parts_of(name, group).values()]
        usd_always = (
            karpenter_usd(group, [rate.above_usd for rate in rates], always)
            if group.by_karpenter
            else _month(rate, sum(always.values()))
        )
    except NoPrice as unknown:
        spot_note = unknown_spot_prices(settings.region, group.types) or str(unknown)
        note = spot_note if group.kind is NodeKind.SPOT else _no_price(settings.region)
    spot = group.kind is NodeKind.SPOT
    assumption = settings.costs.pricing_assumption
    planned = not spot and group.min > 0 and assumption.approximate
    if planned and rate is not None and (without := _without_rate(group, settings)):
        note = f"no {assumption.value} discount is known for {', '.join(without)}: on demand"
        planned = len(without) < len(group.instance_types)
    purchase = SPOT if spot else _purchase(group, settings, planned=planned)
    estimates = estimates_text(settings.region, group.types)
    return GroupCost(
        name=name,
        node_group=True,
        rate=rate,
        usd_always=usd_always,
        usd_at_min=_total((part.min, rate) for part, rate in parts),
        usd_at_max=_total((part.max, rate) for part, rate in parts),
        usd_at_usage=_month(rate, used),
        node_hours=used,
        assumption=f"{purchase}; {estimates}" if estimates else purchase,
        approximate=spot or planned or bool(estimates),
        price_date=_date(settings.region, spot=spot, plan=planned),
        note=note,
        estimated=bool(estimates),
    )


def _total(nodes: Iterable[tuple[int, GroupRate]]) -> float | None:
    """Return US dollars a month of the sizes of a group, each with its rate; None without any."""
    months = [_month(rate, number * HOURS_PER_MONTH) or 0.0 for number, rate in nodes]
    return sum(months) if months else None


def _range(group: NodeGroupSettings, rates: Sequence[GroupRate], used: float | None) -> str:
    """Return the cost range of a Karpenter group with several types; the table shows the most expensive one."""
    least, most = (end(zip(group.types, rates, strict=True), key=_above) for end in (min, max))
    if not group.by_karpenter or least[1].above_usd == most[1].above_usd:
        return ""
    texts: list[str] = []
    for name, hours in (("at max", group.max * HOURS_PER_MONTH), ("at usage", used)):
        low, high = (_month(rate, hours) for _, rate in (least, most))
        if low is not None and high is not None:
            texts.append(f"{dollars(low)} to {dollars(high)} {name}")
    return f"{', '.join(texts)}: from {least[0].name} to {most[0].name}, as Karpenter chooses"


def _above(priced: tuple[InstanceType, GroupRate]) -> float:
    return priced[1].above_usd


def _no_price(region: str) -> str:
    """One note for all lines: in a region without prices it is shown once, with their names."""
    return f"no price is known in {region}"


def _without_rate(group: NodeGroupSettings, settings: StackSettings) -> list[str]:
    assumption = settings.costs.pricing_assumption
    return [kind.name for kind in group.types if not has_rate(settings.region, kind, assumption)]


def _disks(
    settings: StackSettings, always: Mapping[str, Mapping[Capacity, float]], stated: Mapping[str, float]
) -> GroupCost:
    """Price only the size of gp3 disks: 3,000 operations and 125 MB a second are included, and no stack requests more.

    Source: aws/agent-toolkit-for-aws, `aws-billing-and-cost-management/references/ebs-optimization.md`.
    """
    usd_always = at_min = at_max = at_usage = None
    groups, note = settings.node_groups, ""
    try:
        hourly = {name: disk_usd_per_node_hour(settings, group) for name, group in groups.items()}
        usd_always = sum(hourly[name] * sum(always[name].values()) for name in groups)
        at_min = sum(hourly[name] * group.min * HOURS_PER_MONTH for name, group in groups.items())
        at_max = sum(hourly[name] * group.max * HOURS_PER_MONTH for name, group in groups.items())
        if stated.keys() >= groups.keys():
            at_usage = sum(hourly[name] * stated[name] for name in groups)
    except NoPrice:
        note = _no_price(settings.region)
    return GroupCost(
        name=DISKS,
        node_group=False,
        rate=None,
        usd_always=usd_always,
        usd_at_min=at_min,
        usd_at_max=at_max,
        usd_at_usage=at_usage,
        node_hours=None,
        assumption="gp3, while the nodes exist",
        approximate=False,
        price_date=price_date(settings.region).services,
        note=note,
    )


def _rates(group: NodeGroupSettings, settings: StackSettings) -> list[GroupRate]:
    return [_rate(kind, group, settings) for kind in group.types]


def _rate(kind: InstanceType, group: NodeGroupSettings, settings: StackSettings) -> GroupRate:
    if group.kind is NodeKind.SPOT:
        typical = spot_typical(settings.region, kind)
        return GroupRate(floor=0, floor_usd=typical, above_usd=typical)
    return group_rate(settings.region, kind, settings.costs.pricing_assumption, floor=group.min)


def _dearest(rates: Sequence[GroupRate]) -> GroupRate:
    return GroupRate(
        floor=rates[0].floor,
        floor_usd=max(rate.floor_usd for rate in rates),
        above_usd=max(rate.above_usd for rate in rates),
    )


def _month(rate: GroupRate | None, node_hours: float | None) -> float | None:
    if rate is None or node_hours is None:
        return None
    return rate.usd_per_hour(node_hours / HOURS_PER_MONTH) * HOURS_PER_MONTH


def _purchase(group: NodeGroupSettings, settings: StackSettings, *, planned: bool) -> str:
    if not planned:
        return PricingAssumption.ON_DEMAND.value
    plan = settings.costs.pricing_assumption.value
    return plan if group.min == group.max else f"{plan} for {group.min}, the rest on-demand"


def _control_plane(settings: StackSettings, day: date) -> tuple[str, str]:
    """Return the item of the price table, and the assumption.

    When standard support ends, EKS upgrades the cluster, unless it has extended support: then the price rises.
    """
    until = STANDARD_SUPPORT_UNTIL.get(settings.cluster.version)
    if settings.cluster.support_type is SupportType.EXTENDED and until is not None and until < day:
        return "control_plane_extended_support", f"extended support of {settings.cluster.version} since {until}"
    return "control_plane_standard", _ON_DEMAND


def _units(settings: StackSettings) -> Iterator[tuple[str, str, str, float]]:
    """Lines after the control plane that are the same at any size: name, service, item, and units a month."""
    network, cluster = settings.network, settings.cluster
    gateways = len(network.gateway_zones(cluster.zones))
    karpenter = bool(settings.karpenter_groups)
    called = called_services(
        session_manager=cluster.session_manager, karpenter=karpenter, queues=bool(settings.pools_on_sqs)
    )
    services = called if network.endpoints else ()
    yield _several("NAT gateway", gateways), "vpc", "nat_gateway", gateways * HOURS_PER_MONTH
    addresses = gateways + len(cluster.zones) * len(_public_entrances(settings))
    yield _several("public IPv4 address", addresses), "vpc", "public_ipv4", addresses * HOURS_PER_MONTH
    endpoints = len(services) * len(cluster.zones)
    yield _several("interface endpoint", endpoints), "vpc", "interface_endpoint", endpoints * HOURS_PER_MONTH
    yield "KMS key", "kms", "customer_managed_key", 1
    redis = settings.redis
    volume = redis.storage_mib / 1024 if redis.kind is RedisKind.IN_CLUSTER else 0
    yield "Redis volume", *_GP3, volume
    nodes = 1 + redis.standbys if redis.kind is RedisKind.ELASTICACHE else 0
    yield _several("ElastiCache node", nodes), "elasticache", f"{redis.cache_node}:valkey", nodes * HOURS_PER_MONTH
    volumes = [volume for volume in _volumes(settings) if volume.class_ in _PRICED_CLASSES]
    size = sum(volume.mebibytes * volume.number for volume in volumes) / 1024
    yield _several("service volume", sum(volume.number for volume in volumes)), *_GP3, size


@dataclass(frozen=True, slots=True, kw_only=True)
class _Volumes:
    """One disk of each pod of a service."""

    class_: str | None
    mebibytes: int
    number: int


def _volumes(settings: StackSettings) -> Iterator[_Volumes]:
    for workload in settings.all_workloads.values():
        for volume in workload.volumes.values():
            if volume.per_pod is not None:
                yield _Volumes(class_=volume.class_, mebibytes=volume.per_pod, number=workload.replicas)


def _unpriced_volumes(settings: StackSettings) -> Iterator[GroupCost]:
    """Volumes of the customer's own storage classes, whose price is not known."""
    numbers: dict[str, int] = {}
    for volume in _volumes(settings):
        if volume.class_ is not None and volume.class_ not in _PRICED_CLASSES:
            numbers[volume.class_] = numbers.get(volume.class_, 0) + volume.number
    for class_, number in numbers.items():
        yield _same_at_any_size(
            _several(f"service volume of class {class_}", number),
            None,
            price_date(settings.region).services,
            note=f"not priced: the cost of volumes of class {class_} is not known here",
            assumption="",
        )


def _public_entrances(settings: StackSettings) -> list[str]:
    """Workloads with a public load balancer, which has an address in each zone."""
    entrances = {name: workload.expose for name, workload in settings.workloads.items()}
    exposed = [name for name, expose in entrances.items() if expose is not None and expose.public]
    routed = settings.serving.public and any(service.route is not None for service in settings.services.values())
    return [*exposed, *(["the gateway"] if routed else [])]


def _several(name: str, number: int) -> str:
    return name if number == 1 else f"{name} ({number})"


def _fixed_lines(settings: StackSettings, day: date) -> Iterator[GroupCost]:
    region = settings.region
    item, assumption = _control_plane(settings, day)
    yield _priced_line(region, "EKS control plane", "eks", item, HOURS_PER_MONTH, assumption)
    for name, service, item, units in _units(settings):
        if units:
            yield _priced_line(region, name, service, item, units)
    yield from _unpriced_volumes(settings)


def _priced_line(
    region: str, name: str, service: str, item: str, units: float, assumption: str = _ON_DEMAND
) -> GroupCost:
    month, note = None, ""
    try:
        month = service_price(region, service, item) * units
    except NoPrice:
        note = _no_price(region)
    return _same_at_any_size(name, month, price_date(region).services, note=note, assumption=assumption)


def _same_at_any_size(name: str, month: float | None, priced: date, *, note: str, assumption: str) -> GroupCost:
    return GroupCost(
        name=name,
        node_group=False,
        rate=None,
        usd_always=month,
        usd_at_min=month,
        usd_at_max=month,
        usd_at_usage=month,
        node_hours=None,
        assumption=assumption,
        approximate=False,
        price_date=priced,
        note=note,
    )


def _date(region: str, *, spot: bool, plan: bool) -> date:
    """The oldest price date used for a group."""
    dates = price_date(region)
    if spot:
        return min(dates.on_demand, dates.spot)
    return min(dates.on_demand, dates.plans) if plan else dates.on_demand
