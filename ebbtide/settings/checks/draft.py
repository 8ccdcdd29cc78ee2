"""What could be read of a stack, entry by entry and field by field: the checks across sections work on this.

None stands for a field that is missing or wrong and so has a finding of its own. What it hides is taken at its most
favourable, so that whatever a check says of a draft holds for every way of putting the field right.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeAlias, cast

from ebbtide.labels import GPU_RESOURCE, NodeKind
from ebbtide.prices import Capacity
from ebbtide.settings.checks.accounts import AccountDraft, accounts_draft
from ebbtide.settings.checks.checkpoints import CheckpointsDraft, checkpoints_draft, own_claims
from ebbtide.settings.checks.entrances import EntrancesDraft, entrances_draft
from ebbtide.settings.checks.image_names import IMAGES, ImagesDraft, images_draft
from ebbtide.settings.checks.monitoring import MonitoringDraft, monitoring_draft
from ebbtide.settings.checks.services import ServicesDraft, services_draft, serving_references
from ebbtide.settings.checks.snapshots import snapshots_draft
from ebbtide.settings.file.pod_entries import RAY, named_entries, raw_pods
from ebbtide.settings.file.problems import Location, Secret, value_at
from ebbtide.settings.file.service_entries import SERVICES
from ebbtide.settings.placement import PodSize, offered, smallest_node, whole_size
from ebbtide.settings.sections.business_hours import Overnight
from ebbtide.settings.sections.checked import readable, readable_items
from ebbtide.settings.sections.checkpoints import CHECKPOINTS_VOLUME
from ebbtide.settings.sections.cluster import ClusterSettings, RayOperatorSource
from ebbtide.settings.sections.existing import is_existing
from ebbtide.settings.sections.images import ImageSettings
from ebbtide.settings.sections.jobs import CronJobSettings, JobSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings, Reserved
from ebbtide.settings.sections.pods.pod import Gpu, PodSettings, secrets_named, secrets_of_fragment
from ebbtide.settings.sections.pods.volumes import SHM
from ebbtide.settings.sections.ray import AUTOSCALER_CPU, AUTOSCALER_MEMORY, RayGroup, RayHead
from ebbtide.settings.sections.redis import CPU, MEMORY, RedisKind, RedisSettings
from ebbtide.settings.sections.secrets import PULL_KEY, TLS_KEYS, SecretReference, secrets_of
from ebbtide.settings.sections.serving.scale import ScaleSettings
from ebbtide.settings.sections.serving.services import VariantSettings
from ebbtide.settings.sections.workers import Source, WorkerSettings
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.vocabulary.labels import Category

HOURS = "ebbtide:businessHours"
NETWORK = "ebbtide:network"
CLUSTER = "ebbtide:cluster"
GROUPS = "ebbtide:nodeGroups"
REDIS = "ebbtide:redis"
REDIS_PASSWORD = "ebbtide:redisPassword"
WORKLOADS = "ebbtide:workloads"
WORKERS = "ebbtide:workers"
JOBS = "ebbtide:jobs"
CRON_JOBS = "ebbtide:cronJobs"
COSTS = "ebbtide:costs"

_POD_SECTIONS: Mapping[str, type[PodSettings]] = {
    WORKLOADS: WorkloadSettings,
    WORKERS: WorkerSettings,
    JOBS: JobSettings,
    CRON_JOBS: CronJobSettings,
    RAY: RayGroup,  # whose keys for Secrets a head has too
    SERVICES: VariantSettings,
}
_FEWEST_ZONES = 2  # no cluster has fewer

Config: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDraft:
    kind: NodeKind | None
    types: tuple[str, ...]  # those that are known
    choice: int  # as many types as there may be once those that are not known are put right
    max: int | None
    disk: int | None  # GiB
    reserved: Reserved  # nothing, where it could not be read

    @property
    def node(self) -> Capacity | None:
        """What a node offers at most: a type that is not known yet can only make it less."""
        return offered(smallest_node(self.types), self.reserved) if self.types else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDraft:
    cpu: int | None
    memory: int | None
    gpu: int | None
    gpu_resource: str = GPU_RESOURCE
    gpu_memory: int | None = None  # MiB of each; None where any will do
    fragment: object = None  # as the file has it
    volumes: frozenset[str] = frozenset()  # names under the short key, however sound
    disk: int | None = 0  # MiB of the node's disk; 0 where it asks for none

    @property
    def least(self) -> PodSize:
        """With nothing for what could not be read: where this does not fit, the pod never will."""
        return whole_size(PodSize(cpu=self.cpu or 0, memory=self.memory or 0, gpu=self.gpu or 0), self.fragment)

    @property
    def whole(self) -> bool:
        return None not in (self.cpu, self.memory, self.gpu)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadDraft:
    at: Location
    pod: PodDraft
    category: Category | None
    replicas: int | None
    spot: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolDraft:
    pod: PodDraft
    max: int | None
    queues: Mapping[int, str]  # by position in the file's list
    longest_job: timedelta | None
    node_group: str | None  # "" leaves the choice to Ebbtide
    checkpoints: CheckpointsDraft | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDraft:
    section: str  # that of jobs, that of cron jobs, or that of Ray clusters
    name: str
    group: str | None = None  # of a Ray cluster
    pod: PodDraft
    longest_run: timedelta | None
    node_group: str | None  # "" leaves the choice to Ebbtide

    @property
    def at(self) -> Location:
        return (self.section, self.name, *(("groups", self.group) if self.group is not None else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDraft:
    pool: str | None
    workers: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisDraft:
    kind: RedisKind | None
    pod: PodDraft  # of the server, where it runs in the cluster
    has_password: bool
    token_fault: str  # what a cache of AWS would refuse about the password; "" where nobody could read it


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Every entry that the file names is here, however little of it could be read."""

    existing: bool  # a cluster that is there already
    version: str | None  # of Kubernetes, where Ebbtide makes the cluster
    node_sets: Mapping[str, object]  # of an existing cluster
    ray_operator: RayOperatorSource
    zones: int  # at least
    zone_letters: tuple[str, ...]  # those that could be read
    given_subnets: tuple[str, ...] | None  # the zones of a given VPC that have one, whatever it is; None without a VPC
    plans: tuple[PlanDraft, ...]
    groups: Mapping[str, GroupDraft]
    workloads: Mapping[str, WorkloadDraft]
    workers: Mapping[str, PoolDraft]
    jobs: tuple[JobDraft, ...]  # of both sections
    ray_heads: Mapping[str, PodDraft]  # by cluster
    ray_groups: tuple[JobDraft, ...]
    drivers: Mapping[str, str]  # the Ray cluster that a pool's workers drive, by pool
    redis: RedisDraft
    images: ImagesDraft
    secrets: Mapping[str, tuple[str, ...]]  # keys by name
    references: tuple[SecretReference, ...]  # to Secrets, of the stack or of somebody else
    accounts: tuple[AccountDraft, ...]
    snapshots: tuple[Location, ...]
    own_claims: Mapping[str, re.Pattern[str]]  # names of claims of the stack's own disks, by their volume
    entrances: EntrancesDraft
    monitoring: MonitoringDraft
    services: ServicesDraft
    expected_hours: tuple[str, ...]  # names of groups
    nameless: frozenset[str]  # sections that are no mappings, so that no name can be said to be missing there


def draft_of(config: Config, groups: Config) -> Draft:
    """`groups` are those of the file with defaults filled in, and the default ones."""
    own = entries(config, GROUPS)
    cluster = readable(ClusterSettings, config.get(CLUSTER, {}))
    plans = value_at(config, (HOURS, "overnight"))
    expected = value_at(config, (COSTS, "expectedNodeHours"))
    subnets = value_at(config, (NETWORK, "vpc", "privateSubnets"))
    entrances = entrances_draft(config)
    return Draft(
        existing=is_existing(config),
        version=None if is_existing(config) else cluster.get("version"),
        node_sets=cluster.get("node_selectors", {}),
        ray_operator=cluster.get("ray_operator", RayOperatorSource.BUNDLED),
        zones=max(_FEWEST_ZONES, len(set(cluster.get("zones", ())))),
        zone_letters=tuple(dict.fromkeys(cluster.get("zones", ()))),
        given_subnets=_names(subnets),
        plans=tuple(_plan(raw) for raw in (cast("list[object]", plans) if isinstance(plans, list) else ())),
        groups={name: _group(raw, own.get(name, {})) for name, raw in groups.items()},
        workloads={**dict(_variants(config)), **dict(_workloads(config))},
        workers={name: _pool(raw) for name, raw in entries(config, WORKERS).items()},
        jobs=tuple(_jobs(config)),
        ray_heads={name: _ray_head(raw) for name, raw in entries(config, RAY).items()},
        ray_groups=tuple(_ray_groups(config)),
        drivers=_drivers(config),
        redis=_redis(config),
        images=images_draft(config),
        secrets=secrets_of(config),
        references=tuple(_references(config)),
        accounts=accounts_draft(config),
        snapshots=snapshots_draft(config),
        own_claims=own_claims(config),
        entrances=entrances,
        monitoring=monitoring_draft(config),
        services=services_draft(config, region=entrances.region, no_public_subnets=entrances.no_public_subnets),
        expected_hours=tuple(cast("Mapping[str, object]", expected)) if isinstance(expected, Mapping) else (),
        nameless=frozenset(key for key in (GROUPS, WORKERS) if key in config and not isinstance(config[key], Mapping)),
    )


def _names(value: object) -> tuple[str, ...] | None:
    """None where it is no mapping."""
    return tuple(map(str, cast("Mapping[object, object]", value))) if isinstance(value, Mapping) else None


def entries(config: Config, key: str) -> dict[str, object]:
    """The named entries of a section; none where it is no mapping."""
    return dict(named_entries(config.get(key)))


def gpus_wanted(config: Config) -> bool:
    """Whether a pod asks for GPUs, or may."""
    drafts = [workload.pod for _, workload in (*_workloads(config), *_variants(config))]
    drafts += [_pool(raw).pod for raw in entries(config, WORKERS).values()]
    drafts += [job.pod for job in (*_jobs(config), *_ray_groups(config))]
    return any(pod.gpu != 0 for pod in drafts)


def _group(filled: object, own: object) -> GroupDraft:
    """`own` is the group as the file has it: without a kind, types that were filled in are a guess."""
    read = readable(NodeGroupSettings, filled)
    guessed = "kind" not in read and value_at(own, ("instanceTypes",)) is None
    types = () if guessed else read.get("instance_types", ())
    named = value_at(own, ("instanceTypes",))
    choice = len(cast("list[object]", named)) if isinstance(named, list) else len(types)
    return GroupDraft(
        kind=read.get("kind"),
        types=types,
        choice=choice,
        max=read.get("max"),
        disk=read.get("disk_size"),
        reserved=read.get("reserved", Reserved()),
    )


def _pod(read: Mapping[str, Any], raw: object) -> PodDraft:
    disk = read["ephemeral_storage"] or 0 if "ephemeral_storage" in read else None
    gpu: Gpu | None = read.get("gpu")
    return PodDraft(
        cpu=read.get("cpu"),
        memory=read.get("memory"),
        gpu=None if gpu is None else gpu.count,
        gpu_resource=GPU_RESOURCE if gpu is None else gpu.resource,
        gpu_memory=None if gpu is None else gpu.memory,
        disk=disk,
        fragment=value_at(raw, ("pod",)),
        volumes=_volume_names(raw),
    )


def _volume_names(raw: object) -> frozenset[str]:
    shm = () if value_at(raw, ("shm",)) is None else (SHM,)
    claim = () if value_at(raw, ("checkpoints", "claim")) is None else (CHECKPOINTS_VOLUME,)
    return frozenset((*(_names(value_at(raw, ("volumes",))) or ()), *shm, *claim))


def _workloads(config: Config) -> Iterator[tuple[str, WorkloadDraft]]:
    for name, raw in entries(config, WORKLOADS).items():
        read = readable(WorkloadSettings, raw)
        pod, category = _pod(read, raw), read.get("category")
        yield name, WorkloadDraft(at=(WORKLOADS, name), pod=pod, category=category, replicas=read.get("replicas"))


def _variants(config: Config) -> Iterator[tuple[str, WorkloadDraft]]:
    """The pods of services, which are workloads too."""
    for found in raw_pods(config, (SERVICES,)):
        read = readable(VariantSettings, found.raw)
        scale: ScaleSettings | None = read.get("scale")
        yield (
            found.name,
            WorkloadDraft(
                at=found.at,
                pod=_pod(read, found.raw),
                category=read.get("category"),
                replicas=None if scale is None else scale.max,
                spot=read.get("spot", False),
            ),
        )


def _pool(raw: object) -> PoolDraft:
    read = readable(WorkerSettings, raw)
    return PoolDraft(
        pod=_pod(read, raw),
        max=read.get("max"),
        queues=readable_items(Source, "queues", value_at(raw, ("source", "queues"))),
        longest_job=read.get("longest_job"),
        node_group=read.get("node_group"),
        checkpoints=checkpoints_draft(raw),
    )


def _jobs(config: Config) -> Iterator[JobDraft]:
    models: dict[str, type[JobSettings]] = {JOBS: JobSettings, CRON_JOBS: CronJobSettings}
    for section, model in models.items():
        for name, raw in entries(config, section).items():
            read = readable(model, raw)
            yield JobDraft(
                section=section,
                name=name,
                pod=_pod(read, raw),
                longest_run=read.get("longest_run"),
                node_group=read.get("node_group"),
            )


def _ray_head(raw: object) -> PodDraft:
    """With the container of Ray's autoscaler, which the operator puts beside it."""
    head = value_at(raw, ("head",))
    pod = _pod(readable(RayHead, head), head)
    return replace(
        pod,
        cpu=None if pod.cpu is None else pod.cpu + AUTOSCALER_CPU,
        memory=None if pod.memory is None else pod.memory + AUTOSCALER_MEMORY,
    )


def _ray_groups(config: Config) -> Iterator[JobDraft]:
    for name, raw in entries(config, RAY).items():
        for group, inner in named_entries(value_at(raw, ("groups",))):
            read = readable(RayGroup, inner)
            yield JobDraft(
                section=RAY,
                name=name,
                group=group,
                pod=_pod(read, inner),
                longest_run=None,
                node_group=read.get("node_group"),
            )


def _drivers(config: Config) -> Mapping[str, str]:
    named = {pool: value_at(raw, ("ray",)) for pool, raw in entries(config, WORKERS).items()}
    return {pool: cluster for pool, cluster in named.items() if isinstance(cluster, str)}


def _redis(config: Config) -> RedisDraft:
    read = readable(RedisSettings, config.get(REDIS, {}))
    password = config.get(REDIS_PASSWORD)
    memory = (read["memory"] or MEMORY) if "memory" in read else None
    pod = PodDraft(cpu=CPU, memory=memory, gpu=0)
    fault = password.token_fault if isinstance(password, Secret) else ""
    return RedisDraft(kind=read.get("kind"), pod=pod, has_password=REDIS_PASSWORD in config, token_fault=fault)


def _references(config: Config) -> Iterator[SecretReference]:
    images: Location = (IMAGES, "pullSecrets")
    for index, name in readable_items(ImageSettings, "pull_secrets", value_at(config, images)).items():
        yield SecretReference((*images, index), name, (PULL_KEY,))
    redis = readable(RedisSettings, config.get(REDIS, {}))
    if redis.get("tls") and redis.get("kind") is RedisKind.IN_CLUSTER:
        yield SecretReference((REDIS, "tls", "secret"), redis["tls"].secret, TLS_KEYS)
    yield from monitoring_draft(config).references
    yield from serving_references(config)
    yield from _references_of_pods(config)


def _references_of_pods(config: Config) -> Iterator[SecretReference]:
    for pod in raw_pods(config, tuple(_POD_SECTIONS)):
        read = readable(_POD_SECTIONS[str(pod.at[0])], pod.raw)
        named = secrets_named(read.get("env", {}), read.get("env_from", ()), read.get("volumes", {}))
        fragment = secrets_of_fragment(value_at(pod.raw, ("pod",)))
        for at, secret, key in (*named, *((("pod", *at), secret, key) for at, secret, key in fragment)):
            yield SecretReference((*pod.at, *at), secret, () if key is None else (key,))


def _plan(raw: object) -> PlanDraft:
    read = readable(Overnight, raw)
    return PlanDraft(pool=read.get("pool"), workers=read.get("workers"))
