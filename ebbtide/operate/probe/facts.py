"""What `ebbtide probe` reads of a cluster: a few bounded requests, sent in parallel; nothing is written.

What may not be read is a `Denied` and never taken for absent. Access reviews are sent with POST and store
nothing. A cluster of a thousand nodes is not listed: of each set of nodes only the first fifty are read.
"""

import hashlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

from components.definitions import crds
from controllers.adapters.kube_api import ApiError, Json
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings.file.keys import REDIS_PASSWORD
from ebbtide.settings.sections.redis import token_fault
from ebbtide.settings.sections.serving.gateway import Implementation
from ebbtide.vocabulary.labels import CONTROLLER, NAMESPACE

NODES_LOOKED_AT = 50
_PARALLEL = 8  # requests at a time: a far away API server answers each in a tenth of a second
_PULUMI_TIMEOUT_S = 30  # a backend far away, and a key of AWS or Vault behind it
_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_REVIEW_OF_OTHERS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_DEPLOYMENTS_LOOKED_AT = 500


RAY_POLICY = "ebbtide-rayclusters"
"""What bounds the workload controller's writes of RayClusters."""


class ReadApi(Protocol):
    """The part of the API that a probe needs."""

    def get(self, path: str, **query: str) -> Json: ...

    def create(self, path: str, body: Mapping[str, Any]) -> Json: ...


class Denied(NamedTuple):
    """The caller may not read it."""


class Right(NamedTuple):
    """One verb on one resource; in the whole cluster where the namespace is empty."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""  # of the one object that it is granted for; empty for all

    def __str__(self) -> str:
        group = f".{self.group}" if self.group else ""
        return f"{self.verb} {self.resource}{group}" + (f" in {self.namespace}" if self.namespace else "")


Answer: TypeAlias = Json | Denied | None
"""The object; `None` where there is none."""


class ObjectWant(NamedTuple):
    """An object that a stack refers to and that others make."""

    kind: str  # a key of `LOOKED_FOR`
    namespace: str  # empty for what belongs to none
    name: str
    keys: tuple[str, ...] = ()  # of its data
    wanted_by: str = ""  # what refers to it, for the sentence: "images.pullSecrets", "workloads.api"
    pods: int = 1  # that use it at once, as far as the file says

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @property
    def path(self) -> str:
        group, plural = LOOKED_FOR[self.kind]
        root = f"/apis/{group}" if "/" in group else f"/api/{group}"
        return (
            f"{root}/namespaces/{self.namespace}/{plural}/{self.name}"
            if self.namespace
            else (f"{root}/{plural}/{self.name}")
        )


LOOKED_FOR: Mapping[str, tuple[str, str]] = {  # group and version, plural
    "ConfigMap": ("v1", "configmaps"),
    "IngressClass": ("networking.k8s.io/v1", "ingressclasses"),
    "PersistentVolumeClaim": ("v1", "persistentvolumeclaims"),
    "Secret": ("v1", "secrets"),
    "StorageClass": ("storage.k8s.io/v1", "storageclasses"),
}


class Seen(NamedTuple):
    """All that is kept of an object: the values of a Secret go no further."""

    keys: frozenset[str] = frozenset()  # of its data
    modes: frozenset[str] = frozenset()  # of access, of a claim
    digest: str = ""  # of all values of its data, to compare copies; empty where there are none


Sighted: TypeAlias = Seen | Denied | None
"""`None` for no object."""

NodeLabels: TypeAlias = Mapping[str, str]


class RayWant(NamedTuple):
    """A Ray cluster of the stack."""

    cluster: str
    namespace: str
    tokens: tuple[ObjectWant, ...]  # copies of one token
    accounts: Mapping[str, tuple[str, tuple[Right, ...]]]  # by user: its name here, and what it must be allowed
    brings_operator: bool = True  # else one that is there already makes its pods


class ServingWant(NamedTuple):
    """What the services of a stack stand on."""

    brings: bool  # the stack brings its gateway and KEDA
    apis: tuple[str, ...] = ()  # group and version
    keda: bool = False
    gateway_class: str | None = None
    implementation: Implementation = Implementation.ENVOY_GATEWAY


@dataclass(frozen=True, slots=True, kw_only=True)
class RayFacts:
    """What there is of Ray, for a stack that has any."""

    definitions: Mapping[str, Answer]  # by name
    deployments: Answer  # a list, of all namespaces: an operator may be in any
    policy: Answer  # admission's, over RayClusters
    tokens: Mapping[ObjectWant, Sighted]
    lacking: Mapping[tuple[str, str], frozenset[Right] | Denied]  # by namespace and account: what it may not


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    version: str  # "v1.35.2"; empty where the server does not say
    apis: frozenset[str]  # group and version: "policy/v1"
    admission_policies: bool  # ValidatingAdmissionPolicy of v1
    identity: Answer  # the namespace kube-system
    namespaces: Mapping[str, Answer]  # Ebbtide's two
    storage_classes: Answer  # a list
    nodes: Mapping[str, Answer]  # by set of nodes: a list of the first of them
    controller: Answer  # the Deployment of one that runs here
    config: Answer  # its ConfigMap
    autoscaler_status: Answer  # a ConfigMap of the cluster autoscaler
    objects: Mapping[ObjectWant, Sighted]
    denied: frozenset[Right]
    ray: RayFacts | None = None
    external_metrics: Answer = None  # the APIService
    gateway_class: Answer = None


def facts_of(
    api: ReadApi,
    sets: Mapping[str, NodeLabels],
    rights: Sequence[Right],
    objects: Sequence[ObjectWant] = (),
    ray: Sequence[RayWant] = (),
    serving: ServingWant | None = None,
) -> Facts:
    """Raises `ApiError` where the server cannot be asked at all."""
    version = str(api.get("/version").get("gitVersion", ""))  # first and alone: an unreachable server is reported once
    here = f"/api/v1/namespaces/{NAMESPACE}"
    paths = {
        "identity": "/api/v1/namespaces/kube-system",
        "system": here,
        "workers": f"/api/v1/namespaces/{WORKER_NAMESPACE}",
        "storage": "/apis/storage.k8s.io/v1/storageclasses",
        "controller": f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{CONTROLLER}",
        "config": f"{here}/configmaps/{CONTROLLER}",
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
        sights = {want: pool.submit(_sighted, api, want) for want in objects}
        reads = {name: pool.submit(_read, api, path) for name, path in paths.items()}
        spaces = {it.namespace: pool.submit(_read, api, f"/api/v1/namespaces/{it.namespace}") for it in ray}
        found = {name: look.result() for name, look in reads.items()}
        return Facts(
            version=version,
            apis=_versions(found["groups"]),
            admission_policies="validatingadmissionpolicies" in _names(found["admission"], "resources"),
            identity=found["identity"],
            namespaces={
                NAMESPACE: found["system"],
                WORKER_NAMESPACE: found["workers"],
                **{space: look.result() for space, look in spaces.items()},
            },
            storage_classes=found["storage"],
            nodes={name: look.result() for name, look in nodes.items()},
            controller=found["controller"],
            config=found["config"],
            autoscaler_status=found["autoscaler"],
            objects={want: look.result() for want, look in sights.items()},
            denied=frozenset(right for right, may in zip(rights, allowed, strict=True) if not may.result()),
            ray=_ray_facts(api, ray, pool) if ray else None,
            external_metrics=found.get("external"),
            gateway_class=found.get("class"),
        )


def _ray_facts(api: ReadApi, wants: Sequence[RayWant], pool: ThreadPoolExecutor) -> RayFacts:
    deployments = pool.submit(_read, api, "/apis/apps/v1/deployments", limit=str(_DEPLOYMENTS_LOOKED_AT))
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    policy = pool.submit(_read, api, f"{policies}/{RAY_POLICY}")
    definitions = {crd.name: pool.submit(_read, api, f"{_DEFINITIONS}/{crd.name}") for crd in crds("kuberay")}
    tokens = {want: pool.submit(_sighted, api, want) for it in wants for want in it.tokens}
    lacking = {
        (it.namespace, user): [(right, pool.submit(_may, api, user, right)) for right in rights]
        for it in wants
        for user, (_, rights) in it.accounts.items()
    }
    may = {key: {right: look.result() for right, look in looks} for key, looks in lacking.items()}
    return RayFacts(
        definitions={name: look.result() for name, look in definitions.items()},
        deployments=deployments.result(),
        policy=policy.result(),
        tokens={want: look.result() for want, look in tokens.items()},
        lacking={key: _lacked(answers) for key, answers in may.items()},
    )


def _lacked(answers: Mapping[Right, bool | None]) -> frozenset[Right] | Denied:
    if None in answers.values():
        return Denied()
    return frozenset(right for right, allowed in answers.items() if not allowed)


def _read(api: ReadApi, path: str, **query: str) -> Answer:
    try:
        return api.get(path, **query)
    except ApiError as error:
        if error.status == 403:
            return Denied()
        if error.status == 404:
            return None
        raise


def _sighted(api: ReadApi, want: ObjectWant) -> Sighted:
    seen = _read(api, want.path)
    if not isinstance(seen, dict):
        return seen
    spec: Json = seen.get("spec") or {}
    data: Json = seen.get("data") or {}
    digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest() if data else ""
    return Seen(frozenset(map(str, data)), frozenset(map(str, spec.get("accessModes") or ())), digest)


def _nodes(api: ReadApi, labels: NodeLabels) -> Answer:
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    return _read(api, "/api/v1/nodes", labelSelector=selector, limit=str(NODES_LOOKED_AT))


def _allowed(api: ReadApi, right: Right) -> bool:
    return _reviewed(api, _REVIEW, "SelfSubjectAccessReview", {"resourceAttributes": _attributes(right)})


def _may(api: ReadApi, user: str, right: Right) -> bool | None:
    """Whether another may; None where the caller may not ask."""
    try:
        wish = {"user": user, "resourceAttributes": _attributes(right)}
        return _reviewed(api, _REVIEW_OF_OTHERS, "SubjectAccessReview", wish)
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


def _names(seen: Answer, key: str) -> frozenset[str]:
    listed: Sequence[Json] = seen.get(key) or () if isinstance(seen, dict) else ()
    return frozenset(str(item["name"]) for item in listed)


def fault_of_token(stack: str, program: str = "pulumi") -> str | None:
    """Of the password of Redis, as `pulumi up` would read it; it never leaves this function.

    What a cache would refuse about the stack's token, "" for nothing; None where it cannot be read from here.
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
