"""The customer's half of a stack: the namespaces and all that lives in them, on whatever cluster there is.

Nothing here knows who made the cluster. Workloads come after their namespaces and Redis, and last the controller that
sizes them; a destroy runs the same graph backwards.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import pulumi

from components import (
    BundledPrometheus,
    BundledPrometheusArgs,
    Controller,
    ControllerArgs,
    CronJob,
    Dashboards,
    DashboardsArgs,
    Egress,
    Evictions,
    EvictionsArgs,
    ExistingPrometheus,
    ExistingPrometheusArgs,
    Exporter,
    ExporterArgs,
    FilesForPrometheus,
    ImageSource,
    Job,
    JobArgs,
    Namespaces,
    NamespacesArgs,
    NetworkPolicies,
    NetworkPoliciesArgs,
    OperatorArgs,
    OwnershipTable,
    OwnNamespace,
    OwnNamespaceArgs,
    Priorities,
    RayCluster,
    RayClusterArgs,
    RayOperator,
    RaySpaces,
    RaySpacesArgs,
    Redis,
    RedisArgs,
    Secrets,
    SecretsArgs,
    WorkerPool,
    WorkerPoolArgs,
    Workload,
    WorkloadArgs,
    WorkloadController,
    WorkloadControllerArgs,
    egress_of,
    image_source,
)
from components.aws.savings import cost_tags
from components.cluster.network_policies import OwnPrometheus
from components.controller.workloads import token_file
from components.monitoring.bundled import ALERTMANAGER_IMAGE, PROMETHEUS_IMAGE
from components.monitoring.reach import gpu_target, reached
from components.monitoring.scraping import ALERTMANAGER_PORT, Scraping
from components.monitoring.targets import scraped_workers, targets
from components.pods.claims import own_disks
from components.pods.entrance import Balancing
from components.pods.gpu_nodes import NodeRequirement, labelled_memory, one_of_groups
from components.pods.ray_driver import DrivenCluster
from components.pods.redis_access import PUBLIC, SECRET, RedisAuthority, controllers_endpoint, redis_authority
from components.pods.rules import nodes_of_architecture, nodes_of_kind
from components.pods.secrets import SecretsSource, StackSecrets
from components.ray.head_state import HeadState
from components.ray.operator import IMAGE as RAY_OPERATOR_IMAGE
from components.ray.spec import Surroundings
from components.redis.queues import IMAGE as REDIS_IMAGE
from ebbtide.labels import WORKER_NAMESPACE, NodeKind
from ebbtide.monitoring.documents import rules_document
from ebbtide.settings.controller_document import controller_config
from ebbtide.settings.every_pod import every_pod, namespace_of
from ebbtide.settings.exporter_document import exporter_config
from ebbtide.settings.model import StackSettings
from ebbtide.settings.placement import architecture, home_of, takes
from ebbtide.settings.room import lasting_pods, room_for_next
from ebbtide.settings.sections.cluster import RayOperatorSource
from ebbtide.settings.sections.controller import CONTROLLER_IMAGE
from ebbtide.settings.sections.jobs import CronJobSettings, JobSettings
from ebbtide.settings.sections.monitoring import ALERTMANAGER, PROMETHEUS, Discovery, PrometheusKind
from ebbtide.settings.sections.pods.aws import AwsRights
from ebbtide.settings.sections.pods.pod import PodSettings
from ebbtide.settings.sections.ray import TOKEN_KEY, group_name, namespace_of_ray, token_secret
from ebbtide.settings.sections.redis import RedisKind
from ebbtide.settings.sections.serving.gateway import GATEWAY_NAMESPACE, KEDA_NAMESPACE
from ebbtide.settings.sections.serving.services import ServedWorkload
from ebbtide.settings.sections.workers import WorkerSettings, grace_seconds
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.settings.serving_needs import serving_needs
from ebbtide.settings.workloads_document import floors_of, has_workloads, workloads_config
from ebbtide.vocabulary.controller_config import RedisEndpoint
from ebbtide.vocabulary.labels import NAMESPACE
from infra.foundation import Foundation
from infra.serving import serve, serving_secrets

Password: TypeAlias = pulumi.Input[str] | None
NewToken: TypeAlias = Callable[[], str]
_AnyJob = TypeVar("_AnyJob", JobSettings, CronJobSettings)


def customer_half(
    settings: StackSettings,
    on: Foundation,
    ownership: OwnershipTable,
    password: Password,
    secrets: StackSecrets | None,
    new_token: NewToken,
) -> pulumi.Output[str]:
    """Build the customer's half; what the controller was told about it."""
    return _Half(settings, on, ownership, secrets, new_token).build(password)


@dataclass(frozen=True)
class _Half:
    settings: StackSettings
    on: Foundation
    ownership: OwnershipTable
    secrets: StackSecrets | None  # None where nobody has the values, as in a rendering
    new_token: NewToken

    @property
    def _images(self) -> ImageSource:
        return image_source(self.settings.images)

    @property
    def _egress(self) -> Egress:
        return egress_of(self.settings)

    @property
    def _source(self) -> SecretsSource:
        return SecretsSource(keys=self.settings.secrets, known=self.secrets)

    @property
    def _balancing(self) -> Balancing:
        """In a given VPC nothing has tags that load balancers find subnets by: there they are named."""
        given = self.settings.network.vpc
        subnets = () if given is None else [given.private_subnets[zone] for zone in self.settings.cluster.zones]
        return Balancing(tags=cost_tags(self.settings), subnets=subnets)

    def build(self, password: Password) -> pulumi.Output[str]:
        settings = self.settings
        parts = NamespacesArgs(customer=settings.customer, egress=self._egress)
        spaces = Namespaces("namespaces", parts, self._after())
        system, workers = spaces.system.metadata.name, spaces.workers.metadata.name
        starters = self._starters()
        ray = self._ray_spaces()
        held = self._secrets([*starters.values(), *([ray] if ray else [])], self._after(spaces))
        redis = Redis(
            "redis",
            RedisArgs(
                settings=settings.redis,
                namespace=system,
                worker_namespace=workers,
                customer=settings.customer,
                password=password,
                image=self._images.chosen(settings.images.redis, REDIS_IMAGE),
                images=self._images,
                on_ebs=self.on.aws is not None,
                cache_host=self.on.cache_host,
                further={} if ray is None else {f"ray-{name}": ray.names[name] for name in self._remembering},
            ),
            self._after(spaces, *held),
        )
        policies = self._policies(spaces, starters, ray, redis.endpoint)
        graces = {name: grace_seconds(pool) for name, pool in settings.workers.items()}
        evictions = Evictions("evictions", EvictionsArgs(namespace=workers, graces=graces), self._after(spaces))
        priorities = self._priorities()
        sized = [
            *self._workloads(
                system, starters, self._after(spaces, *held, redis, policies, *priorities, *starters.values())
            ),
            *self._pools(workers, redis, self._after(spaces, *held, redis, policies, evictions, *priorities)),
        ]
        clusters: Sequence[pulumi.Resource] = []
        if ray is not None:
            state = HeadState(endpoint=redis.endpoint, authority=redis.authority, host=self.on.cache_host)
            after = self._after(spaces, *held, policies, *([redis] if self._remembering else []))
            clusters = self._ray(ray, spaces, state, after)
        self._workload_controller(spaces, ray, self._after(spaces, *held, policies, *clusters))
        gateway = self._services(self._after(spaces, policies, *sized))
        self._snapshots()
        self._jobs(workers, self._after(spaces, *held, redis, policies, *priorities))
        controller = Controller(
            "controller",
            ControllerArgs(
                config=controller_config(settings, controllers_endpoint(settings.redis)),
                image=self._controller_image(),
                namespace=system,
                worker_namespace=workers,
                replicas=settings.controller.replicas,
                redis_host=self.on.cache_host,
                redis_authority=redis.authority,
                redis_secret=settings.redis.controller.secret if settings.redis.controller else SECRET,
                images=self._images,
                egress=self._egress,
            ),
            # Last to come and first to go: on its way out it closes the budgets, which must still be there.
            self._after(spaces, redis, policies, *sized),
        )
        exporter = self._exporter(redis, self._after(spaces, redis, policies))
        self._monitoring(self._after(spaces, controller, *exporter, *gateway))
        return controller.document

    def _after(self, *resources: pulumi.Resource) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(
            providers=[self.on.provider],
            depends_on=[*self.on.ready, *resources],
            transformations=[*self.on.transformations],
        )

    def _secrets(self, further: list[pulumi.Resource], options: pulumi.ResourceOptions) -> list[pulumi.Resource]:
        """None for a stack without any, so that nothing is added to it."""
        if not self.settings.secrets:
            return []
        wanted = wanted_secrets(self.settings)
        after = pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(depends_on=further))
        return [Secrets("secrets", SecretsArgs(source=self._source, wanted=wanted), after)]

    def _starters(self) -> Mapping[str, OwnNamespace]:
        """The namespaces of the workloads that start pods, by workload."""
        return {
            name: OwnNamespace(
                f"own-{name}",
                OwnNamespaceArgs(
                    workload=name,
                    rights=workload.kubernetes,
                    customer=self.settings.customer,
                    nodes=self._nodes_of_started(),
                    egress=self._egress,
                ),
                self._after(),
            )
            for name, workload in self.settings.workloads.items()
            if workload.kubernetes is not None
        }

    def _nodes_of_started(self) -> Sequence[Mapping[str, str]]:
        """What a started pod selects by. On a cluster whose owner names no flexible nodes, it may go anywhere."""
        kinds = (NodeKind.FLEXIBLE, NodeKind.GPU)
        if self.on.aws is not None:
            return [labels for kind in kinds for labels in self._nodes_of_kind(kind)]
        sets = self.settings.cluster.node_selectors
        return [sets[kind.value] for kind in kinds if kind.value in sets] if NodeKind.FLEXIBLE.value in sets else []

    def _nodes_of_kind(self, kind: NodeKind) -> Sequence[Mapping[str, str]]:
        """Pods that a workload starts must select a processor where their node groups differ in it."""
        found = sorted({architecture(it) for it in self.settings.node_groups.values() if it.kind is kind})
        if len(found) < 2:
            return [nodes_of_kind(kind)]
        return [nodes_of_kind(kind) | nodes_of_architecture(arch) for arch in found]

    def _with_role(
        self, kind: str, name: str, pod: PodSettings, namespace: str, options: pulumi.ResourceOptions
    ) -> pulumi.ResourceOptions:
        return options if pod.aws is None else self._given_role(kind, name, pod.aws, namespace, options)

    def _given_role(
        self, kind: str, name: str, rights: AwsRights, namespace: str, options: pulumi.ResourceOptions
    ) -> pulumi.ResourceOptions:
        """With what the pod needs before it starts: one that runs already is not shown its role."""
        if self.on.aws is None:
            return options
        from components.aws.iam import PodAccount  # of a package that a cluster which is there already needs not
        from components.aws.pod_role import PodRole, PodRoleArgs

        settings = self.settings
        account = PodAccount(cluster_name=settings.customer, namespace=namespace, service_account=name)
        args = PodRoleArgs(account=account, rights=rights, region=settings.region, tags=cost_tags(settings))
        # Fewer than 57 characters, since AWS takes 64 and Pulumi adds 8.
        role = PodRole(
            f"{kind}-{name}-role",
            args,
            pulumi.ResourceOptions(providers=[self.on.aws], depends_on=[*self.on.ready]),
        )
        return pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(depends_on=[role]))

    def _policies(
        self,
        spaces: Namespaces,
        starters: Mapping[str, OwnNamespace],
        ray: RaySpaces | None,
        redis: RedisEndpoint,
    ) -> NetworkPolicies:
        settings, way_out = self.settings, self._egress
        args = NetworkPoliciesArgs(
            namespace=spaces.system.metadata.name,
            worker_namespace=spaces.workers.metadata.name,
            redis_port=redis.port,
            redis_inside=settings.redis.kind is RedisKind.IN_CLUSTER,
            allow=settings.egress.allow,
            proxies=[address for address in (way_out.http_proxy, way_out.https_proxy) if address is not None],
            starters={name: own.namespace.metadata.name for name, own in starters.items()},
            ray={} if ray is None else ray.names,
            floors=any(floors_of(settings)),
            drivers=[name for name, pool in settings.workers.items() if pool.ray is not None],
            ray_operator=settings.cluster.ray_operator is RayOperatorSource.BUNDLED,
            prometheus=settings.monitoring.namespace,
            exporter=settings.monitoring.prometheus is not PrometheusKind.NONE,
            redis_tls=redis.tls,
            own_prometheus=own_prometheus(settings),
            scraped=scraped_workers(settings),
        )
        after = [spaces, *starters.values(), *([] if ray is None else [ray])]
        return NetworkPolicies("network-policies", args, self._after(*after))

    def _ray_spaces(self) -> RaySpaces | None:
        settings = self.settings
        if not settings.ray:
            return None
        args = RaySpacesArgs(clusters=settings.ray, customer=settings.customer, egress=self._egress)
        return RaySpaces("ray-spaces", args, self._after())

    @property
    def _remembering(self) -> Sequence[str]:
        """The Ray clusters whose heads keep their state in Redis."""
        return [name for name, cluster in self.settings.ray.items() if cluster.remembers]

    def _ray(
        self, ray: RaySpaces, spaces: Namespaces, state: HeadState, options: pulumi.ResourceOptions
    ) -> Sequence[pulumi.Resource]:
        """The operator and its kinds first, so that a destroy takes each cluster before them."""
        settings = self.settings
        readers = {"workers": spaces.workers.metadata.name, "system": spaces.system.metadata.name}
        after = self._ray_operator(ray, spaces, options)
        made: list[pulumi.Resource] = []
        for name, cluster in settings.ray.items():
            around = Surroundings(
                customer=settings.customer,
                images=self._images,
                egress=self._egress,
                secrets=self._source,
                node_sets=None if self.on.aws is not None else settings.cluster.node_selectors,
                gpu_nodes={key: it for key, group in cluster.groups.items() if (it := self._nodes_of(group))},
                state=state if cluster.remembers else None,
            )
            own = after
            for pods, pod in cluster.pods(name).items():
                own = self._with_role("ray", pods, pod, namespace_of_ray(name), own)
            args = RayClusterArgs(
                name=name,
                namespace=ray.names[name],
                settings=cluster,
                around=around,
                token=self.new_token(),
                readers=readers,
            )
            grace = int(cluster.grace.total_seconds())
            graces = {group_name(name, key): grace for key in cluster.groups}
            Evictions(
                f"evictions-of-ray-{name}",
                EvictionsArgs(namespace=ray.names[name], graces=graces, ray=name),
                after,
            )
            made.append(RayCluster(f"ray-{name}", args, own))
        return made

    def _workload_controller(self, spaces: Namespaces, ray: RaySpaces | None, options: pulumi.ResourceOptions) -> None:
        """After the Ray clusters, so that it goes first at a destroy: it would write a spec anew that somebody takes
        away. Autoscalers it finds when they come.
        """
        settings = self.settings
        if not has_workloads(settings):
            return
        controller = WorkloadControllerArgs(
            config=workloads_config(settings, lambda name: token_file(name, TOKEN_KEY)),
            customer=settings.customer,
            image=self._controller_image(),
            namespace=spaces.system.metadata.name,
            worker_namespace=spaces.workers.metadata.name,
            ray_namespaces={} if ray is None else ray.names,
            tokens={name: token_secret(name) for name in settings.ray},
            images=self._images,
        )
        WorkloadController("workload-controller", controller, options)

    def _ray_operator(
        self, ray: RaySpaces, spaces: Namespaces, options: pulumi.ResourceOptions
    ) -> pulumi.ResourceOptions:
        """After it and its kinds, unless they are there already."""
        settings = self.settings
        if settings.cluster.ray_operator is RayOperatorSource.EXISTING:
            return options
        manages = OperatorArgs(
            namespace=spaces.system.metadata.name,
            watched=ray.names,
            cleans_up=self._remembering,
            customer=settings.customer,
            image=self._images.chosen(settings.images.ray_operator, RAY_OPERATOR_IMAGE),
            images=self._images,
        )
        operator = RayOperator("ray-operator", manages, options)
        return pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(depends_on=[operator]))

    def _exporter(self, redis: Redis, options: pulumi.ResourceOptions) -> Sequence[pulumi.Resource]:
        settings = self.settings
        if settings.monitoring.prometheus is PrometheusKind.NONE:
            return []
        args = ExporterArgs(
            config=exporter_config(settings, redis.endpoint),
            customer=settings.customer,
            image=self._controller_image(),
            namespace=NAMESPACE,
            tls_host=self.on.cache_host,
            images=self._images,
        )
        return [Exporter("exporter", args, options)]

    def _monitoring(self, options: pulumi.ResourceOptions) -> None:
        """After all else: a cluster without the kinds of Prometheus' operator refuses it."""
        settings = self.settings
        if settings.monitoring.prometheus is PrometheusKind.NONE:
            return
        if settings.monitoring.dashboards:
            shown = DashboardsArgs(
                customer=settings.customer,
                namespace=settings.monitoring.namespace or NAMESPACE,
                timezone=settings.business_hours.timezone,
            )
            Dashboards("dashboards", shown, options)
        if settings.monitoring.prometheus is PrometheusKind.BUNDLED:
            self._bundled_prometheus(options)
            return
        by_files = settings.monitoring.discovery is Discovery.CONFIG_MAP
        args = ExistingPrometheusArgs(
            customer=settings.customer,
            namespace=(by_files and settings.monitoring.namespace) or NAMESPACE,
            labels=settings.monitoring.labels,
            targets=targets(settings),
            rules=rules_document(settings, settings.monitoring.runbooks),
        )
        (FilesForPrometheus if by_files else ExistingPrometheus)("monitoring", args, options)

    def _bundled_prometheus(self, options: pulumi.ResourceOptions) -> None:
        settings, images = self.settings, self.settings.images
        monitoring = settings.monitoring
        remote = monitoring.remote_write
        proxied = self._egress.http_proxy is not None or self._egress.https_proxy is not None
        if remote is not None and remote.role is not None:
            options = self._given_role("monitoring", PROMETHEUS, AwsRights(role=remote.role), NAMESPACE, options)
        args = BundledPrometheusArgs(
            settings=monitoring,
            namespace=NAMESPACE,
            scraping=Scraping(
                customer=settings.customer,
                targets=targets(settings),
                kubelets_are_known=self.on.aws is not None,
                gpu_exporter=gpu_target(settings),
                alertmanager=f"{ALERTMANAGER}.{NAMESPACE}.svc:{ALERTMANAGER_PORT}" if monitoring.alerts else None,
                remote_write=remote,
                region=settings.region,
                proxied=proxied,
            ),
            rules=rules_document(settings, monitoring.runbooks),
            prometheus_image=self._images.chosen(images.prometheus, PROMETHEUS_IMAGE),
            alertmanager_image=self._images.chosen(images.alertmanager, ALERTMANAGER_IMAGE),
            images=self._images,
            egress=self._egress,
        )
        BundledPrometheus("monitoring", args, options)

    def _priorities(self) -> list[pulumi.Resource]:
        values = [pod.priority for _, _, pod in every_pod(self.settings) if pod.priority is not None]
        return [Priorities("priorities", values, self.settings.customer, self._after())] if values else []

    def _controller_image(self) -> str:
        own = self.settings.controller.image
        return self._images.chosen(None if own == CONTROLLER_IMAGE else own, CONTROLLER_IMAGE)

    def _workloads(
        self, system: pulumi.Input[str], starters: Mapping[str, OwnNamespace], options: pulumi.ResourceOptions
    ) -> list[pulumi.Resource]:
        lasting = lasting_pods(self.settings)
        return [
            Workload(
                name,
                WorkloadArgs(
                    name=name,
                    namespace=starters[name].namespace.metadata.name if name in starters else system,
                    settings=workload,
                    customer=self.settings.customer,
                    node_kind=home_of(workload),
                    ownership=self.ownership,
                    images=self._images,
                    egress=self._egress,
                    balancing=self._balancing,
                    secrets=self._source,
                    on_ebs=self.on.aws is not None,
                    nodes=self._nodes_of(workload),
                    redis_authority=self._redis_authority(workload),
                    room_for_next=room_for_next(workload, self.settings, lasting),
                ),
                self._with_role("workload", name, workload, namespace_of(name, workload), options),
            )
            for name, workload in self.settings.all_workloads.items()
        ]

    def _redis_authority(self, workload: WorkloadSettings) -> RedisAuthority:
        """Of pods that are given the stack's Redis."""
        asks = isinstance(workload, ServedWorkload) and workload.keeps_sessions
        return redis_authority(self.settings.redis) if asks else PUBLIC

    def _services(self, options: pulumi.ResourceOptions) -> Sequence[pulumi.Resource]:
        """After their pods, which the routes lead to and the autoscalers size."""
        settings = self.settings
        if not serving_needs(settings).any and not settings.services:
            return []
        return serve(
            settings,
            self.on,
            images=self._images,
            egress=self._egress,
            balancing=self._balancing,
            secrets=self._source,
            ownership=self.ownership,
            opts=options,
        )

    def _snapshots(self) -> None:
        """Nothing waits for them: a policy finds disks whenever these come to be."""
        settings = self.settings
        wanted = [
            (disks, volume.snapshots)
            for name, workload in settings.all_workloads.items()
            for disks, volume in own_disks(settings.customer, name, workload)
            if volume.snapshots is not None
        ]
        if not wanted or self.on.aws is None:
            return
        from components.aws.snapshots import DiskSnapshots, DiskSnapshotsArgs, SnapshotsOfDisks

        volumes = [SnapshotsOfDisks(disks=disks, wanted=snapshots) for disks, snapshots in wanted]
        args = DiskSnapshotsArgs(volumes=volumes, tags=cost_tags(settings))
        DiskSnapshots("snapshots", args, pulumi.ResourceOptions(providers=[self.on.aws]))

    def _pools(
        self, namespace: pulumi.Input[str], redis: Redis, options: pulumi.ResourceOptions
    ) -> list[pulumi.Resource]:
        return [
            WorkerPool(
                name,
                WorkerPoolArgs(
                    name=name,
                    namespace=namespace,
                    settings=pool,
                    customer=self.settings.customer,
                    redis=redis.endpoint,
                    redis_host=self.on.cache_host,
                    redis_authority=redis.authority,
                    ownership=self.ownership,
                    images=self._images,
                    egress=self._egress,
                    secrets=self._source,
                    drives=self._driven(pool),
                    told_together=self.settings.told_together(pool),
                    nodes=self._nodes_of(pool),
                ),
                self._with_role("worker", name, pool, WORKER_NAMESPACE, options),
            )
            for name, pool in self.settings.workers.items()
        ]

    def _driven(self, pool: WorkerSettings) -> DrivenCluster | None:
        return None if pool.ray is None else DrivenCluster(name=pool.ray, settings=self.settings.ray[pool.ray])

    def _jobs(self, namespace: pulumi.Input[str], options: pulumi.ResourceOptions) -> None:
        """They are not the controller's, which therefore waits for none of them."""
        for name, job in self.settings.jobs.items():
            own = self._with_role("job", name, job, WORKER_NAMESPACE, options)
            Job(name, self._job_args(name, namespace, job), own)
        for name, job in self.settings.cron_jobs.items():
            own = self._with_role("job", name, job, WORKER_NAMESPACE, options)
            CronJob(name, self._job_args(name, namespace, job), own)

    def _job_args(self, name: str, namespace: pulumi.Input[str], settings: _AnyJob) -> JobArgs[_AnyJob]:
        return JobArgs(
            name=name,
            namespace=namespace,
            settings=settings,
            customer=self.settings.customer,
            images=self._images,
            egress=self._egress,
            nodes=self._nodes_of(settings),
        )

    def _nodes_of(self, pod: PodSettings) -> NodeRequirement | None:
        """By the memory of its GPUs. A pool or a job selects one group made here, which was checked to have it."""
        if pod.gpu.memory is None:
            return None
        if self.on.aws is None:
            return labelled_memory(pod.gpu.memory)
        if not isinstance(pod, WorkloadSettings):
            return None
        return one_of_groups(name for name, group in self.settings.node_groups.items() if takes(group, pod))


def own_prometheus(settings: StackSettings) -> OwnPrometheus | None:
    monitoring = settings.monitoring
    if monitoring.prometheus is not PrometheusKind.BUNDLED:
        return None
    alerts, remote = monitoring.alerts, monitoring.remote_write
    tells = None if alerts is None else sorted({one.port for one in (alerts.receiver, alerts.dead_man) if one})
    writes = () if remote is None else (remote.port,)
    return OwnPrometheus(
        scrapes=[*reached(settings, targets(settings))],
        asked_from=[KEDA_NAMESPACE] if serving_needs(settings).keda else [],
        writes=writes,
        tells=tells,
    )


def wanted_secrets(settings: StackSettings) -> Mapping[str, Collection[str]]:
    """By namespace, the stack's own Secrets that its pods take; those that nobody takes stand beside the workloads."""
    everywhere = {*settings.images.pull_secrets, *([settings.redis.tls.secret] if settings.redis.tls else [])}
    wanted: dict[str, set[str]] = {NAMESPACE: set(everywhere), WORKER_NAMESPACE: set(everywhere)}
    for _, space, pod in every_pod(settings):
        named = {secret for _, secret, _ in pod.secret_references()}
        wanted[space] = wanted.get(space, set(settings.images.pull_secrets)) | named
    if settings.redis.tls is not None:
        for name in (name for name, cluster in settings.ray.items() if cluster.remembers):
            wanted.setdefault(namespace_of_ray(name), set()).add(settings.redis.tls.secret)
    wanted[NAMESPACE] |= {secret for _, secret, _ in settings.monitoring.secret_references()}
    wanted[NAMESPACE] |= {settings.redis.controller.secret} if settings.redis.controller else set[str]()
    of_serving = serving_secrets(settings, GATEWAY_NAMESPACE) | serving_secrets(settings, KEDA_NAMESPACE)
    if settings.cluster.context is not None:  # on EKS they have namespaces of their own: see `infra.serving`
        wanted[NAMESPACE] |= of_serving
    wanted[NAMESPACE] |= settings.secrets.keys() - of_serving - set().union(*wanted.values())
    return {space: names & settings.secrets.keys() for space, names in wanted.items()}
