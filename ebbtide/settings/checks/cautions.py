"""Warnings about valid but risky settings, each with a stable code."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta

from ebbtide.prices import estimates_text, priced_regions, shipped_on_demand, usable
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.packing import (
    Packing,
    groups_of,
    lasting_pods,
    mounts_alone,
    nodes_at_maximum,
    pod_requests,
    room_for_next,
)
from ebbtide.settings.capacity.placement import copies, fits, offered, room_on_disk, takes
from ebbtide.settings.capacity.pods import gateway_entrance
from ebbtide.settings.capacity.process_documents import sleepers_of
from ebbtide.settings.capacity.shapes_of_group import parts_of
from ebbtide.settings.checks.architectures import architecture_cautions
from ebbtide.settings.checks.brokers import broker_cautions
from ebbtide.settings.checks.commands import command_cautions
from ebbtide.settings.checks.foreseen import policy_breaches
from ebbtide.settings.checks.spot_cautions import spot_cautions
from ebbtide.settings.declared import declared_pods, owned_entries, rolling_pods
from ebbtide.settings.file.keys import RAY
from ebbtide.settings.file.problems import Caution, path_text
from ebbtide.settings.fragment.values import containers
from ebbtide.settings.model import StackSettings
from ebbtide.settings.never_asleep import never_asleep
from ebbtide.settings.sections.adopted import Replicas, deployment_of, without_replicas
from ebbtide.settings.sections.brokers import BrokerSettings
from ebbtide.settings.sections.business_hours import BusinessHoursSettings
from ebbtide.settings.sections.calendars import working_weekends_until
from ebbtide.settings.sections.checkpoints import CheckpointSettings
from ebbtide.settings.sections.cluster import ClusterKind, SupportType
from ebbtide.settings.sections.controller import CONTROLLER_IMAGE
from ebbtide.settings.sections.egress import AWS_AUTHORITIES, authorities
from ebbtide.settings.sections.eks_versions import STANDARD_SUPPORT_UNTIL
from ebbtide.settings.sections.exceptions import ended
from ebbtide.settings.sections.images import DIGEST
from ebbtide.settings.sections.network import Nat
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.settings.sections.pods.aws import BucketAccess
from ebbtide.settings.sections.pods.env import EnvVariable
from ebbtide.settings.sections.pods.pod import PodSettings
from ebbtide.settings.sections.serving.gateway import Implementation
from ebbtide.settings.sections.serving.routes import RouteProtocol
from ebbtide.settings.sections.serving.scale import ScaleSettings
from ebbtide.settings.sections.serving.services import SINGLE_VARIANT
from ebbtide.settings.sections.week import format_minutes
from ebbtide.settings.sections.workers import SourceKind, WorkerSettings
from ebbtide.settings.sections.workloads import WorkloadKind, WorkloadSettings
from ebbtide.settings.sections.zones import usual_id, usual_letters
from ebbtide.text.counts import first_names
from ebbtide.text.quantities import memory_text
from ebbtide.vocabulary.labels import Category
from ebbtide.vocabulary.windows import BusinessHours

EXCEPTIONS_LAST = timedelta(days=366)
_HOLIDAYS_END_SOON = timedelta(days=60)
SUPPORT_ENDS_SOON = timedelta(days=60)  # time to test the upgrade on another stack


_SECRET_NAME = re.compile(r"(^|[-_.])(password|passwd|pwd|passphrase|secret|token|key|credentials?)$", re.IGNORECASE)
_PUBLIC_NAME = re.compile(r"public[-_.]?key$", re.IGNORECASE)
_LOGIN = re.compile(r"://[^/@:\s]*:[^/@\s]+@")
"""A password in a URL, as in postgres://name:password@host."""


def warnings_of(settings: StackSettings, today: date | None = None) -> tuple[Caution, ...]:
    """Return the warnings about a valid stack, in the order of the file. `today` defaults to the current date."""
    day = today or datetime.now(UTC).date()
    return (
        *_about_hours(settings.business_hours.hours(tuple(range(day.year, day.year + 3))), day),
        *_about_holidays(settings, day),
        *_about_working_weekends(settings.business_hours, day),
        *_about_region(settings),
        *_about_prices(settings),
        *_about_zones(settings),
        *_about_cluster(settings),
        *_about_version(settings, day),
        *_about_controller(settings),
        *_about_images(settings),
        *architecture_cautions(settings),
        *_about_addresses(settings),
        *_about_a_closed_network(settings),
        *_about_egress(settings),
        *_about_readiness(settings),
        *_about_sleep(settings, day),
        *_about_lone_pods(settings),
        *_about_releases(settings),
        *_about_queries(settings),
        *_about_protocols(settings),
        *_about_events(settings, day),
        *_about_entrances(settings),
        *_about_plain_secrets(settings),
        *_about_disks(settings),
        *_about_pools(settings),
        *broker_cautions(settings),
        *command_cautions(settings),
        *_about_adopted_pools(settings),
        *_about_adopted_sleep(settings),
        *_about_room(settings),
        *_about_sizes(settings),
        *spot_cautions(settings),
        *_about_policies(settings, day),
        *_about_exceptions(settings, day),
        *_about_expired(settings, day),
    )


def _about_sleep(settings: StackSettings, day: date) -> Iterator[Caution]:
    hours = settings.business_hours.hours(tuple(range(day.year, day.year + 3)))
    for policy in sleepers_of(settings):
        if policy.idle_after is None and (why := never_asleep(policy, hours, day)):
            sections = {"workloads": settings.workloads, "adopted": settings.adopted}
            section = next((key for key, entries in sections.items() if policy.name in entries), "services")
            yield Caution(
                "sleep.never", f"{section}.{policy.name}.sleep", f"it never sleeps in an ordinary week: {why}"
            )


def _about_policies(settings: StackSettings, day: date) -> Iterator[Caution]:
    for code, policy, resources, path, text, blocks in policy_breaches(settings):
        exceptions = [entry for entry in settings.exceptions if entry.policy == policy and entry.resource in resources]
        if all(ended(exception, day) for exception in exceptions):
            yield Caution(code, path, f"policy {policy}: {text}", blocks=blocks)


def _about_hours(hours: BusinessHours, day: date) -> Iterator[Caution]:
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    if hours.next_change(noon) is None:
        text = "never closed, so budgets never open and flexible workloads keep their nodes"
        yield Caution("hours.never-closed", "businessHours", text)
    if text := holidays_end_text(hours, day):
        yield Caution("holidays.end-soon", "businessHours.holidays", text)


def holidays_end_text(hours: BusinessHours, day: date) -> str:
    """Return a warning if the known holidays end soon after the day; empty if they do not."""
    until = hours.holidays_known_until
    if until is None or until - day >= _HOLIDAYS_END_SOON:
        return ""
    return f"the list of holidays ends on {until}; after that, holidays count as working days"


def _about_holidays(settings: StackSettings, day: date) -> Iterator[Caution]:
    calendar = settings.business_hours.holidays
    if not calendar.open:
        return
    bare = settings.business_hours.model_copy(update={"holidays": calendar.model_copy(update={"open": ()})})
    years = tuple(range(day.year, day.year + 3))
    hours, ordinary = settings.business_hours.hours(years), bare.hours(years)
    for opened in calendar.open:
        if opened.date >= day and hours.intervals_on(opened.date) == ordinary.intervals_on(opened.date):
            text = f"{opened.date} is a working day anyway, so this entry changes nothing"
            yield Caution("holidays.open-without-effect", "businessHours.holidays.open", text)
        usual = ordinary.intervals_on(opened.date)
        lost = sorted(_minutes(usual) - _minutes(hours.intervals_on(opened.date)))
        if opened.date >= day and lost:
            starts = [minute for minute in lost if minute - 1 not in lost]
            ends = [minute + 1 for minute in lost if minute + 1 not in lost]
            text = (
                f"{opened.date} is a working day, {_intervals_text(usual)}; these hours take its place, so budgets are "
                f"open at {_intervals_text([*zip(starts, ends, strict=True)])}"
            )
            yield Caution("holidays.open-shorter", "businessHours.holidays.open", text)


def _intervals_text(intervals: Sequence[tuple[int, int]]) -> str:
    return ", ".join(format_minutes(start, end) for start, end in intervals)


def _minutes(intervals: Sequence[tuple[int, int]]) -> set[int]:
    return {minute for start, end in intervals for minute in range(start, end)}


def _about_working_weekends(hours: BusinessHoursSettings, day: date) -> Iterator[Caution]:
    """Warn near the end of the list, unless the file has an open or closed date after it."""
    calendar = hours.holidays
    if calendar.country is None:
        return
    works = {interval.weekday for interval in hours.week}
    until = working_weekends_until(calendar.country, calendar.subdivision, day, works=works)
    named_dates = (*calendar.closed, *(interval.date for interval in calendar.open))
    if until and abs(until - day) < _HOLIDAYS_END_SOON and all(interval <= until for interval in named_dates):
        text = (
            f"the working weekends of {calendar.country} are listed until {until}; name later ones, on which budgets "
            "stay closed by day, in holidays.open (or one in holidays.closed, if there is none)"
        )
        yield Caution("holidays.working-weekends-end", "businessHours.holidays", text)


def _about_region(settings: StackSettings) -> Iterator[Caution]:
    if settings.cluster.context is None and settings.region not in priced_regions():
        text = (
            "no prices are known for this region, so no cost is calculated; "
            f"ebbtide prices update --region {settings.region} reads them from AWS"
        )
        yield Caution("region.no-prices", "aws:region", text)


def _about_prices(settings: StackSettings) -> Iterator[Caution]:
    """Report estimates, since they decide placement. A type without a price may be one that the region lacks."""
    if settings.cluster.context is not None or settings.region not in priced_regions():
        return
    for name, group in settings.node_groups.items():
        path, types = f"nodeGroups.{name}.instanceTypes", group.types
        if estimates := estimates_text(settings.region, types):
            text = (
                f"price of {estimates}; costs use it, and so does the choice of node groups for pods without nodeGroup"
            )
            yield Caution("node-group.price-estimated", path, text)
        if missing := ", ".join(kind.name for kind in types if shipped_on_demand(settings.region, kind) is None):
            text = f"no price is known for {missing} in {settings.region}: check that AWS offers it there"
            yield Caution("node-group.no-price", path, text)


def _about_version(settings: StackSettings, day: date) -> Iterator[Caution]:
    cluster, path = settings.cluster, "cluster.version"
    if cluster.kind is not ClusterKind.EKS:
        return
    if "version" not in cluster.model_fields_set:
        text = f'not set, so the cluster stays on {cluster.version}; write version: "{cluster.version}"'
        yield Caution("kubernetes-version.unset", path, text)
    until = STANDARD_SUPPORT_UNTIL.get(cluster.version)
    if until is None:
        text = (
            f"this release knows no autoscaler, no add-ons and no end of support for {cluster.version}: those of the "
            "stack file are used, and Ebbtide's tests do not cover them"
        )
        yield Caution("kubernetes-version.newer", path, text)
    elif until - day <= SUPPORT_ENDS_SOON:
        ended = until < day
        support = f"EKS {'ended' if ended else 'ends'} standard support of {cluster.version} on {until}"
        if cluster.support_type is SupportType.EXTENDED:
            text = f"{support}; {'since then' if ended else 'from then on'} the control plane costs six times as much"
            yield Caution("kubernetes-version.dear-soon", path, text)
        else:
            before = "now, before EKS does" if ended else "before that"
            text = f"{support} and upgrades the cluster after that, on a day that EKS chooses; upgrade {before}"
            yield Caution("kubernetes-version.upgraded-soon", path, text)


def _about_zones(settings: StackSettings) -> Iterator[Caution]:
    """Warn about default zones only: the author of a file that names zones knows the account."""
    cluster = settings.cluster
    usual = usual_letters(settings.region)
    if cluster.context is None and "zones" not in cluster.model_fields_set and not {*cluster.zones} <= {*usual}:
        text = (
            f"not set, so it is [{', '.join(cluster.zones)}], which newer accounts do not have in {settings.region}: "
            f"name two or more of {', '.join(usual)}, or those that your account has (ids will do: "
            f"{usual_id(settings.region)})"
        )
        yield Caution("zones.of-old-accounts", "cluster.zones", text)


def _about_cluster(settings: StackSettings) -> Iterator[Caution]:
    if settings.cluster.context is not None and settings.cluster.cluster_id is None:
        text = (
            "not set, so the stack is deployed to whatever cluster the context leads to; "
            "ebbtide probe prints the id to write here"
        )
        yield Caution("cluster-id.not-set", "cluster.clusterId", text)


def _about_controller(settings: StackSettings) -> Iterator[Caution]:
    image = settings.controller.image
    if "@sha256:" not in image:
        which = "the default image" if image == CONTROLLER_IMAGE else "the image"
        text = f"{which} has no digest, so it can change without a change of this file"
        yield Caution("image.no-digest", "controller.image", text)


def _about_images(settings: StackSettings) -> Iterator[Caution]:
    images = {entry.path: entry.pod.image for entry in declared_pods(settings) if entry.at[0] != RAY}
    images |= {f"ray.{name}": cluster.image for name, cluster in settings.ray.items()}
    for entry in declared_pods(settings):
        for at, container in containers(entry.pod.pod):
            if isinstance(image := container.get("image"), str):
                images[path_text((entry.path, "pod", *at))] = image
    for path, image in images.items():
        last = image.rpartition("/")[2]
        if DIGEST not in image and (":" not in last or last.endswith(":latest")):
            text = "without a version, so two of its pods may run different code"
            yield Caution("image.no-version", f"{path}.image", text)


def _about_addresses(settings: StackSettings) -> Iterator[Caution]:
    room, zones = settings.network.nodes_per_zone(), len(settings.cluster.zones)
    managed = [part for name, group in settings.node_groups.items() for part in parts_of(name, group).values()]
    nodes = sum(-(-part.max // zones) for part in managed)
    if room is not None and nodes > room:
        text = (
            f"a zone has addresses for {room} nodes at most, and the groups may have {nodes} there; "
            "the block cannot be changed later"
        )
        yield Caution("cidr.too-few-addresses", "network.cidr", text)


def _about_a_closed_network(settings: StackSettings) -> Iterator[Caution]:
    """Only the network's owner knows which registries it reaches; the images that Ebbtide brings need a mirror."""
    if settings.network.nat is Nat.NONE and settings.images.registry is None:
        text = (
            "with none, nodes pull images only from ECR in their region and from registries that their network "
            "reaches otherwise; set images.registry to a mirror of the images that Ebbtide brings"
        )
        yield Caution("nat.no-mirror", "network.nat", text)


def _about_egress(settings: StackSettings) -> Iterator[Caution]:
    bundle = settings.egress.ca_bundle
    if bundle is not None and not authorities(bundle) & AWS_AUTHORITIES:
        text = (
            "it replaces the list in the images and contains no Amazon authority, so calls to AWS that do not pass "
            "the proxy will fail; append your certificates to the public list"
        )
        yield Caution("ca-bundle.without-amazon", "egress.caBundle", text)


def _about_readiness(settings: StackSettings) -> Iterator[Caution]:
    silent = [
        name
        for name, workload in settings.all_workloads.items()
        if workload.category is Category.FLEXIBLE and not _says_when_ready(workload)
    ]
    if silent:
        yield Caution("workloads.no-readiness-probe", "workloads", no_readiness_text(silent))


def _about_lone_pods(settings: StackSettings) -> Iterator[Caution]:
    for name, service in settings.services.items():
        for variant, pods in service.variants.items():
            sleeps = pods.sleep is not None and pods.sleep.sleeps
            if pods.category is Category.FLEXIBLE and pods.scale.min < 2 and not (pods.spot or sleeps):
                path = f"services.{name}.variants.{variant}" if variant else f"services.{name}"
                text = (
                    f"with {pods.scale.min} its last pod is never evicted at night, since requests would fail "
                    "meanwhile, and its node stays; with 2 one pod is evicted while the other serves"
                )
                yield Caution("scale.lone-pod", f"{path}.scale.min", text)


def _about_protocols(settings: StackSettings) -> Iterator[Caution]:
    """Gateway API lets each gateway decide about a host with both protocols; Envoy Gateway serves both."""
    if settings.serving.implementation is Implementation.ENVOY_GATEWAY:
        return
    routes = {name: service.route for name, service in settings.services.items() if service.route is not None}
    plain = {route.host: name for name, route in routes.items() if route.protocol is RouteProtocol.HTTP}
    for name, route in routes.items():
        if route.protocol is RouteProtocol.GRPC and route.host in plain:
            text = (
                f"{plain[route.host]} serves HTTP under this host, and a gateway other than Envoy's may serve only "
                "one of the two: give the service with gRPC its own host"
            )
            yield Caution("route.grpc-beside-http", f"services.{name}.route.host", text)


def _about_queries(settings: StackSettings) -> Iterator[Caution]:
    for path, scale in _scales(settings):
        if scale.metrics.query is not None:
            from ebbtide.settings.sections.serving.queries import has_one_series  # see `sections.serving.scale`

            if not has_one_series(scale.metrics.query.promql):
                text = (
                    "may have several series, which is an error for KEDA: the number of pods then stays unchanged; "
                    "aggregate it to one, with sum(…) or max(…) around it and no labels kept"
                )
                yield Caution("scale.query-several", f"{path}.scale.metrics.query.promql", text)


def _about_events(settings: StackSettings, day: date) -> Iterator[Caution]:
    for path, scale in _scales(settings):
        for index, event in enumerate(scale.events):
            if event.until.date() < day:
                text = f"over since {event.until:%Y-%m-%d %H:%M}, so it has no effect"
                yield Caution("floor.event-past", f"{path}.scale.events[{index}]", text)


def _scales(settings: StackSettings) -> Iterator[tuple[str, ScaleSettings]]:
    """Yield each scale with its path; a scale shared by all variants is the service's."""
    for name, service in settings.services.items():
        scales = {variant: pods.scale for variant, pods in service.variants.items()}
        first, *further_scales = scales.values()
        if all(scale == first for scale in further_scales):
            scales = {SINGLE_VARIANT: first}
        for variant, scale in scales.items():
            yield f"services.{name}.variants.{variant}" if variant else f"services.{name}", scale


def _says_when_ready(workload: WorkloadSettings) -> bool:
    """A port implies a probe, and no pod is ready before its startup probe succeeds."""
    return bool(workload.ports or workload.probes.readiness or workload.probes.startup)


def no_readiness_text(names: Sequence[str]) -> str:
    """`minReadySeconds` would not help: budgets count pods that are ready."""
    return (
        f"flexible and without a readiness probe: {', '.join(names)}. A pod counts as ready as soon as it has started, "
        "so outside business hours the next pod may be evicted before this one serves: more than one may be down at "
        "once. Add probes.readiness, or the ports that it serves: the first one is then probed"
    )


def _about_plain_secrets(settings: StackSettings) -> Iterator[Caution]:
    """Detect secrets by the variable's name or by a login in a URL. Values are never shown."""
    for path, pod in _pods(settings):
        for name, variable in pod.env.items():
            if _looks_secret(name, variable):
                text = (
                    "looks like a secret in plain text, readable by everyone who may read this file or the pod; keep "
                    "it in a Secret and write { secret: NAME, key: KEY } here"
                )
                yield Caution("env.looks-secret", f"{path}.env.{name}", text)


def _looks_secret(name: str, variable: EnvVariable) -> bool:
    """File paths are never secrets."""
    value = variable.value or ""
    if not value or value.startswith("/"):
        return False
    name_is_secret = _SECRET_NAME.search(name) is not None and _PUBLIC_NAME.search(name) is None
    return name_is_secret or _LOGIN.search(value) is not None


def _pods(settings: StackSettings) -> Iterator[tuple[str, PodSettings]]:
    yield from ((entry.path, entry.pod) for entry in rolling_pods(settings))


def _about_disks(settings: StackSettings) -> Iterator[Caution]:
    """The size of a scratch volume is a limit, not a request, so the scheduler ignores it."""
    for path, pod in _pods(settings):
        scratch = sum(volume.scratch or 0 for volume in pod.volumes.values())
        room = _disk_room(settings, pod)
        if pod.ephemeral_storage is not None and scratch > pod.ephemeral_storage:
            text = (
                f"scratch volumes of {memory_text(scratch)} together, while ephemeralStorage lets the pod take "
                f"{memory_text(pod.ephemeral_storage)} of the disk: it is evicted before they are full"
            )
            yield Caution("scratch.above-limit", f"{path}.volumes", text)
        elif room is not None and scratch > room * 1024:
            text = (
                f"scratch volumes of {memory_text(scratch)} together, while the disk of its node has room for "
                f"{room}Gi: the disk is full before they are, and pods are evicted; raise diskSize of the node group"
            )
            yield Caution("scratch.above-disk", f"{path}.volumes", text)


def _disk_room(settings: StackSettings, pod: PodSettings) -> int | None:
    """Return GiB of the smallest disk of the nodes that the pod may run on, or None for an existing cluster."""
    rooms = [room_on_disk(group.disk_size) for group in _homes(settings, pod)]
    return min(rooms, default=None)


def _homes(settings: StackSettings, pod: PodSettings) -> Iterator[NodeGroupSettings]:
    for name, group in settings.node_groups.items():
        if isinstance(pod, WorkloadSettings):
            if takes(group, pod):
                yield group
        elif isinstance(pod, WorkerSettings) and name in settings.groups_of(pod):
            yield group


def _about_entrances(settings: StackSettings) -> Iterator[Caution]:
    """Load balancers target fixed nodes: see `components.pods.entrance`."""
    exposed = {name: workload.expose for name, workload in settings.workloads.items() if workload.expose is not None}
    paths = {f"workloads.{name}.expose": expose for name, expose in exposed.items()}
    gateway = gateway_entrance(settings)
    if gateway is not None:
        exposed["the gateway"] = gateway
        paths |= {"serving": gateway} if settings.serving.tls is None else {}
    for path, expose in paths.items():
        if expose.public and expose.certificate is None and not expose.sources:
            text = "open to the internet without a certificate, so its traffic can be read in transit"
            yield Caution("expose.public-in-the-clear", path, text)
    fixed = sum(group.min for group in settings.node_groups.values() if group.kind is NodeKind.FIXED)
    if exposed and fixed < 2:
        text = (
            f"load balancers reach {', '.join(exposed)} through the fixed nodes, and there may be only one: "
            "while it is replaced, no request gets in"
        )
        yield Caution("expose.one-fixed-node", "nodeGroups", text)


def _several_queues(pool: WorkerSettings, broker: BrokerSettings | None) -> str:
    """Return the caution about several queues; empty if they do no harm."""
    if broker is None:
        return (
            "with several queues a job can be missing from all of them for a moment; the safe worker class closes "
            "that gap, or give each queue its own pool"
        )
    if pool.source.kind is SourceKind.CONSUMER:
        return (
            "AmqpWorker and SqsWorker serve one queue each: give each queue its own pool, unless your workers serve all"
        )
    if broker.on_sqs:
        return (
            "Celery polls each queue of SQS by itself, so a worker may hold a second task while its first runs; give "
            "each queue its own pool"
        )
    return ""


def _about_pools(settings: StackSettings) -> Iterator[Caution]:
    for name, pool in settings.workers.items():
        if len(pool.source.queues) > 1 and (text := _several_queues(pool, settings.broker_of(pool))):
            yield Caution("source.several-queues", f"workers.{name}.source.queues", text)
        on_aws = settings.cluster.kind is ClusterKind.EKS
        if on_aws and pool.checkpoints is not None and not _may_write(pool, pool.checkpoints):
            text = (
                f"nothing gives its pods the right to {pool.checkpoints.bucket}: add aws: {{ buckets: {{ "
                f"{pool.checkpoints.bucket}: read-write-delete }} }}, unless they have their own credentials"
            )
            yield Caution("checkpoints.no-rights", f"workers.{name}.checkpoints.store", text)
        if not pool.safe_stop:
            text = "without a safe stop the pool shrinks only where no job can be lost"
            yield Caution("safe-stop.none", f"workers.{name}.safeStop", text)


def _about_adopted_sleep(settings: StackSettings) -> Iterator[Caution]:
    for name, rule in settings.adopted.items():
        if rule.sleep is not None and rule.sleep.sleeps and not rule.sleep.keeps:
            scale = rule.sleep.scale
            text = (
                f"a tool that writes spec.replicas of {scale.kind} {scale.name} at each sync, such as Argo CD or Flux, "
                "wakes it at night; replicas: kept prevents that"
            )
            yield Caution("adopted.sleep-of-owner", f"adopted.{name}.sleep.scale.replicas", text)


def _about_adopted_pools(settings: StackSettings) -> Iterator[Caution]:
    for name, rule in settings.adopted.items():
        if rule.pool is None:
            continue
        if rule.pool.replicas is Replicas.ABSENT:
            deployment = deployment_of(name, rule)
            text = f"the owner of Deployment {deployment} must not write spec.replicas. {without_replicas(deployment)}"
            yield Caution("adopted.replicas-of-owner", f"adopted.{name}.pool.replicas", text)
        if not rule.pool.safe_stop:
            text = "without a safe stop the pool only grows; set true if a worker ends its job after SIGTERM"
            yield Caution("safe-stop.none", f"adopted.{name}.pool.safeStop", text)


def _may_write(pool: WorkerSettings, saves: CheckpointSettings) -> bool:
    """True if the pod's role may write to the bucket, or if external policies or roles may allow it."""
    if saves.bucket is None or pool.service_account is not None:
        return True
    rights = pool.aws
    if rights is None:
        return any(name.startswith("AWS_") for name in pool.env) or bool(pool.env_from)
    more_rights = rights.role is not None or bool(rights.policies)
    return more_rights or rights.buckets.get(saves.bucket) is BucketAccess.READ_WRITE_DELETE


def _about_exceptions(settings: StackSettings, day: date) -> Iterator[Caution]:
    for index, exception in enumerate(settings.exceptions):
        if ended(exception, day):
            text = (
                f"the exception from {exception.policy} for {exception.resource} ended on {exception.until}, so the "
                "policy counts again; repair the cause, or give the exception a new last day"
            )
            yield Caution("exception.ended", f"exceptions[{index}]", text)
        elif exception.until - day > EXCEPTIONS_LAST:
            text = (
                f"{exception.until} is more than a year away; choose a nearer day, and renew it while the reason holds"
            )
            yield Caution("exception.long", f"exceptions[{index}].until", text)


def _about_expired(settings: StackSettings, day: date) -> Iterator[Caution]:
    for path, _, keys in owned_entries(settings):
        if keys.expires is not None and keys.expires < day:
            owner = f" (owner: {keys.owner})" if keys.owner else ""
            text = f"its last day was {keys.expires}{owner}; remove the workload, or choose a later day"
            yield Caution("workload.expired", f"{path}.expires", text)


def _about_room(settings: StackSettings) -> Iterator[Caution]:
    """Compare each group with all pods that may run there, packed as tightly as possible."""
    pods = [*pod_requests(settings)]
    for name, needed in nodes_at_maximum(settings).items():
        most = settings.node_groups[name].max
        if needed > most:
            names = first_names([pod.name for pod in pods if name in pod.groups])
            text = (
                f"{most} nodes, while the pods that may run there need {needed} at their maximum ({names}); "
                "jobs and requests will wait although their pools and services may still grow"
            )
            yield Caution("node-group.too-small", f"nodeGroups.{name}.max", text)


def _about_sizes(settings: StackSettings) -> Iterator[Caution]:
    """Compare the sizes of Karpenter's groups with their pods. `max` counts nodes of any size, and Karpenter launches
    the cheapest ones that fit the pods which wait at that moment.
    """
    for name, group in settings.karpenter_groups.items():
        pods = [pod for pod in pod_requests(settings) if name in pod.groups]
        rooms = {kind.name: offered(usable(kind), group.reserved) for kind in reversed(group.types)}
        fitting = [[room for room in rooms.values() if fits(pod.size, room)] for pod in pods]
        if unused := [kind for kind, room in rooms.items() if pods and not any(room in each for each in fitting)]:
            text = f"no pod of the stack fits {', '.join(unused)}: its nodes would run only pods from outside the stack"
            yield Caution("node-group.type-without-pods", f"nodeGroups.{name}.instanceTypes", text)
        alone = [(pod, each[0]) for pod, each in zip(pods, fitting, strict=True) if each and [*pod.groups] == [name]]
        needed = sum(-(-pod.most // copies(pod.size, room)) for pod, room in alone)
        if needed > group.max >= nodes_at_maximum(settings).get(name, 0):
            text = (
                f"{group.max} nodes of any size, while its pods need {needed} if Karpenter launches the smallest that "
                "fit; jobs would then wait although their pool may still grow"
            )
            yield Caution("node-group.small-nodes", f"nodeGroups.{name}.max", text)


def _about_releases(settings: StackSettings) -> Iterator[Caution]:
    """Warn about releases that stop the only pod first, unlike a usual rolling update."""
    lasting = lasting_pods(settings)
    for entry in declared_pods(settings):
        pod = entry.pod
        if not isinstance(pod, WorkloadSettings) or pod.category is not Category.FLEXIBLE:
            continue
        if pod.kind is WorkloadKind.DEPLOYMENT and pod.replicas == 1 and (why := _why_last(pod, settings, lasting)):
            text = f"a release stops its only pod before the next one starts, so requests fail meanwhile: {why}"
            yield Caution("release.only-pod", entry.path, text)


def _why_last(pod: WorkloadSettings, settings: StackSettings, lasting: Packing) -> str:
    """Return the reason, or "" if the next pod starts first or the file says that it cannot."""
    if mounts_alone(pod):
        stated = any(volume.shared is False for volume in pod.volumes.values())
        how = "set shared: true if several nodes may mount it (ReadWriteMany), else shared: false"
        return "" if stated else f"its claim is assumed to allow one node at a time; {how}"
    if room_for_next(pod, settings, lasting):
        return ""
    groups = " and ".join(f"nodeGroups.{name}" for name in groups_of(pod, settings))
    return f"its nodes have no room for one more pod; raise max of {groups}"
