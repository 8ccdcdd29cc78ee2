"""The cluster port on Kubernetes: caches to see with, one write per action, bound to the version it was decided on.

A pool is built anew only when something of it changed. Deployments are read before their pods: a version that is too
old costs one refused write, pods that are too old could cost a job.
"""

import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from operator import attrgetter
from time import monotonic
from typing import Any, TypeVar

from controllers.adapters.kube_api import ApiError, KubeApi
from controllers.adapters.kube_cache import KubeCache, pages
from controllers.adapters.kube_objects import Lifetime, Stored, budget, deployment, lifetime, pod, replica_set
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
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.labels import CATEGORY, DELETION_COST, FIELD_MANAGER, WORKLOAD, Category

T = TypeVar("T")

_CORE, _APPS, _POLICY = "/api/v1/namespaces", "/apis/apps/v1/namespaces", "/apis/policy/v1/namespaces"
_GOES_FIRST = "-1"  # below 0, the cost of a pod without the annotation
_PASSING = (0, 401, 408, 429)  # no answer, an expired token, too slow, too many


class Measures:
    """How long flexible pods take to end, and from creation to ready: the newest few hundred of each."""

    def __init__(self) -> None:
        self._drains, self._startups = deque[float](maxlen=500), deque[float](maxlen=500)  # seconds
        self._before: dict[str, Mapping[str, Lifetime]] = {}
        self._ending: dict[str, float] = {}

    def observe(self, namespace: str, pods: Mapping[str, Lifetime]) -> None:
        """What is there now, by uid; called at every change, from one thread for each namespace."""
        known = self._before.get(namespace, {})
        self._before[namespace] = pods
        for uid in known.keys() - pods.keys():
            if uid in self._ending:
                self._drains.append(monotonic() - self._ending.pop(uid))
        for uid, now in pods.items():
            before = known.get(uid)
            if now.ending:
                self._ending.setdefault(uid, monotonic())
            elif now.startup is not None and before is not None and before.startup is None:
                self._startups.append(now.startup.total_seconds())

    def p99(self) -> dict[str, float | None]:
        """Seconds; None while nothing was measured."""
        return {"drain": _p99(self._drains), "startup": _p99(self._startups)}


class KubeCluster:
    """`last_error` is the server's own word on the last write; empty if it was done."""

    def __init__(
        self, api: KubeApi, config: ControllerConfig, *, may_write: Callable[[], bool], notify: Callable[[], None]
    ) -> None:
        self._api, self._may_write = api, may_write
        self._pools = {policy.name: policy for policy in config.pools}
        self._budgets = {policy.name: policy for policy in config.budgets}
        workers, apps = {policy.namespace for policy in config.pools}, {policy.namespace for policy in config.budgets}
        # Without a selector, so that no lost label can hide a worker.
        self._deployments = {it: KubeCache(api, f"{_APPS}/{it}/deployments", deployment, notify) for it in workers}
        self._sets = {it: KubeCache(api, f"{_APPS}/{it}/replicasets", replica_set, notify) for it in workers}
        self._pods = {it: KubeCache(api, f"{_CORE}/{it}/pods", pod, notify) for it in workers}
        self._pdbs = {it: KubeCache(api, f"{_POLICY}/{it}/poddisruptionbudgets", budget, notify) for it in apps}
        flexible = f"{CATEGORY}={Category.FLEXIBLE}"
        self._lives = {
            it: KubeCache(api, f"{_CORE}/{it}/pods", lifetime, partial(self._measure, it), labelSelector=flexible)
            for it in {policy.namespace for policy in config.budgets if policy.name not in self._pools}
        }
        kinds: list[dict[str, KubeCache[Any]]] = [self._deployments, self._sets, self._pods, self._pdbs]
        self._caches = [cache for kind in kinds for cache in kind.values()]
        self._all_caches = [*self._caches, *self._lives.values()]  # what is only measured makes nobody blind
        self.measures = Measures()
        self._revisions: list[int] = []
        self._inputs: dict[str, tuple[Any, ...]] = {}
        self._uids: dict[str, str] = {}  # of budgets
        self._seen = ObservedCluster()

    def start(self) -> None:
        for cache in self._all_caches:
            cache.start()

    def close(self) -> None:
        for cache in self._all_caches:
            cache.close()

    def trouble(self) -> str:
        """Return why the caches are not believed; empty if they are."""
        return next(filter(None, (cache.trouble() for cache in self._caches)), "")

    def observe(self) -> ObservedCluster | Unknown:
        if why := self.trouble():
            return Unknown(why)
        revisions = [cache.revision for cache in self._caches]
        if revisions != self._revisions:
            self._revisions, self._seen = revisions, self._look()
        return self._seen

    def act(self, action: Action) -> Outcome:
        self.last_error = ""
        if not self._may_write():
            return Outcome.FENCED
        try:
            self._send(action)
        except ApiError as error:
            self.last_error = str(error)
            if error.status == 409 and isinstance(action, Scale):  # what it was decided on is old
                self._catch_up(self._pools[action.pool].namespace)
            return outcome_of(error)
        return Outcome.DONE

    def _look(self) -> ObservedCluster:
        pools: dict[str, ObservedPool] = {}
        for space, cache in self._deployments.items():
            deployments = cache.snapshot()
            sets, pods = _by_owner(self._sets[space]), _by_owner(self._pods[space])
            for name, policy in self._pools.items():
                if policy.namespace == space and (kept := deployments.get(policy.deployment)) is not None:
                    own = sets.get(kept.uid, [])
                    inputs = (kept.seen, own, [each for one in own for each in pods.get(one.uid, ())])
                    same = name in self._seen.pools and self._inputs[name] == inputs
                    self._inputs[name], pools[name] = inputs, self._seen.pools[name] if same else _pool(*inputs)
        budgets: dict[str, ObservedBudget] = {}
        for space, cache in self._pdbs.items():
            for name, kept in cache.snapshot().items():
                if name in self._budgets and self._budgets[name].namespace == space:
                    self._uids[name], budgets[name] = kept.uid, kept.seen
        return ObservedCluster(pools, budgets)

    def _catch_up(self, namespace: str) -> None:
        for caches in (self._deployments, self._pods):
            caches[namespace].reconnect()

    def _check_pods(self, name: str) -> None:
        """A watch may be connected and silent: the pods that a lowering was decided on must be those that are there.

        Raises `ApiError`: a conflict if they are not.
        """
        policy, (_, sets, cached) = self._pools[name], self._inputs[name]
        own, path = {kept.uid for kept in sets}, f"{_CORE}/{policy.namespace}/pods"
        found = pages(self._api, path, labelSelector=f"{WORKLOAD}={policy.deployment}")
        listed = {pod(item) for page in found for item in page["items"]}
        if {kept for kept in listed if kept is not None and kept.owner in own} != {*cached}:
            raise ApiError(409, "the pods differ from those that the watch reported")

    def _measure(self, namespace: str) -> None:
        self.measures.observe(namespace, {kept.uid: kept.seen for kept in self._lives[namespace].snapshot().values()})

    def _send(self, action: Action) -> None:
        if isinstance(action, SetBudget):
            name, body = action.budget, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
            path = f"{_POLICY}/{_named(self._budgets, name).namespace}/poddisruptionbudgets/{name}"
            # Without its uid an apply would make anew a budget that has just been deleted.
            metadata = {"uid": self._uids[name]} if name in self._uids else {}
            spec = {"maxUnavailable": action.max_unavailable}
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


def outcome_of(error: ApiError) -> Outcome:
    if error.status in _PASSING or error.status >= 500:
        return Outcome.FAILED
    return Outcome.STALE if error.status == 409 else Outcome.REFUSED


def _pool(seen: ObservedPool, sets: list[Stored[int]], pods: list[Stored[ObservedPod]]) -> ObservedPool:
    active = [kept.seen for kept in sets if kept.seen]  # two of them: a rollout
    settled = seen.settled and active == ([seen.replicas] if seen.replicas else [])
    return replace(seen, settled=settled, pods=tuple(sorted((kept.seen for kept in pods), key=attrgetter("name"))))


def _by_owner(cache: KubeCache[Stored[T]]) -> Mapping[str, list[Stored[T]]]:
    owned: defaultdict[str, list[Stored[T]]] = defaultdict(list)
    for kept in cache.snapshot().values():
        owned[kept.owner].append(kept)
    return owned


def _named(policies: Mapping[str, T], name: str) -> T:
    if name not in policies:
        raise ApiError(404, f"the config does not name {name}")
    return policies[name]


def _p99(durations: Iterable[float]) -> float | None:
    ordered = sorted([*durations])  # a copy first: the loop may add to it meanwhile
    return ordered[math.ceil(0.99 * len(ordered)) - 1] if ordered else None
