"""What is allowed and still worth a word: warnings, one sentence each."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta

from ebbtide.prices import Capacity, priced_regions
from ebbtide.settings.cluster import ClusterKind, SupportType
from ebbtide.settings.controller import CONTROLLER_IMAGE
from ebbtide.settings.egress import AWS_AUTHORITIES, authorities
from ebbtide.settings.exceptions import ended
from ebbtide.settings.images import DIGEST
from ebbtide.settings.kubernetes_versions import STANDARD_SUPPORT_UNTIL
from ebbtide.settings.model import StackSettings
from ebbtide.settings.network import Nat
from ebbtide.settings.node_groups import NodeGroupSettings
from ebbtide.settings.placement import smallest_node
from ebbtide.settings.workers import SourceKind
from ebbtide.vocabulary.labels import Category, NodeKind
from ebbtide.vocabulary.windows import BusinessHours

EXCEPTIONS_LAST = timedelta(days=366)
HOLIDAYS_END_SOON = timedelta(days=60)
SUPPORT_ENDS_SOON = timedelta(days=60)  # an upgrade wants a test on another stack first, and a quiet day


def warnings_of(settings: StackSettings, today: date | None = None) -> tuple[str, ...]:
    """The warnings about a valid stack, in the order of the file. `today` defaults to the clock's."""
    day = today or datetime.now(UTC).date()
    return (
        *_about_hours(settings.business_hours.hours(tuple(range(day.year, day.year + 3))), day),
        *_about_holidays(settings, day),
        *_about_region(settings),
        *_about_cluster(settings),
        *_about_version(settings, day),
        *_about_controller(settings),
        *_about_images(settings),
        *_about_addresses(settings),
        *_about_a_closed_network(settings),
        *_about_egress(settings),
        *_about_readiness(settings),
        *_about_pools(settings),
        *told_too_late(settings),
        *_about_exceptions(settings, day),
    )


def _about_hours(hours: BusinessHours, day: date) -> Iterator[str]:
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    if hours.next_change(noon) is None:
        yield "businessHours: never closed, so budgets never open and flexible workloads pin their nodes"
    until = hours.holidays_known_until
    if until is not None and until - day < HOLIDAYS_END_SOON:
        yield f"businessHours.holidays: the list ends on {until}; past it, holidays count as working days"


def _about_holidays(settings: StackSettings, day: date) -> Iterator[str]:
    calendar = settings.business_hours.holidays
    if not calendar.open:
        return
    bare = settings.business_hours.model_copy(update={"holidays": calendar.model_copy(update={"open": ()})})
    closed = bare.hours(tuple(range(day.year, day.year + 3))).closed_dates
    for open_day in calendar.open:
        if open_day >= day and open_day not in closed:
            yield f"businessHours.holidays.open: {open_day} is no holiday, so this changes nothing"


def _about_region(settings: StackSettings) -> Iterator[str]:
    if settings.cluster.context is None and settings.region not in priced_regions():
        yield f"no prices are known for this stack's region; there are some for {', '.join(priced_regions())}"


def _about_version(settings: StackSettings, day: date) -> Iterator[str]:
    cluster = settings.cluster
    if cluster.kind is not ClusterKind.EKS or STANDARD_SUPPORT_UNTIL[cluster.version] - day > SUPPORT_ENDS_SOON:
        return
    until = STANDARD_SUPPORT_UNTIL[cluster.version]
    what = f"cluster.version: EKS supports {cluster.version} at the usual price until {until}"
    if cluster.support_type is SupportType.EXTENDED:
        yield f"{what}; from then on the control plane costs six times as much"
    else:
        yield f"{what} and upgrades it after that, on a day of its own choice; choose one before"


def _about_cluster(settings: StackSettings) -> Iterator[str]:
    if settings.cluster.context is not None and settings.cluster.cluster_id is None:
        yield (
            "cluster.clusterId: not set, so the stack goes to whatever cluster the context leads to; "
            "ebbtide probe prints the one to write here"
        )


def _about_controller(settings: StackSettings) -> Iterator[str]:
    image = settings.controller.image
    if "@sha256:" not in image:
        which = "the default image" if image == CONTROLLER_IMAGE else "the image"
        yield f"controller.image: {which} is not named by digest, so it can change without a change here"


def _about_images(settings: StackSettings) -> Iterator[str]:
    for section, named in (("workloads", settings.workloads), ("workers", settings.workers)):
        for name, entry in named.items():
            last = entry.image.rpartition("/")[2]
            if DIGEST not in entry.image and (":" not in last or last.endswith(":latest")):
                yield f"{section}.{name}.image: without a version, so two of its pods may run different code"


def _about_addresses(settings: StackSettings) -> Iterator[str]:
    room, zones = settings.network.nodes_per_zone(), len(settings.cluster.zones)
    nodes = sum(-(-group.max // zones) for group in settings.node_groups.values())
    if room is not None and nodes > room:
        yield (
            f"network.cidr: a zone has addresses for {room} nodes at most, and the groups may have {nodes} there; "
            "the block cannot be changed later"
        )


def _about_a_closed_network(settings: StackSettings) -> Iterator[str]:
    """Whether each image comes from a registry inside is not ours to know; of those that Ebbtide brings it is."""
    if settings.network.nat is Nat.NONE and settings.images.registry is None:
        yield (
            "network.nat: with none, nodes pull images only from ECR in their region and from registries that their "
            "network reaches otherwise; images.registry, which is not set, names a mirror for those that Ebbtide brings"
        )


def _about_egress(settings: StackSettings) -> Iterator[str]:
    bundle = settings.egress.ca_bundle
    if bundle is not None and not authorities(bundle) & AWS_AUTHORITIES:
        yield (
            "egress.caBundle: it replaces the list in the images and holds no authority of Amazon's, so calls to AWS "
            "that do not pass the proxy will fail; append your certificates to the public list"
        )


def _about_readiness(settings: StackSettings) -> Iterator[str]:
    flexible = [name for name, workload in settings.workloads.items() if workload.category is Category.FLEXIBLE]
    if flexible:
        yield f"workloads: {ready_at_once(flexible)}; the stack file has no key for a probe yet"


def ready_at_once(names: Sequence[str]) -> str:
    """What is lost without a readiness probe. `minReadySeconds` would not help: budgets count pods that are ready."""
    return (
        f"flexible and without a readiness probe: {', '.join(names)}. A pod counts as ready as soon as it has started, "
        "so by night the next one may leave before it serves, and one at a time does not hold"
    )


def told_too_late(settings: StackSettings) -> Iterator[str]:
    """Spot nodes, whose drain the closed budgets of workers refuse until the node goes down: docs/spot.md."""
    for name, pool in settings.workers.items():
        group = settings.node_groups.get(pool.node_group)
        if group is not None and group.kind is NodeKind.SPOT:
            yield (
                f"workers.{name}.nodeGroup: {pool.node_group} buys spot nodes, whose workers are not told to stop "
                "before their node goes: EKS asks the budget, which is closed. They take jobs until then, so let only "
                "jobs run there that may start again (docs/spot.md)"
            )


def _about_pools(settings: StackSettings) -> Iterator[str]:
    for name, pool in settings.workers.items():
        if len(pool.source.queues) > 1:
            yield (
                f"workers.{name}.source.queues: with several queues a job can be in none of them for a moment; "
                "only the safe worker class closes that gap, one queue per pool needs nothing"
            )
        if pool.source.kind is SourceKind.CELERY:
            yield (
                f"workers.{name}.source: Redis does not tell which Celery worker has a task; without the report hooks "
                "of ebbtide.jobs in the image the pool shrinks only when nothing at all runs"
            )
        if not pool.safe_stop:
            yield f"workers.{name}.safeStop: without a safe stop the pool shrinks only where nothing can be lost"
    yield from _about_room(settings)


def _about_exceptions(settings: StackSettings, day: date) -> Iterator[str]:
    for index, given in enumerate(settings.exceptions):
        if ended(given, day):
            yield (
                f"exceptions[{index}]: the one from {given.policy} for {given.resource} ended on {given.until}, so the "
                "policy counts again; repair the cause, or give the exception a new last day"
            )
        elif given.until - day > EXCEPTIONS_LAST:
            yield f"exceptions[{index}].until: {given.until} is more than a year away; who will remember the reason?"


def _about_room(settings: StackSettings) -> Iterator[str]:
    """Each group against all its pools at their max, whole nodes per pool: a bound, exact for pools that fill nodes."""
    nodes: dict[str, int] = {}
    for pool in settings.workers.values() if settings.node_groups else ():
        node = smallest_node(settings.node_groups[pool.node_group].instance_types)
        each = _copies(node, pool.cpu, pool.memory, pool.gpu)
        nodes[pool.node_group] = nodes.get(pool.node_group, 0) + -(-pool.max // each)
    yield from _too_small(nodes, settings.node_groups)


def _copies(node: Capacity, cpu: int, memory: int, gpu: int) -> int:
    return max(1, node.copies(cpu=cpu, memory=memory, gpu=gpu))


def _too_small(nodes: Mapping[str, int], groups: Mapping[str, NodeGroupSettings]) -> Iterator[str]:
    for name, needed in nodes.items():
        if needed > groups[name].max:
            yield (
                f"nodeGroups.{name}.max: {groups[name].max} nodes, while its worker pools at their max need {needed}; "
                "jobs will wait although their pool may still grow"
            )
