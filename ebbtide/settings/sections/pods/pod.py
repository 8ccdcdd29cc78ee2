"""Keys that all pods of a customer share: services, queue workers and jobs.

The common fields have short keys with Kubernetes' names; `pod`, a fragment of a PodSpec, covers the others.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, TypeAlias, cast

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, Strict, TypeAdapter, WithJsonSchema, model_validator
from pydantic_core import CoreSchema

from ebbtide.provisioning_labels import SAFE_TO_EVICT, Architecture
from ebbtide.settings.file.problems import value_at, wanted
from ebbtide.settings.sections.checked import Check, Settings
from ebbtide.settings.sections.grammar import not_both, text_schema
from ebbtide.settings.sections.owned import Owned
from ebbtide.settings.sections.pods.aws import GivenAwsRights
from ebbtide.settings.sections.pods.env import EnvName, EnvSource, EnvVariable
from ebbtide.settings.sections.pods.kubernetes import AccountName
from ebbtide.settings.sections.pods.probes import PortName, PortNumber, Probes, ports_once, probes_have_ports
from ebbtide.settings.sections.pods.volumes import Volume, VolumeName, mounted_once
from ebbtide.settings.sections.types import Count, Image, Mebibytes, Millicores, Word
from ebbtide.vocabulary.labels import GPU_RESOURCE, PREFIX

_LABEL_KEY = r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?$"
_LABEL_VALUE = r"^([A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?)?$"
_OURS = ("app.kubernetes.io/name",)
_PROMISED = {
    SAFE_TO_EVICT: "the budget decides when a pod may be evicted, for the autoscaler and all other clients",
    "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes": "Ebbtide writes it for the scratch volumes",
    "controller.kubernetes.io/pod-deletion-cost": "the controller marks idle workers with it",
}
_MOST_USERS = 2**31 - 1
_OTHER_NAMES = {
    **dict.fromkeys(("x86_64", "x86-64", "x64", "x86", "intel", "amd"), Architecture.AMD64),
    **dict.fromkeys(("aarch64", "arm", "graviton"), Architecture.ARM64),
}

INGRESS = "ingress"
_READ_BY_CONTROLLERS = (INGRESS, "sleep")  # keys with an Ingress's certificate and a hub's token


def _architecture(value: object) -> object:
    """Accept Kubernetes' name of an architecture; vendors and tools use others."""
    if value not in set(Architecture):
        meant = _OTHER_NAMES.get(value.lower() if isinstance(value, str) else "")
        hint = "" if meant is None else f"did you mean {meant}?"
        example = meant or Architecture.ARM64
        raise wanted("choice.unknown", " or ".join(Architecture), example=example, hint=hint)
    return value


def _label_key(value: object) -> str:
    if not isinstance(value, str) or re.fullmatch(_LABEL_KEY, value) is None:
        raise wanted("label.key", "the key of a label, as Kubernetes accepts it", example="team")
    if value.startswith(PREFIX) or value in _OURS:
        raise wanted("label.ours", "a key that is not Ebbtide's: its labels say how a pod may be moved", example="team")
    if value in _PROMISED:
        raise wanted("annotation.promised", "this key left out", example="team", hint=_PROMISED[value])
    return value


def _label_value(value: object) -> str:
    if not isinstance(value, str) or re.fullmatch(_LABEL_VALUE, value) is None:
        expected = "the value of a label: at most 63 letters, digits, -, _ and ."
        raise wanted("label.value", expected, example="search", hint="" if isinstance(value, str) else "quote it")
    return value


_Key = BeforeValidator(_label_key)
LabelKey: TypeAlias = Annotated[str, _Key, text_schema(_LABEL_KEY)]
LabelValue: TypeAlias = Annotated[str, BeforeValidator(_label_value), text_schema(_LABEL_VALUE)]


_DNS_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_OTHERS = r"(?!requests\.)(?!([-a-z0-9.]*\.)?kubernetes\.io/)"
_EXTENDED_RESOURCE = rf"^{_OTHERS}{_DNS_LABEL}(\.{_DNS_LABEL})*/[A-Za-z0-9]([-._A-Za-z0-9]{{0,61}}[A-Za-z0-9])?$"
"""Source: Kubernetes, IsExtendedResourceName in k8s.io/component-helpers/resource and validation of qualified names."""
_LONGEST_DOMAIN = 244  # the API server puts "requests." before it, for quotas, and takes 253


def _extended_resource(value: object) -> str:
    text = value if isinstance(value, str) else ""
    if re.fullmatch(_EXTENDED_RESOURCE, text) is None or len(text.partition("/")[0]) > _LONGEST_DOMAIN:
        expected = "the name under which a device plugin offers GPUs: a domain, a slash and a name"
        raise wanted("gpu.resource", expected, example="amd.com/gpu")
    return text


def _none_has_no_kind(count: int, resource: str, memory: int | None) -> None:
    if count == 0 and (resource != GPU_RESOURCE or memory is not None):
        expected = "at least 1 with resource or memory, which describe the GPUs"
        raise wanted("gpu.of-none", expected, found="0", example="1", at="count")


def _memory_is_nvidia(resource: str, memory: int | None) -> None:
    if memory is not None and resource != GPU_RESOURCE:
        expected = f"memory with {GPU_RESOURCE} only: nodes have no label with the memory of other GPUs"
        raise wanted(
            "gpu.memory-untold", expected, found=resource, hint="the name of a slice includes its memory", at="memory"
        )


class Gpu(Settings):
    """GPUs of one pod. A plain number is the count."""

    checks: ClassVar[tuple[Check, ...]] = (
        Check(("count", "resource", "memory"), _none_has_no_kind),
        Check(("resource", "memory"), _memory_is_nvidia),
    )

    count: Count = Field(default=1, description="number of GPUs; short form: only the number", examples=["2"])
    resource: Annotated[str, BeforeValidator(_extended_resource), text_schema(_EXTENDED_RESOURCE)] = Field(
        default=GPU_RESOURCE,
        description="resource name of the device plugin; other names only on an existing cluster",
        examples=["nvidia.com/mig-1g.10gb"],
    )
    memory: Mebibytes | None = Field(
        default=None, description="minimum memory of each GPU; default: any", examples=["40Gi"]
    )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [_COUNT.json_schema(), handler(schema)]}

    @model_validator(mode="before")
    @classmethod
    def _count_alone(cls, value: Any) -> Any:
        """Parse a plain number here, so that its fault is located at `gpu` and not at a key that the file does not
        have.
        """
        complete = isinstance(value, Mapping | Gpu)
        return cast("object", value) if complete else {"count": _COUNT.validate_python(value)}


_COUNT: TypeAdapter[int] = TypeAdapter(Count)
NO_GPU = Gpu(count=0)


class Limits(Settings):
    """Limits of a container."""

    cpu: Millicores | None = Field(
        default=None, description="CPU; default: none, since unused CPU would stay idle", examples=["2"]
    )
    memory: Mebibytes | None = Field(
        default=None,
        description="memory; default: the request, so that no pod's growth evicts another",
        examples=["8Gi"],
    )


def _shm_within_memory(shm: int | None, memory: int, limits: Limits) -> None:
    most = limits.memory or memory
    if shm is not None and shm > most:
        expected = f"at most the memory that the pod may take, {most}Mi: shared memory counts as memory"
        raise wanted("shm.above-memory", expected, found=f"{shm}Mi", example="1Gi", at="shm")


def _limits_above_requests(cpu: int, memory: int, limits: Limits) -> None:
    for key, request, most, unit in (("cpu", cpu, limits.cpu, "m"), ("memory", memory, limits.memory, "Mi")):
        if most is not None and most < request:
            expected = f"at least the request, which is {request}{unit}"
            raise wanted(
                "limits.below-request", expected, found=f"{most}{unit}", example=f"{request}{unit}", at=("limits", key)
            )


def one_account(rights: str) -> Check:
    """Refuse a service account beside the key of rights, for which the pod gets an account of its own."""
    expected = f"{rights}, which creates an account for the pod, or serviceAccount, which names an existing one"
    return not_both(rights, "serviceAccount", "service-account.second", expected)


class PodSettings(Settings):
    """One pod: its main container, requests, environment, volumes and permissions."""

    checks: ClassVar[tuple[Check, ...]] = (
        Check(("ports",), ports_once),
        Check(("ports", "probes"), probes_have_ports),
        Check(("volumes", "shm"), mounted_once),
        Check(("shm", "memory", "limits"), _shm_within_memory),
        Check(("cpu", "memory", "limits"), _limits_above_requests),
        one_account("aws"),
    )

    image: Image = Field(description="container image", examples=["registry.example.com/ml/api:1.4.2"])
    command: tuple[Word, ...] = Field(
        default=(),
        description="replaces the image's entrypoint; one list entry per word, since no shell splits them",
        examples=["[python, -m, api]"],
    )
    args: tuple[Word, ...] = Field(
        default=(), description="arguments of the command, or of the image's entrypoint", examples=['["--workers=4"]']
    )
    env: dict[EnvName, EnvVariable] = Field(
        default={},
        description="environment variables: a text, { secret, key }, { configMap, key } or { field }",
        examples=["{ LOG_LEVEL: info, DB_PASSWORD: { secret: db-login, key: password } }"],
    )
    env_from: tuple[EnvSource, ...] = Field(
        default=(),
        description="Secrets and ConfigMaps whose keys all become variables",
        examples=["[{ secret: db-login }]"],
    )
    ports: dict[PortName, PortNumber] = Field(
        default={},
        description="TCP ports by name, of the container and of a Service with the workload's name",
        examples=["{ http: 8080, metrics: 9090 }"],
    )
    probes: Probes = Field(
        default=Probes(),
        description="probes of the kubelet: readiness, liveness and startup",
        examples=["{ readiness: { http: /healthz, port: http } }"],
    )
    cpu: Millicores = Field(description="CPU request per pod, in cores or millicores", examples=["2", "500m"])
    memory: Mebibytes = Field(description="memory request and limit per pod", examples=["8Gi"])
    gpu: Gpu = Field(
        default=NO_GPU,
        description="GPUs per pod: a count, or { count, resource, memory }",
        examples=["1", "{ count: 1, memory: 40Gi }"],
    )
    arch: (
        Annotated[
            Architecture,
            BeforeValidator(_architecture),
            WithJsonSchema({"type": "string", "enum": list(Architecture)}),
        ]
        | None
    ) = Field(
        default=None,
        description="what the image is built for: amd64, arm64, or any for a multi-arch image; default: amd64 if the "
        "pod's node groups have different architectures",
        examples=["arm64"],
    )
    limits: Limits = Field(default=Limits(), description="limits that differ from the default", examples=["{ cpu: 4 }"])
    ephemeral_storage: Mebibytes | None = Field(
        default=None,
        description="space on the node's disk for logs, scratch volumes and written files; request and limit",
        examples=["20Gi"],
    )
    shm: Mebibytes | None = Field(
        default=None, description="shared memory at /dev/shm; counts toward the pod's memory", examples=["8Gi"]
    )
    volumes: dict[VolumeName, Volume] = Field(
        default={}, description="mounted volumes by name", examples=["{ cache: { scratch: 10Gi, at: /scratch } }"]
    )
    priority: Annotated[int, Strict(), Field(ge=1, le=_MOST_USERS // 4)] | None = Field(
        default=None,
        description="scheduling order when nodes are short; never preempts another pod. Not for fixed pods",
        examples=["1000"],
    )
    user: Annotated[int, Strict(), Field(ge=1, le=_MOST_USERS)] = Field(
        default=1000, description="user and group by number; root is refused in these namespaces", examples=["1000"]
    )
    writable_root: Annotated[bool, Strict()] = Field(
        default=True, description="a writable root file system; false is safer", examples=["false"]
    )
    labels: dict[LabelKey, LabelValue] = Field(
        default={}, description="additional labels of the pods", examples=["{ team: search }"]
    )
    annotations: dict[LabelKey, Annotated[str, Strict()]] = Field(
        default={}, description="additional annotations of the pods", examples=['{ prometheus.io/scrape: "true" }']
    )
    aws: GivenAwsRights | None = Field(
        default=None,
        description="AWS permissions of the pod, through a role; only on an EKS cluster of this stack",
        examples=["{ buckets: { acme-data: read }, queues: { uploads: receive } }"],
    )
    service_account: AccountName | None = Field(
        default=None,
        description="an existing ServiceAccount in the pod's namespace; the account says whether its token is mounted",
        examples=["reports"],
    )
    pod: dict[str, Any] = Field(
        default={},
        description="a fragment of a Kubernetes PodSpec, merged last: init containers, sidecars, host aliases, "
        "tolerations, CSI volumes; Ebbtide refuses fields that would break its promises",
        examples=["{ hostAliases: [{ ip: 10.0.0.9, hostnames: [licences.example.com] }] }"],
    )
    """The editor's schema accepts any mapping: a full PodSpec would be larger than the rest of it. `check` knows it."""

    @property
    def least(self) -> int:
        """Return its minimum number of pods."""
        return 1

    @property
    def most(self) -> int:
        """Return its maximum number of pods."""
        return 1

    def secret_references(self) -> Iterator[tuple[tuple[str | int, ...], str, str | None]]:
        """Yield location, name of the Secret, and key; None for all keys."""
        yield from secrets_named(self.env, self.env_from, self.volumes)
        yield from ((("pod", *at), name, key) for at, name, key in secrets_of_fragment(self.pod))

    def own_secrets(self) -> list[tuple[str, str | None]]:
        """Return name and key of each Secret that the pod itself reads. Others neither delay nor roll it."""
        return [(name, key) for at, name, key in self.secret_references() if at[0] not in _READ_BY_CONTROLLERS]


def secrets_named(
    env: Mapping[str, EnvVariable], env_from: Sequence[EnvSource], volumes: Mapping[str, Volume]
) -> Iterator[tuple[tuple[str | int, ...], str, str | None]]:
    for name, variable in env.items():
        if variable.secret is not None:
            yield ("env", name), variable.secret, variable.key
    for index, source in enumerate(env_from):
        if source.secret is not None:
            yield ("envFrom", index), source.secret, None
    for name, volume in volumes.items():
        if volume.secret is not None:
            yield ("volumes", name), volume.secret, None


def secrets_of_fragment(value: object) -> Iterator[tuple[tuple[str | int, ...], str, str | None]]:
    """Yield `secretKeyRef`, `secretRef` and volumes' `secret` anywhere in a PodSpec."""
    if isinstance(value, Mapping):
        for key, inner in cast("Mapping[str, object]", value).items():
            name = value_at(inner, ("secretName",)) or value_at(inner, ("name",))
            if key in ("secretKeyRef", "secretRef", "secret") and isinstance(name, str):
                wanted_key = value_at(inner, ("key",)) if key == "secretKeyRef" else None
                yield (key,), name, wanted_key if isinstance(wanted_key, str) else None
            yield from (((key, *at), name, of) for at, name, of in secrets_of_fragment(inner))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(cast("Sequence[object]", value)):
            yield from (((index, *at), name, of) for at, name, of in secrets_of_fragment(inner))


def by_name(ports: Mapping[str, int], port: str | int) -> int:
    """Return the number of a port that is given by name or number."""
    return ports[port] if isinstance(port, str) else port


METRICS_PORT = "metrics"
"""A pod with a port of this name is scraped there unless its section names another."""


def _metrics_have_a_port(metrics: str | None, ports: Mapping[str, int]) -> None:
    if metrics is not None and metrics not in ports:
        names = ", ".join(ports)
        expected = f"one of its ports: {names}" if names else "the name of a port, under `ports`"
        example = next(iter(ports), "ports: { http: 8000 }")
        raise wanted("metrics.no-such-port", expected, found=repr(metrics), example=example, at="metrics")


class ScrapedPodSettings(Owned, PodSettings):
    """A pod that runs until it is stopped, so that Prometheus can scrape it."""

    checks: ClassVar[tuple[Check, ...]] = (*PodSettings.checks, Check(("metrics", "ports"), _metrics_have_a_port))

    metrics: PortName | None = Field(
        default=None,
        description="the port of ports that serves /metrics; default: the port named metrics",
        examples=["http"],
    )

    @property
    def metrics_port(self) -> str | None:
        """Return the name of the scraped port, or None."""
        return self.metrics or (METRICS_PORT if METRICS_PORT in self.ports else None)
