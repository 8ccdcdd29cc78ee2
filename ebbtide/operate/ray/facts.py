"""Read Ray clusters with the operator's own rights: each RayCluster, its pods and nodes, its drivers' pools, and the
workload controller's report.

A part that may not be read, or does not answer, is None and never counts as absent: `unread` says why. An object that
is known not to exist is empty.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime

from controllers.adapters.kube_api import ApiError, KubeApi
from ebbtide.operate.api import CannotOperate, Target, find, items, readable
from ebbtide.operate.objects import Document, at, rows_at
from ebbtide.operate.status import NoStatus, from_pods
from ebbtide.text.one_line import collapsed
from ebbtide.vocabulary.documents import UnreadableConfig, load
from ebbtide.vocabulary.labels import WORKLOADS
from ebbtide.vocabulary.workloads import RayPolicy, WorkloadsConfig

RAY_CLUSTER = "ray.io/cluster"
"""Label of Ray's pods: their cluster."""
RAY_GROUP = "ray.io/group"
"""Label of Ray's pods: the group of workers, or `HEAD_GROUP`."""
HEAD_GROUP = "headgroup"

_CONFIG_KEY = "workloads.json"
_PARALLEL = 8  # requests at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class RayFacts:
    """One cluster. `pools` has the drivers' Deployments by name, only those that could be read."""

    now: datetime
    policy: RayPolicy
    cluster: Document | None = None
    pods: Sequence[Document] | None = None
    pools: Mapping[str, Document] = field(default_factory=dict[str, Document])
    nodes: Mapping[str, Document] = field(default_factory=dict[str, Document])  # of its pods, by name
    report: Document | None = None  # the workload controller's
    unread: Sequence[str] = ()


def workloads_config_of(api: KubeApi, namespace: str) -> WorkloadsConfig | None:
    """Return the workload controller's document; None in a stack without one.

    Raises `ApiError`, and `CannotOperate` if it is malformed.
    """
    config_map = find(api, f"/api/v1/namespaces/{namespace}/configmaps/{WORKLOADS}")
    if config_map is None:
        return None
    try:
        return load(WorkloadsConfig, str(at(config_map, "data", _CONFIG_KEY) or ""))
    except UnreadableConfig as error:
        where = f"ConfigMap {namespace}/{WORKLOADS}"
        raise CannotOperate(f"the workload controller's config ({where}) cannot be read: {error}") from error


def cluster_path(policy: RayPolicy) -> str:
    return f"/apis/ray.io/v1/namespaces/{policy.namespace}/rayclusters/{policy.name}"


def ray_targets(config: WorkloadsConfig | None, names: Sequence[str] = (), *, option: str = "") -> list[Target]:
    """Return the clusters of these names; without names, all.

    Raises `CannotOperate` for an unknown name; `option` is the prefix of its message, such as `--ray: `.
    """
    policies = config.ray if config is not None else ()
    if unknown := sorted({*names} - {policy.name for policy in policies}):
        have = ", ".join(policy.name for policy in policies) or "none"
        raise CannotOperate(f"{option}no Ray cluster is called {' or '.join(unknown)}; there are: {have}", 2)
    return [
        Target("ray", policy.name, cluster_path(policy)) for policy in policies if not names or policy.name in names
    ]


def ray_facts(api: KubeApi, config: WorkloadsConfig | None, now: datetime, names: Sequence[str] = ()) -> list[RayFacts]:
    """Read all clusters, or those of these names; none without a config."""
    if config is None:
        return []
    reports, silence = _reports(api, config.namespace)
    chosen = [policy for policy in config.ray if not names or policy.name in names]
    return [_facts(api, config, policy, now, reports, silence) for policy in chosen]


def _reports(api: KubeApi, namespace: str) -> tuple[list[Document], str]:
    """Return the workload controller's reports, or the reason why there are none."""
    try:
        document = from_pods(api, namespace, WORKLOADS)
    except (NoStatus, ApiError) as error:
        return [], f"the workload controller does not answer: {collapsed(error)}"
    rows = rows_at(document, "workloads")
    return rows, "" if rows else "the workload controller has looked at nothing yet"


def _facts(
    api: KubeApi,
    config: WorkloadsConfig,
    policy: RayPolicy,
    now: datetime,
    reports: Sequence[Document],
    silence: str,
) -> RayFacts:
    unread = [silence] if silence else []
    cluster = readable("the RayCluster", unread, lambda: find(api, cluster_path(policy)) or {})
    pods = readable("its pods", unread, lambda: _pods(api, policy))
    pools = {
        pool: readable(f"pool {pool}", unread, lambda name=pool: _pool(api, config, name)) for pool in policy.pools
    }
    names = sorted({str(name) for pod in pods or () if (name := at(pod, "spec", "nodeName"))})
    return RayFacts(
        now=now,
        policy=policy,
        cluster=cluster,
        pods=pods,
        pools={name: item for name, item in pools.items() if item is not None},
        nodes=readable("its nodes", unread, lambda: _nodes(api, names)) or {},
        report=next((row for row in reports if _is_of(policy, row)), None),
        unread=unread,
    )


def _is_of(policy: RayPolicy, row: Document) -> bool:
    """Match a report by namespace and name; a failed cluster's report has its full subject as the name."""
    subject = (row.get("namespace"), row.get("name"))
    return subject in ((policy.namespace, policy.name), (None, f"raycluster {policy.namespace}/{policy.name}"))


def _pods(api: KubeApi, policy: RayPolicy) -> list[Document]:
    return [*items(api, f"/api/v1/namespaces/{policy.namespace}/pods", labelSelector=f"{RAY_CLUSTER}={policy.name}")]


def _pool(api: KubeApi, config: WorkloadsConfig, name: str) -> Document:
    return find(api, f"/apis/apps/v1/namespaces/{config.pool_namespace}/deployments/{name}") or {}


def _nodes(api: KubeApi, names: Sequence[str]) -> dict[str, Document]:
    def node(name: str) -> Document | None:
        return find(api, f"/api/v1/nodes/{name}")

    with ThreadPoolExecutor(_PARALLEL) as pool:
        return {name: item for name, item in zip(names, pool.map(node, names), strict=True) if item is not None}
