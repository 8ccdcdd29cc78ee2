"""The cluster port on Kubernetes: caches, and one write per action, bound to the version on which it was decided.

A pool is rebuilt only when one of its objects changed. Deployments are read before their pods: an outdated version
costs one refused write, outdated pods could cost a job.
"""

import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from operator import attrgetter
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from controllers.adapters.kube_api import ApiError, Json, KubeApi
from controllers.adapters.kube_cache import KubeCache, pages
from controllers.adapters.kube_objects import (
    Lifetime,
    Stored,
    StoredPool,
    budget,
    deployment,
    lifetime,
    pod,
    replica_set,
)
from controllers.adapters.replica_writers import ReplicaWriters
from controllers.ports import (
    Action,
    Mark,
    ObservedBudget,
    ObservedCluster,
    ObservedPod,
    ObservedPool,
    Outcome,
    Scale,
    SetBudget,
    Unknown,
)
from ebbtide.vocabulary.controller_config import BudgetPolicy, ControllerConfig
from ebbtide.vocabulary.labels import CATEGORY, CLOSED_MINIMUM, DELETION_COST, FIELD_MANAGER, Category

T = TypeVar("T")

_CORE, _APPS, _POLICY = "/api/v1/namespaces", "/apis/apps/v1/namespaces", "/apis/policy/v1/namespaces"
_ANOTHER = 2  # a number that the controller never writes
_GOES_FIRST = "-1"  # below 0, the deletion cost of a pod without the annotation
_PASSING = (0, 401, 408, 429)  # no answer, expired token, request timeout, too many requests


class Measures:
    """Durations of flexible pods' terminations and startups: the newest few hundred of each."""

    def __init__(self) -> None:
        self._drains, self._startups = deque[float](maxlen=500), deque[float](maxlen=500)  # seconds
        self._previous: dict[str, Mapping[str, Lifetime]] = {}
        self._ending: dict[str, float] = {}

    def observe(self, namespace: str, pods: Mapping[str, Lifetime]) -> None:
        """Compare existing pods, by uid, with the previous ones; called at each change, by one thread per namespace."""
        previous = self._previous.get(namespace, {})
        self._previous[namespace] = pods
        for uid in previous.keys() - pods.keys():
            if uid in self._ending:
                self._drains.append(monotonic() - self._ending.pop(uid))
        for uid, pod_lifetime in pods.items():
            last = previous.get(uid)
            if pod_lifetime.ending:
                self._ending.setdefault(uid, monotonic())
            elif pod_lifetime.startup is not None and last is not None and last.startup is None:
                self._startups.append(pod_lifetime.startup.total_seconds())

    def p99(self) -> dict[str, float | None]:
        """Return the 99th percentiles in seconds; None before the first measurement."""
        return {"drain": _p99(self._drains), "startup": _p99(self._startups)}


class _Inputs(NamedTuple):
    """The objects of a pool."""

    stored: StoredPool
    sets: list[Stored[int]]
    pods: list[Stored[ObservedPod]]


class KubeCluster:
    """`last_error` is the server's message on the last write; empty if it succeeded."""

    def __init__(
        self, api: KubeApi, config: ControllerConfig, *, may_write: Callable[[], bool], notify: Callable[[], None]
    ) -> None:
        self._api, self._may_write = api, may_write
        self._pools = {policy.name: policy for policy in config.pools}
        self._budgets = {policy.name: policy for policy in config.budgets}
        workers, apps = {policy.namespace for policy in config.pools}, {policy.namespace for policy in config.budgets}
        # These caches have no selector, so that a worker that lost a label is not overlooked.
        self._deployments = {
            ns: KubeCache(api, f"{_APPS}/{ns}/deployments", _deployments_of(config, ns), notify) for ns in workers
        }
        self._sets = {ns: KubeCache(api, f"{_APPS}/{ns}/replicasets", replica_set, notify) for ns in workers}
        self._pods = {ns: KubeCache(api, f"{_CORE}/{ns}/pods", pod, notify) for ns in workers}
        self._pdbs = {ns: KubeCache(api, f"{_POLICY}/{ns}/poddisruptionbudgets", budget, notify) for ns in apps}
        flexible = f"{CATEGORY}={Category.FLEXIBLE}"
        self._lives = {
            ns: KubeCache(api, f"{_CORE}/{ns}/pods", lifetime, partial(self._measure, ns), labelSelector=flexible)
            for ns in {policy.namespace for policy in config.budgets if policy.name not in self._pools}
        }
        kinds: list[dict[str, KubeCache[Any]]] = [self._deployments, self._sets, self._pods, self._pdbs]
        self._caches = [cache for kind in kinds for cache in kind.values()]
        # A team may delete its namespace, or our rights in it. This must not affect other namespaces.
        adopted = [*(p for p in config.pools if p.adopted), *(b for b in config.budgets if b.object_name is not None)]
        self._teams: dict[str, list[KubeCache[Any]]] = {
            policy.namespace: [kind[policy.namespace] for kind in kinds if policy.namespace in kind]
            for policy in adopted
        }
        of_teams = [cache for caches in self._teams.values() for cache in caches]
        self._own_caches = [cache for cache in self._caches if cache not in of_teams]
        self._all_caches = [
            *self._caches,
            *self._lives.values(),
        ]  # a failed measurement does not make the cluster unknown
        self.measures = Measures()
        self._revisions: list[int] = []
        self._troubles: dict[str, str] = {}  # by team's namespace
        self._inputs: dict[str, _Inputs] = {}
        self._uids: dict[str, str] = {}  # of budgets
        self._seen = ObservedCluster()

    def start(self) -> None:
        for cache in self._all_caches:
            cache.start()

    def close(self) -> None:
        for cache in self._all_caches:
            cache.close()

    def trouble(self) -> str:
        """Return why a cache may be stale, except those of teams' namespaces; empty if all are current."""
        return next(filter(None, (cache.trouble() for cache in self._own_caches)), "")

    def _team_troubles(self) -> dict[str, str]:
        troubles = {ns: next(filter(None, (c.trouble() for c in caches)), "") for ns, caches in self._teams.items()}
        return {namespace: why for namespace, why in troubles.items() if why}

    def observe(self) -> ObservedCluster | Unknown:
        if why := self.trouble():
            return Unknown(why)
        revisions, troubles = [cache.revision for cache in self._caches], self._team_troubles()
        if (revisions, troubles) != (self._revisions, self._troubles):
            self._revisions, self._troubles = revisions, troubles
            self._seen = self._rebuild()
        return self._seen

    def act(self, action: Action) -> Outcome:
        self.last_error = ""
        if not self._may_write():
            return Outcome.FENCED
        try:
            self._send(action)
        except ApiError as error:
            self.last_error = str(error)
            if error.status == 409 and isinstance(action, Scale):  # the decision was based on an outdated state
                self._catch_up(self._pools[action.pool].namespace)
            return outcome_of(error)
        return Outcome.DONE

    def _rebuild(self) -> ObservedCluster:
        pools: dict[str, ObservedPool] = {}
        for namespace, cache in self._deployments.items():
            deployments = cache.snapshot()
            sets, pods = _by_owner(self._sets[namespace]), _by_owner(self._pods[namespace])
            for name, policy in self._pools.items():
                if policy.namespace == namespace and (stored := deployments.get(policy.deployment)) is not None:
                    owned_sets = sets.get(stored.uid, [])
                    owned_pods = [stored_pod for owner in owned_sets for stored_pod in pods.get(owner.uid, ())]
                    inputs = _Inputs(stored, owned_sets, owned_pods)
                    same = name in self._seen.pools and self._inputs[name] == inputs
                    self._inputs[name] = inputs
                    pools[name] = self._seen.pools[name] if same else _pool(inputs)
        budgets: dict[str, ObservedBudget] = {}
        for namespace, cache in self._pdbs.items():
            objects = cache.snapshot()
            for name, policy in self._budgets.items():
                if policy.namespace == namespace and (stored := objects.get(policy.pdb)) is not None:
                    self._uids[name], budgets[name] = stored.uid, as_maximum(stored.seen, policy)
        policies = (*self._pools.values(), *self._budgets.values())
        unknown = {p.name: self._troubles[p.namespace] for p in policies if p.namespace in self._troubles}
        return ObservedCluster(pools, budgets, unknown)

    def _catch_up(self, namespace: str) -> None:
        for caches in (self._deployments, self._pods):
            caches[namespace].reconnect()

    def _check_pods(self, name: str) -> None:
        """Check that a scale-down is based on the pods that exist: a watch may be connected but silent.

        Raises `ApiError`: a conflict if the pods differ.
        """
        (deployment, sets, cached), path = self._inputs[name], f"{_CORE}/{self._pools[name].namespace}/pods"
        owners = {stored.uid for stored in sets}
        results = pages(self._api, path, labelSelector=deployment.selector)
        listed = {pod(item) for page in results for item in page["items"]}
        if {stored for stored in listed if stored is not None and stored.owner in owners} != {*cached}:
            raise ApiError(409, "the pods differ from those that the watch reported")

    def _measure(self, namespace: str) -> None:
        self.measures.observe(
            namespace, {stored.uid: stored.seen for stored in self._lives[namespace].snapshot().values()}
        )

    def _send(self, action: Action) -> None:
        if isinstance(action, SetBudget):
            name, body = action.budget, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
            policy = _named(self._budgets, name)
            path = f"{_POLICY}/{policy.namespace}/poddisruptionbudgets/{policy.pdb}"
            # Without the uid, an apply would recreate a budget that has just been deleted.
            metadata = {"uid": self._uids[name]} if name in self._uids else {}
            spec = _written(action.max_unavailable, policy)
        else:
            pool, metadata = _named(self._pools, action.pool), dict[str, str]()
            if isinstance(action, Mark):
                cost = {"metadata": {"annotations": {DELETION_COST: _GOES_FIRST if action.idle else None}}}
                self._api.patch(f"{_CORE}/{pool.namespace}/pods/{action.pod}", cost, fieldManager=FIELD_MANAGER)
                return
            body = {"apiVersion": "autoscaling/v1", "kind": "Scale"}
            seen = self._seen.pools.get(action.pool)
            if seen is not None and action.replicas < seen.replicas:
                self._check_pods(action.pool)
            path, spec = f"{_APPS}/{pool.namespace}/deployments/{pool.deployment}/scale", {"replicas": action.replicas}
        if action.version:
            metadata["resourceVersion"] = action.version
        self._api.apply(path, {**body, "metadata": metadata, "spec": spec}, manager=FIELD_MANAGER)


def _deployments_of(config: ControllerConfig, namespace: str) -> Callable[[Json], StoredPool]:
    adopted = {pool.deployment for pool in config.pools if pool.namespace == namespace and pool.adopted}
    return partial(deployment, writers=ReplicaWriters(adopted))


def as_maximum(seen: ObservedBudget, policy: BudgetPolicy) -> ObservedBudget:
    """Convert a budget with a minimum to one with a maximum. A minimum that we never write becomes 2."""
    if policy.open_minimum is None:
        return seen
    meanings: dict[int | None, int] = {CLOSED_MINIMUM: 0, policy.open_minimum: 1}
    return replace(seen, max_unavailable=meanings.get(seen.minimum, _ANOTHER))


def _written(max_unavailable: int, policy: BudgetPolicy) -> dict[str, int]:
    if policy.open_minimum is None:
        return {"maxUnavailable": max_unavailable}
    return {"minAvailable": policy.open_minimum if max_unavailable else CLOSED_MINIMUM}


def outcome_of(error: ApiError) -> Outcome:
    if error.status in _PASSING or error.status >= 500:
        return Outcome.FAILED
    return Outcome.STALE if error.status == 409 else Outcome.REFUSED


def _pool(inputs: _Inputs) -> ObservedPool:
    seen, active = inputs.stored.seen, [stored.seen for stored in inputs.sets if stored.seen]  # two: a rollout
    settled = seen.settled and active == ([seen.replicas] if seen.replicas else [])
    pods = tuple(sorted((stored.seen for stored in inputs.pods), key=attrgetter("name")))
    return replace(seen, settled=settled, pods=pods)


def _by_owner(cache: KubeCache[Stored[T]]) -> Mapping[str, list[Stored[T]]]:
    owned: defaultdict[str, list[Stored[T]]] = defaultdict(list)
    for stored in cache.snapshot().values():
        owned[stored.owner].append(stored)
    return owned


def _named(policies: Mapping[str, T], name: str) -> T:
    if name not in policies:
        raise ApiError(404, f"the config does not name {name}")
    return policies[name]


def _p99(durations: Iterable[float]) -> float | None:
    ordered = sorted([*durations])  # copied first, since the loop may add durations meanwhile
    return ordered[math.ceil(0.99 * len(ordered)) - 1] if ordered else None
