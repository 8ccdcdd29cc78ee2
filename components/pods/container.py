"""The main container, volumes and further objects of a pod section. Pure, except for these objects.

Only fields that the stack file sets are written: pods of a running stack must not roll because Ebbtide adds a key.

**Files** are in a ConfigMap whose name joins the owner and the volume with a dot. Neither name can contain a dot, so
two ConfigMaps never share a name. The pods carry a digest of the files, since a changed ConfigMap by itself restarts no
pod, and few programs reread their settings.

**Scratch volumes** would keep many clusters' autoscalers from removing the node. An annotation for the autoscaler lists
these volumes, since their content may be deleted with the pod.

**A serving pod waits before it stops.** The pod and the nodes' proxies are notified of the stop at the same moment;
until the proxies have removed the pod, requests still reach it.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict, cast

import pulumi
from pulumi_kubernetes.core.v1 import ConfigMap, Service

from components.pods.rules import PodIdentity, container_security, resources
from components.pods.secrets import SecretsSource
from ebbtide.provisioning_labels import FILES_DIGEST
from ebbtide.settings.sections.pods.env import EnvSource, EnvVariable
from ebbtide.settings.sections.pods.pod import PodSettings, by_name
from ebbtide.settings.sections.pods.probes import Probe
from ebbtide.settings.sections.pods.volumes import SHM, SHM_PATH, Volume
from ebbtide.settings.sections.serving.services import ServedWorkload
from ebbtide.text.quantities import memory_quantity

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import (
        ContainerArgsDict,
        EnvFromSourceArgsDict,
        EnvVarArgsDict,
        PodSpecArgsDict,
        PodTemplateSpecArgsDict,
        ProbeArgsDict,
        ServicePortArgsDict,
        ServiceSpecArgsDict,
        VolumeArgsDict,
        VolumeMountArgsDict,
    )
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict

LOCAL_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
"""Annotation that lists volumes on the node's disk that do not keep the autoscaler from removing the node."""

H2C = "kubernetes.io/h2c"
"""HTTP/2 without TLS. Source: Kubernetes, "Application protocol" of Services."""

STOP_DELAY_SECONDS = 5
"""Ample time for proxies to remove a pod: they are notified within a second."""


def main_container(
    settings: PodSettings,
    name: str,
    *,
    command: "list[str] | None" = None,
    env: "list[EnvVarArgsDict] | None" = None,
    serves: bool = False,
    stop_delay: int = STOP_DELAY_SECONDS,
) -> "ContainerArgsDict":
    """Return the container of `settings`.

    `command` replaces the settings' command, and `env` precedes their variables. `serves`: other pods call its ports.
    `stop_delay`: seconds until requests no longer arrive.
    """
    container: ContainerArgsDict = {"name": name, "image": settings.image}
    words = list(settings.command) if command is None else command
    if words:
        container["command"] = words
    if settings.args:
        container["args"] = list(settings.args)
    variables = [*(env or []), *(_variable(key, value) for key, value in settings.env.items())]
    if variables:
        container["env"] = variables
    if settings.env_from:
        container["env_from"] = [_source(source) for source in settings.env_from]
    if settings.ports:
        container["ports"] = [{"name": port, "container_port": number} for port, number in settings.ports.items()]
    container = _with_probes(container, settings, serves=serves)
    if serves and settings.ports:
        container["lifecycle"] = {"pre_stop": {"sleep": {"seconds": stop_delay}}}
    container["resources"] = resources(
        cpu=settings.cpu,
        memory=settings.memory,
        gpu=settings.gpu,
        ephemeral=settings.ephemeral_storage,
        most_cpu=settings.limits.cpu,
        most_memory=settings.limits.memory,
    )
    container["security_context"] = container_security(read_only=not settings.writable_root)
    mounts = _mounts(settings)
    if mounts:
        container["volume_mounts"] = mounts
    return container


class Volumes(TypedDict, total=False):
    """A field of a pod's spec."""

    volumes: "list[VolumeArgsDict]"


def pod_volumes(settings: PodSettings, owner: str) -> Volumes:
    """Return all volumes except those that a StatefulSet claims for each pod."""
    volumes = [_volume(name, volume, owner) for name, volume in settings.volumes.items() if volume.per_pod is None]
    if settings.shm is not None:
        volumes.append({"name": SHM, "empty_dir": {"medium": "Memory", "size_limit": memory_quantity(settings.shm)}})
    return {"volumes": volumes} if volumes else {}


def pod_template(
    settings: PodSettings, identity: PodIdentity, pod: "PodSpecArgsDict", secrets: SecretsSource
) -> "PodTemplateSpecArgsDict":
    """Return the pod template with the section's labels and annotations. Pods roll when their Secrets change."""
    metadata: ObjectMetaArgsDict = {"labels": {**settings.labels, **identity.labels}}
    annotations = {**pod_annotations(settings), **secrets.annotations_for(settings.own_secrets())}
    return {"metadata": {**metadata, "annotations": annotations} if annotations else metadata, "spec": pod}


def pod_annotations(settings: PodSettings) -> dict[str, str]:
    """Return the stack file's annotations, and further ones for the autoscaler and for rollouts."""
    annotations = dict(settings.annotations)
    scratch = [name for name, volume in settings.volumes.items() if volume.scratch is not None]
    if scratch:
        annotations[LOCAL_VOLUMES] = ",".join(scratch)
    files = {name: dict(volume.files) for name, volume in settings.volumes.items() if volume.files is not None}
    if files:
        text = json.dumps(files, sort_keys=True)
        annotations[FILES_DIGEST] = hashlib.sha256(text.encode()).hexdigest()[:32]
    return annotations


def file_maps(
    settings: PodSettings, identity: PodIdentity, namespace: pulumi.Input[str], *, parent: pulumi.Resource
) -> list[pulumi.Resource]:
    """Create the ConfigMaps of the section's files, which must exist before the pods."""
    return [
        ConfigMap(
            f"{identity.name}.{name}-files",  # no name contains a dot, so the pairs are unique
            metadata={"name": _files_name(identity.name, name), "namespace": namespace, "labels": identity.labels},
            data=dict(volume.files),
            opts=pulumi.ResourceOptions(parent=parent),
        )
        for name, volume in settings.volumes.items()
        if volume.files is not None
    ]


def service(
    resource_name: str,
    settings: PodSettings,
    identity: PodIdentity,
    namespace: pulumi.Input[str],
    *,
    headless: bool = False,
    annotations: Mapping[str, str] | None = None,
    aliases: Sequence[pulumi.Input[str]] = (),
    parent: pulumi.Resource,
) -> Service:
    """Create the Service, with the workload's name and ports. A headless Service names each pod and needs no port."""
    spec: ServiceSpecArgsDict = {"selector": identity.selector}
    if headless:
        spec["cluster_ip"] = "None"
    if settings.ports:
        spec["ports"] = [_service_port(settings, port, number) for port, number in settings.ports.items()]
    metadata: ObjectMetaArgsDict = {"name": identity.name, "namespace": namespace, "labels": identity.labels}
    return Service(
        resource_name,
        metadata={**metadata, "annotations": dict(annotations)} if annotations else metadata,
        spec=spec,
        opts=pulumi.ResourceOptions(parent=parent, aliases=[*aliases] or None),
    )


def _service_port(settings: PodSettings, name: str, number: int) -> "ServicePortArgsDict":
    port: ServicePortArgsDict = {"name": name, "port": number, "target_port": name}
    h2c = isinstance(settings, ServedWorkload) and settings.h2c and name == settings.served_port
    return {**port, "app_protocol": H2C} if h2c else port


def _variable(name: str, variable: EnvVariable) -> "EnvVarArgsDict":
    if variable.field is not None:
        return {"name": name, "value_from": {"field_ref": {"field_path": variable.field}}}
    if variable.secret is not None:
        return {"name": name, "value_from": {"secret_key_ref": {"name": variable.secret, "key": variable.key or ""}}}
    if variable.config_map is not None:
        return {
            "name": name,
            "value_from": {"config_map_key_ref": {"name": variable.config_map, "key": variable.key or ""}},
        }
    return {"name": name, "value": variable.value or ""}


def _source(env_source: EnvSource) -> "EnvFromSourceArgsDict":
    source: EnvFromSourceArgsDict = {"prefix": env_source.prefix} if env_source.prefix else {}
    if env_source.secret is not None:
        return {**source, "secret_ref": {"name": env_source.secret}}
    return {**source, "config_map_ref": {"name": env_source.config_map or ""}}


def _with_probes(container: "ContainerArgsDict", settings: PodSettings, *, serves: bool) -> "ContainerArgsDict":
    """Add the probes. By default a served pod is ready once its first port, by name, accepts connections."""
    probes, ports = settings.probes, settings.ports
    readiness = probes.readiness
    if readiness is None and serves and ports:
        readiness = Probe(tcp=min(ports))
    if readiness is not None:
        container["readiness_probe"] = _probe(readiness, ports)
    if probes.liveness is not None:
        container["liveness_probe"] = _probe(probes.liveness, ports)
    if probes.startup is not None:
        container["startup_probe"] = _probe(probes.startup, ports)
    return container


def _probe(settings: Probe, ports: Mapping[str, int]) -> "ProbeArgsDict":
    probe: ProbeArgsDict = {
        "period_seconds": int(settings.every.total_seconds()),
        "timeout_seconds": int(settings.timeout.total_seconds()),
        "failure_threshold": settings.failures,
    }
    if settings.http is not None:
        port = next(iter(ports)) if settings.port is None else settings.port
        return {**probe, "http_get": {"path": settings.http, "port": port}}
    if settings.tcp is not None:
        return {**probe, "tcp_socket": {"port": settings.tcp}}
    if settings.grpc is not None:
        number = by_name(ports, settings.grpc)
        return {
            **probe,
            "grpc": {"port": number, "service": settings.service} if settings.service else {"port": number},
        }
    return {**probe, "exec_": {"command": list(settings.exec or ())}}


def _volume(name: str, volume: Volume, owner: str) -> "VolumeArgsDict":
    if volume.scratch is not None:
        return {"name": name, "empty_dir": {"size_limit": memory_quantity(volume.scratch)}}
    if volume.claim is not None:
        return {"name": name, "persistent_volume_claim": {"claim_name": volume.claim}}
    if volume.secret is not None:
        return {"name": name, "secret": {"secret_name": volume.secret}}
    return {"name": name, "config_map": {"name": volume.config_map or _files_name(owner, name)}}


def _mounts(settings: PodSettings) -> "list[VolumeMountArgsDict]":
    mounts: list[VolumeMountArgsDict] = []
    for name, volume in settings.volumes.items():
        always = volume.files is not None or volume.secret is not None or volume.config_map is not None
        mount: VolumeMountArgsDict = {"name": name, "mount_path": volume.at}
        mounts.append({**mount, "read_only": True} if volume.read_only or always else mount)
    if settings.shm is not None:
        mounts.append({"name": SHM, "mount_path": SHM_PATH})
    return mounts


def _files_name(owner: str, volume: str) -> str:
    return f"{owner}.{volume}"


def each_container(
    pod: "PodSpecArgsDict", change: "Callable[[ContainerArgsDict], ContainerArgsDict]"
) -> "PodSpecArgsDict":
    """Return the pod with `change` applied to each container and init container. Ebbtide's pods are plain values."""
    containers = cast("Sequence[ContainerArgsDict]", pod["containers"])
    init_containers = cast("Sequence[ContainerArgsDict]", pod.get("init_containers") or ())
    changed: PodSpecArgsDict = {**pod, "containers": [change(container) for container in containers]}
    if init_containers:
        changed["init_containers"] = [change(container) for container in init_containers]
    return changed
