"""Fields that a fragment may not set, each with the promise that they would break.

A fragment adds to the rendered pod. Lists grow and mappings gain keys. Fields with a short key are refused, so that a
pod is described in one place. Also refused:

- **Placement.** The simulator, the preview and the cluster autoscaler know where a pod may run from its node selector
  and category. `schedulerName` is refused, too: the autoscaler only simulates the default scheduler.
- **Nights.** A pod that tolerates the taints of a drained node would be scheduled there again, and a hard spread makes
  the autoscaler keep a node for a pod that fits elsewhere.
- **Workers.** Their grace period follows from the longest job or the longest save; their processes share a namespace,
  nothing may make a worker unready, and an ordinary container next to one would end with the SIGTERM while the job
  continues (rules EB020, EB023).
- **Sizes.** Nodes are chosen by requests, so every further container states its own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ebbtide.settings.file.not_here import page_section
from ebbtide.settings.file.problems import Finding, Location, show, value_at
from ebbtide.settings.fragment.restricted import restricted_findings
from ebbtide.settings.fragment.values import containers, entries_of, inside, mapping, name_of
from ebbtide.text.quantities import read_quantity
from ebbtide.vocabulary.labels import CATEGORY, NODE_GROUP, NODE_KIND, Category

OUR_VOLUMES: Mapping[str, str] = {"ebbtide-ca-bundle": "/etc/ebbtide-ca", "redis-authority": "/etc/ebbtide-redis"}
"""Volumes that Ebbtide adds to pods, and their mount paths."""

OUR_VARIABLES = frozenset(
    {
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
        *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
        "REDIS_CA_FILE",
    }
)
"""Variables that Ebbtide may add to each container of a pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """Facts for judging a fragment. None is an unreadable value, for which nothing is refused."""

    main: str  # name of the pod's own container
    category: Category | None
    minor: str | None = None
    volumes: frozenset[str] = frozenset()  # from the short keys

    @property
    def is_worker(self) -> bool:
        return self.category is Category.WORKER


_HAS_A_KEY: Mapping[str, str] = {
    "serviceAccountName": "serviceAccount",
    "serviceAccount": "serviceAccount, next to `pod:`",
    "automountServiceAccountToken": "kubernetes, for a pod's rights at the API server",
    "imagePullSecrets": "ebbtide:images.pullSecrets",
    "resources": "cpu, memory and gpu",
}
_MAIN_HAS_A_KEY: Mapping[str, str] = {
    "image": "image",
    "command": "command",
    "args": "args",
    "env": "env",
    "envFrom": "envFrom",
    "ports": "ports",
    "resources": "cpu, memory and gpu",
    "livenessProbe": "probes",
    "readinessProbe": "probes",
    "startupProbe": "probes",
}
_PLACED = "is placed only by its node selector and its category: the preview and the autoscaler know nothing else"
_LASTS = "runs until it is moved or replaced: the API server accepts no other pod in a Deployment or StatefulSet"
_PREEMPTS_NONE = (
    "preempts no other one: a pending pod would push workers out instead of waiting for a node (rule EB016)"
)
_SIZED = "the sum of its containers' requests, by which nodes are chosen"
_REFUSED: Mapping[str, tuple[str, str]] = {
    "nodeName": ("pod-promise.placement", _PLACED),
    "schedulerName": ("pod-promise.placement", _PLACED),
    "schedulingGates": ("pod-promise.placement", _PLACED),
    "workloadRef": ("pod-promise.placement", _PLACED),
    "priorityClassName": ("pod-promise.priority", _PREEMPTS_NONE),
    "priority": ("pod-promise.priority", _PREEMPTS_NONE),
    "preemptionPolicy": ("pod-promise.priority", _PREEMPTS_NONE),
    "restartPolicy": ("pod-promise.lasting", _LASTS),
    "activeDeadlineSeconds": ("pod-promise.lasting", _LASTS),
    "ephemeralContainers": ("pod-promise.lasting", _LASTS),
    "overhead": ("pod-promise.size", _SIZED),
    "resourceClaims": ("pod-promise.size", _SIZED),
}
_GRACE = (
    "has its longest job, or its longest save, and two minutes to end: the grace period follows from longestJob and "
    "checkpoints (rule EB040)"
)
_READY = "is never unready: a ReplicaSet removes unready pods first, busy or not (rule EB020)"
_REFUSED_OF_WORKERS: Mapping[str, tuple[str, str]] = {
    "terminationGracePeriodSeconds": ("pod-promise.grace", _GRACE),
    "shareProcessNamespace": (
        "pod-promise.process-namespace",
        "shares one process namespace: as PID 1 it would miss a SIGTERM that comes during its imports",
    ),
    "readinessGates": ("pod-promise.readiness", _READY),
}
_DRAINING = ("node.kubernetes.io/unschedulable", "ToBeDeletedByClusterAutoscaler")
_SPREAD_KEYS = ("kubernetes.io/hostname", "topology.kubernetes.io/zone", NODE_GROUP)
_SIZES = ("cpu", "memory", "ephemeral-storage")


def promise_findings(fragment: object, facts: PodFacts) -> Iterator[Finding]:
    """Yield findings with locations in the fragment."""
    for rule in _OF_ALL_PODS:
        yield from rule(fragment)
    for rule in _OF_THE_POD:
        yield from rule(fragment, facts)


def _fields(fragment: object, facts: PodFacts) -> Iterator[Finding]:
    pod_spec = mapping(fragment)
    for key in pod_spec.keys() & _HAS_A_KEY.keys():
        yield _short_key((key,), pod_spec[key], _HAS_A_KEY[key])
    refused = {**_REFUSED, **(_REFUSED_OF_WORKERS if facts.is_worker else {})}
    who = "a worker" if facts.is_worker else "a pod"
    for key in pod_spec.keys() & refused.keys():
        code, promise = refused[key]
        yield _broken(code, (key,), pod_spec[key], f"{who} that {promise}")


def _node_selector(fragment: object, facts: PodFacts) -> Iterator[Finding]:
    reserved_label = NODE_GROUP if facts.is_worker else NODE_KIND
    for key, value in mapping(value_at(fragment, ("nodeSelector",))).items():
        if key in (NODE_KIND, NODE_GROUP):
            hint = "set nodeGroup instead" if facts.is_worker else "set category instead"
            promise = f"a pod on the nodes that Ebbtide chose for it, by {reserved_label}"
            yield _broken("pod-promise.placement", ("nodeSelector", key), value, promise, hint)


def _categories(fragment: object) -> Iterator[Finding]:
    """Ebbtide's own terms stay in any case, so only terms that contradict them are refused."""
    for at, key, value in inside(value_at(fragment, ("affinity",))):
        if CATEGORY in (key, value):
            where: Location = ("affinity", *at, key)
            promise = "pods of a category on their own kind of nodes, and fixed pods apart from all others"
            yield _broken("pod-promise.categories", where, value, f"{promise}, as Ebbtide's own terms require")


def _spread(fragment: object, facts: PodFacts) -> Iterator[Finding]:
    for at, constraint in entries_of(fragment, "topologySpreadConstraints"):
        how, key = constraint.get("whenUnsatisfiable"), constraint.get("topologyKey")
        if how == "DoNotSchedule" and facts.category not in (None, Category.FIXED):
            promise = "a spread that is only a preference: a hard one keeps nodes at night that could be removed"
            yield _broken("pod-promise.nights", (*at, "whenUnsatisfiable"), how, promise, "use ScheduleAnyway")
        elif how == "ScheduleAnyway" and key in _SPREAD_KEYS:
            yield _broken("pod-promise.spread", (*at, "topologyKey"), key, "another key: this spread is Ebbtide's own")


def _tolerations(fragment: object) -> Iterator[Finding]:
    promise = "a pod that does not return to a node that is being drained or removed"
    for at, toleration in entries_of(fragment, "tolerations"):
        if toleration.get("effect", "") not in ("", "NoSchedule"):
            continue
        key = toleration.get("key", "")
        if not key or key in _DRAINING:
            hint = "" if key else "name the taint to tolerate"
            yield _broken("pod-promise.nights", (*at, "key"), key or "every key", promise, hint)


def _main_container(fragment: object, facts: PodFacts) -> Iterator[Finding]:
    for at, container in entries_of(fragment, "containers"):
        for key in container.keys() & {"restartPolicy", "restartPolicyRules"}:
            yield _broken("pod-promise.lasting", (*at, key), container[key], f"a pod that {_LASTS}")
        if container.get("name") != facts.main:
            continue
        for key in container.keys() & _MAIN_HAS_A_KEY.keys():
            if not (facts.is_worker and key == "readinessProbe"):  # has its own reason
                yield _short_key((*at, key), container[key], _MAIN_HAS_A_KEY[key])
        if facts.is_worker and "lifecycle" in container:
            yield _broken("pod-promise.grace", (*at, "lifecycle"), container["lifecycle"], f"a worker that {_GRACE}")


def _beside_a_worker(fragment: object, facts: PodFacts) -> Iterator[Finding]:
    if not facts.is_worker:
        return
    for at, container in containers(fragment):
        if "readinessProbe" in container:
            where = (*at, "readinessProbe")
            yield _broken("pod-promise.readiness", where, container["readinessProbe"], f"a worker that {_READY}")
        if at[0] == "containers" and container.get("name") != facts.main:
            promise = f"{facts.main!r}, or a helper that outlives the worker (rule EB023)"
            hint = "put it under initContainers, with restartPolicy: Always"
            yield _broken("pod-promise.helper", (*at, "name"), container.get("name"), promise, hint)


def _sizes(fragment: object, facts: PodFacts) -> Iterator[Finding]:
    for at, container in containers(fragment):
        if at[0] == "containers" and container.get("name") == facts.main:
            continue
        for resource in ("cpu", "memory"):
            amounts = [value_at(container, ("resources", kind, resource)) for kind in ("requests", "limits")]
            if amounts == [None, None]:
                where: Location = (*at, "resources", "requests", resource)
                promise = f"its {resource} request: nodes are chosen by the requests of pods"
                example = "{ cpu: 50m, memory: 64Mi }"
                yield _broken("pod-promise.size", where, None, promise, example=example)
        yield from _resource_findings(container, at)


def _resource_findings(container: Mapping[str, object], at: Location) -> Iterator[Finding]:
    for kind in ("requests", "limits"):
        for resource, amount in mapping(value_at(container, ("resources", kind))).items():
            if resource not in _SIZES:
                where: Location = (*at, "resources", kind, resource)
                promise = f"{', '.join(_SIZES)}: nodes are chosen by these and by the pod's own gpu"
                yield _broken("pod-promise.size", where, amount, promise)
    if "claims" in mapping(container.get("resources")):
        yield _broken("pod-promise.size", (*at, "resources", "claims"), [], f"a pod that {_SIZED}")
    requested, most = (
        read_quantity(value_at(container, ("resources", kind, "memory"))) for kind in ("requests", "limits")
    )
    if requested is not None and most is not None and requested != most:
        where = (*at, "resources", "limits", "memory")
        promise = "its memory request, so that one pod's growth never evicts another"
        limit = value_at(container, ("resources", "limits", "memory"))
        yield _broken("pod-promise.size", where, limit, promise, "leave the limit out: it follows from the request")
    requested, most = (
        read_quantity(value_at(container, ("resources", kind, "cpu"))) for kind in ("requests", "limits")
    )
    if requested is not None and most is not None and requested > most:
        where = (*at, "resources", "limits", "cpu")
        limit = value_at(container, ("resources", "limits", "cpu"))
        yield Finding(code="min.above-max", at=where, wanted="at least what it requests", found=show(limit))


def _volumes(fragment: object, facts: PodFacts) -> Iterator[Finding]:
    taken = {*OUR_VOLUMES, *facts.volumes}
    for at, entry in entries_of(fragment, "volumes"):
        if name_of(entry) in taken:
            yield _broken("pod-promise.volume", (*at, "name"), entry["name"], "another name: Ebbtide has this volume")
    for at, entry in containers(fragment):
        for mount_at, mount in entries_of(entry, "volumeMounts"):
            path = mount.get("mountPath")
            is_ours = isinstance(path, str) and path.rstrip("/") in OUR_VOLUMES.values()
            if is_ours or name_of(mount) in OUR_VOLUMES:
                where: Location = (*at, *mount_at, "mountPath" if is_ours else "name")
                actual = path if is_ours else mount.get("name")
                yield _broken("pod-promise.volume", where, actual, "another one: Ebbtide mounts this one itself")


def _variables(fragment: object) -> Iterator[Finding]:
    for at, container in containers(fragment):
        for env_at, variable in entries_of(container, "env"):
            if name_of(variable) in OUR_VARIABLES:
                promise = "another variable: Ebbtide sets this one from ebbtide:egress and ebbtide:redis"
                yield _broken("pod-promise.variable", (*at, *env_at, "name"), variable["name"], promise)


def _tokens(fragment: object) -> Iterator[Finding]:
    for at, volume in entries_of(fragment, "volumes"):
        for source_at, source in entries_of(volume, "projected", "sources"):
            token = source.get("serviceAccountToken")
            if token is not None and not mapping(token).get("audience"):
                where: Location = (*at, *source_at, "serviceAccountToken", "audience")
                promise = "an audience: without one it is a token for the API server, which pods do not hold by default"
                yield _broken("pod-promise.token", where, None, promise, example="vault")


def _restricted(fragment: object) -> Iterator[Finding]:
    for at, value, promise in restricted_findings(fragment):
        expected = f"{promise}: both namespaces enforce the Pod Security level restricted (rule EB028)"
        yield _broken("pod-promise.restricted", at, value, expected, page_section("pods"))


_OF_ALL_PODS = (_categories, _tolerations, _variables, _tokens, _restricted)
_OF_THE_POD = (_fields, _node_selector, _spread, _main_container, _beside_a_worker, _sizes, _volumes)


def _short_key(at: Location, value: object, key: str) -> Finding:
    return _broken("pod-promise.own-key", at, value, f"the short key {key} instead, so that it is set in one place")


def _broken(code: str, at: Location, value: object, promise: str, hint: str = "", *, example: str = "") -> Finding:
    return Finding(code=code, at=at, wanted=promise, found=show(value), hint=hint, example=example)
