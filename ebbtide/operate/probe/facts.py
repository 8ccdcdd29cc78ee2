"""Facts that `ebbtide probe` reads from a cluster: a few bounded requests, sent in parallel; nothing is written.

A refused read is a `Denied` and never counts as absent. Access reviews use POST and store nothing. Large clusters are
not listed entirely: of each set of nodes only the first fifty are read.
"""

import hashlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple, Protocol, TypeAlias

from components.cluster.karpenter.pools import CLASS_API, class_name
from components.definitions import crds
from controllers.adapters.kube_api import ApiError, Json
from ebbtide.operate.objects import at
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings.file.keys import REDIS_PASSWORD
from ebbtide.settings.sections.redis import token_fault
from ebbtide.settings.sections.serving.gateway import Implementation
from ebbtide.vocabulary.labels import CONTROLLER, NAMESPACE
from ebbtide.vocabulary.node_pools import PATH as NODE_POOLS

MAX_NODES = 50
_PARALLEL = 8  # requests at a time: a distant API server takes a tenth of a second for each
_PULUMI_TIMEOUT_S = 30  # for a distant backend that needs a key from AWS or Vault
_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_REVIEW_OF_OTHERS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_MAX_DEPLOYMENTS = 500
_NODE_CLASSES, _KARPENTER = f"/apis/{CLASS_API}/ec2nodeclasses", "app.kubernetes.io/name=karpenter"


RAY_POLICY = "ebbtide-rayclusters"
"""Admission policy that limits the workload controller's writes to RayClusters."""


class ReadApi(Protocol):
    """The part of the API that a probe needs."""

    def get(self, path: str, **query: str) -> Json: ...

    def create(self, path: str, body: Mapping[str, Any], **query: str) -> Json: ...


class Denied(NamedTuple):
    """The caller may not read the object."""


class Right(NamedTuple):
    """One verb on one resource; cluster-wide if the namespace is empty."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""  # of the single object that it covers; empty for all

    def __str__(self) -> str:
        group = f".{self.group}" if self.group else ""
        return f"{self.verb} {self.resource}{group}" + (f" in {self.namespace}" if self.namespace else "")


Answer: TypeAlias = Json | Denied | None
"""The object; `None` if it does not exist."""


class ObjectWant(NamedTuple):
    """An object that a stack refers to but does not create."""

    kind: str  # a key of `API_OF_KIND`
    namespace: str  # empty for cluster-scoped kinds
    name: str
    keys: tuple[str, ...] = ()  # of its data
    wanted_by: str = ""  # the key that refers to it: "images.pullSecrets", "workloads.api"
    pods: int = 1  # that use it at once, according to the stack file

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @property
    def path(self) -> str:
        group, plural = API_OF_KIND[self.kind]
        root = f"/apis/{group}" if "/" in group else f"/api/{group}"
        return (
            f"{root}/namespaces/{self.namespace}/{plural}/{self.name}"
            if self.namespace
            else (f"{root}/{plural}/{self.name}")
        )


API_OF_KIND: Mapping[str, tuple[str, str]] = {  # group and version, plural
    "ConfigMap": ("v1", "configmaps"),
    "IngressClass": ("networking.k8s.io/v1", "ingressclasses"),
    "PersistentVolumeClaim": ("v1", "persistentvolumeclaims"),
    "Secret": ("v1", "secrets"),
    "StorageClass": ("storage.k8s.io/v1", "storageclasses"),
}


class ObjectState(NamedTuple):
    """The part of an object that a probe keeps: never the values of a Secret."""

    keys: frozenset[str] = frozenset()  # of its data
    modes: frozenset[str] = frozenset()  # access modes of a claim
    digest: str = ""  # of all values of its data, to compare copies; empty without data


StateAnswer: TypeAlias = ObjectState | Denied | None
"""`None` if the object does not exist."""

NodeLabels: TypeAlias = Mapping[str, str]


class RayWant(NamedTuple):
    """A Ray cluster of the stack."""

    cluster: str
    namespace: str
    tokens: tuple[ObjectWant, ...]  # copies of one token
    accounts: Mapping[str, tuple[str, tuple[Right, ...]]]  # by user: its display name and its required rights
    brings_operator: bool = True  # else an existing operator creates its pods


class NodePoolWant(NamedTuple):
    """A NodePool whose disruption budgets the workload controller writes."""

    name: str
    node_set: str  # its key in the stack file; "" if the stack creates the NodePool
    workers: bool  # jobs run on its nodes


class BrokerWant(NamedTuple):
    """A message broker, which the controller reads."""

    name: str
    pools: tuple[str, ...]
    consumer_timeout: timedelta | None = None  # of RabbitMQ


class ServingWant(NamedTuple):
    """Dependencies of a stack's services."""

    brings: bool  # the stack brings its gateway and KEDA
    apis: tuple[str, ...] = ()  # group and version
    keda: bool = False
    gateway_class: str | None = None
    implementation: Implementation = Implementation.ENVOY_GATEWAY


@dataclass(frozen=True, slots=True, kw_only=True)
class RayProbe:
    """State of Ray in the cluster, for a stack that uses it."""

    definitions: Mapping[str, Answer]  # by name
    deployments: Answer  # a list, of all namespaces: an operator may be in any
    policy: Answer  # the admission policy for RayClusters
    tokens: Mapping[ObjectWant, StateAnswer]
    lacking: Mapping[tuple[str, str], frozenset[Right] | Denied]  # missing rights by namespace and account


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    version: str  # "v1.35.2"; empty if the server does not say
    apis: frozenset[str]  # group and version: "policy/v1"
    admission_policies: bool  # ValidatingAdmissionPolicy of v1
    identity: Answer  # the namespace kube-system
    namespaces: Mapping[str, Answer]  # Ebbtide's two, and those of Ray clusters
    storage_classes: Answer  # a list
    nodes: Mapping[str, Answer]  # by set of nodes: a list of the first ones
    controller: Answer  # its Deployment, if installed
    config: Answer  # its ConfigMap
    autoscaler_status: Answer  # a ConfigMap of the cluster autoscaler
    objects: Mapping[ObjectWant, StateAnswer]
    denied: frozenset[Right]
    ray: RayProbe | None = None
    external_metrics: Answer = None  # the APIService
    gateway_class: Answer = None
    node_pools: Mapping[str, Answer] = field(default_factory=dict[str, Answer])  # by name
    node_classes: Mapping[str, Answer] = field(default_factory=dict[str, Answer])  # by the NodePool of the stack
    pool_classes: Mapping[str, Answer] = field(default_factory=dict[str, Answer])  # by name: existing NodePools'
    karpenter: Answer = None  # a list of its Deployments


def facts_of(
    api: ReadApi,
    sets: Mapping[str, NodeLabels],
    rights: Sequence[Right],
    objects: Sequence[ObjectWant] = (),
    ray: Sequence[RayWant] = (),
    serving: ServingWant | None = None,
    node_pools: Sequence[NodePoolWant] = (),
) -> Facts:
    """Send all requests. Raises `ApiError` if the server is unreachable."""
    version = str(api.get("/version").get("gitVersion", ""))  # first, so that an unreachable server is reported once
    system = f"/api/v1/namespaces/{NAMESPACE}"
    paths = {
        "identity": "/api/v1/namespaces/kube-system",
        "system": system,
        "workers": f"/api/v1/namespaces/{WORKER_NAMESPACE}",
        "storage": "/apis/storage.k8s.io/v1/storageclasses",
        "controller": f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{CONTROLLER}",
        "config": f"{system}/configmaps/{CONTROLLER}",
        "autoscaler": "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status",
        "groups": "/apis",
        "admission": "/apis/admissionregistration.k8s.io/v1",
    }
    if serving is not None:
        paths["external"] = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.external.metrics.k8s.io"
    if serving is not None and serving.gateway_class is not None:
        paths["class"] = f"/apis/gateway.networking.k8s.io/v1/gatewayclasses/{serving.gateway_class}"
    with ThreadPoolExecutor(_PARALLEL) as pool:
        allowed = [pool.submit(_allowed, api, right) for right in rights]
        nodes = {name: pool.submit(_nodes, api, labels) for name, labels in sets.items()}
        states = {want: pool.submit(_state, api, want) for want in objects}
        reads = {name: pool.submit(read, api, path) for name, path in paths.items()}
        spaces = {want.namespace: pool.submit(read, api, f"/api/v1/namespaces/{want.namespace}") for want in ray}
        pools = {want.name: pool.submit(read, api, f"{NODE_POOLS}/{want.name}") for want in node_pools}
        created = [want.name for want in node_pools if not want.node_set]
        classes = {name: pool.submit(read, api, f"{_NODE_CLASSES}/{class_name(name)}") for name in created}
        karpenter = pool.submit(read, api, "/apis/apps/v1/deployments", labelSelector=_KARPENTER) if pools else None
        answers = {name: read.result() for name, read in reads.items()}
        existing = [pools[want.name].result() for want in node_pools if want.node_set]
        named = {name for item in existing if isinstance(item, dict) and (name := ec2_class(item))}
        of_existing = {name: pool.submit(read, api, f"{_NODE_CLASSES}/{name}") for name in sorted(named)}
        return Facts(
            version=version,
            apis=_versions(answers["groups"]),
            admission_policies="validatingadmissionpolicies" in names_in(answers["admission"], "resources"),
            identity=answers["identity"],
            namespaces={
                NAMESPACE: answers["system"],
                WORKER_NAMESPACE: answers["workers"],
                **{space: read.result() for space, read in spaces.items()},
            },
            storage_classes=answers["storage"],
            nodes={name: read.result() for name, read in nodes.items()},
            controller=answers["controller"],
            config=answers["config"],
            autoscaler_status=answers["autoscaler"],
            objects={want: state.result() for want, state in states.items()},
            denied=frozenset(right for right, review in zip(rights, allowed, strict=True) if not review.result()),
            ray=_ray_facts(api, ray, pool) if ray else None,
            external_metrics=answers.get("external"),
            gateway_class=answers.get("class"),
            node_pools={name: read.result() for name, read in pools.items()},
            node_classes={name: read.result() for name, read in classes.items()},
            pool_classes={name: read.result() for name, read in of_existing.items()},
            karpenter=karpenter and karpenter.result(),
        )


def ec2_class(pool: Json) -> str:
    """Return the name of a NodePool's EC2NodeClass; empty if it names none of this kind."""
    reference: Json = at(pool, "spec", "template", "spec", "nodeClassRef") or {}
    return str(reference.get("name", "")) if reference.get("group") == CLASS_API.partition("/")[0] else ""


def _ray_facts(api: ReadApi, wants: Sequence[RayWant], pool: ThreadPoolExecutor) -> RayProbe:
    deployments = pool.submit(read, api, "/apis/apps/v1/deployments", limit=str(_MAX_DEPLOYMENTS))
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    policy = pool.submit(read, api, f"{policies}/{RAY_POLICY}")
    definitions = {crd.name: pool.submit(read, api, f"{_DEFINITIONS}/{crd.name}") for crd in crds("kuberay")}
    tokens = {token: pool.submit(_state, api, token) for want in wants for token in want.tokens}
    reviews = {
        (want.namespace, user): [(right, pool.submit(_other_allowed, api, user, right)) for right in rights]
        for want in wants
        for user, (_, rights) in want.accounts.items()
    }
    allowed = {key: {right: review.result() for right, review in rows} for key, rows in reviews.items()}
    return RayProbe(
        definitions={name: read.result() for name, read in definitions.items()},
        deployments=deployments.result(),
        policy=policy.result(),
        tokens={token: state.result() for token, state in tokens.items()},
        lacking={key: _denied_rights(answers) for key, answers in allowed.items()},
    )


def _denied_rights(answers: Mapping[Right, bool | None]) -> frozenset[Right] | Denied:
    if None in answers.values():
        return Denied()
    return frozenset(right for right, allowed in answers.items() if not allowed)


def read(api: ReadApi, path: str, **query: str) -> Answer:
    try:
        return api.get(path, **query)
    except ApiError as error:
        if error.status == 403:
            return Denied()
        if error.status == 404:
            return None
        raise


def _state(api: ReadApi, want: ObjectWant) -> StateAnswer:
    item = read(api, want.path)
    if not isinstance(item, dict):
        return item
    spec: Json = item.get("spec") or {}
    data: Json = item.get("data") or {}
    digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest() if data else ""
    return ObjectState(frozenset(map(str, data)), frozenset(map(str, spec.get("accessModes") or ())), digest)


def _nodes(api: ReadApi, labels: NodeLabels) -> Answer:
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    return read(api, "/api/v1/nodes", labelSelector=selector, limit=str(MAX_NODES))


def _allowed(api: ReadApi, right: Right) -> bool:
    return _reviewed(api, _REVIEW, "SelfSubjectAccessReview", {"resourceAttributes": _attributes(right)})


def _other_allowed(api: ReadApi, user: str, right: Right) -> bool | None:
    """Return True if another user has the right; None if the caller may not ask."""
    try:
        spec = {"user": user, "resourceAttributes": _attributes(right)}
        return _reviewed(api, _REVIEW_OF_OTHERS, "SubjectAccessReview", spec)
    except ApiError as error:
        if error.status == 403:
            return None
        raise


def _reviewed(api: ReadApi, path: str, kind: str, spec: Mapping[str, object]) -> bool:
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    status: Json = api.create(path, body).get("status") or {}
    return bool(status.get("allowed"))


def _attributes(right: Right) -> dict[str, str]:
    resource, _, part = right.resource.partition("/")
    attributes = {"verb": right.verb, "group": right.group, "resource": resource, "namespace": right.namespace}
    attributes |= {"subresource": part} if part else {}
    return {**attributes, "name": right.name} if right.name else attributes


def _versions(groups: Answer) -> frozenset[str]:
    listed: Sequence[Json] = groups.get("groups") or () if isinstance(groups, dict) else ()
    return frozenset(str(version["groupVersion"]) for group in listed for version in group.get("versions") or ())


def names_in(answer: Answer, key: str) -> frozenset[str]:
    listed: Sequence[Json] = answer.get(key) or () if isinstance(answer, dict) else ()
    return frozenset(str(item["name"]) for item in listed)


def fault_of_token(stack: str, program: str = "pulumi") -> str | None:
    """Return why a cache would refuse the stack's Redis token; "" if it would not, None if it cannot be read.

    The token is read as `pulumi up` would read it, and never leaves this function.
    """
    command = (program, "config", "get", REDIS_PASSWORD, "--stack", stack, "--non-interactive")
    try:
        answer = subprocess.run(
            command, capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=_PULUMI_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = answer.stdout.decode(errors="replace").replace("\r\n", "\n")
    return token_fault(text.removesuffix("\n")) if answer.returncode == 0 else None
