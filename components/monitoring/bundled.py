"""The bundled Prometheus, and Alertmanager if alerts have receivers. The platform does not depend on them.

One pod each, on fixed nodes, with a volume. While one is down, no alerts are sent and nothing else changes; the dead
man's alert reports it.

**A changed config restarts the pod**, through the digest of the config in its template. About a minute of samples is
then missing.

**The volume** has the cluster's default class, and a destroy deletes it, since samples are not worth keeping. As for
Redis, Ebbtide ignores changes of the claim template, and a volume grows through its claim. Prometheus deletes the
oldest samples at 85 % use. The rest is for data that it does not count: the log of the last hours, and blocks being
written.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi_kubernetes.apps.v1 import StatefulSet
from pulumi_kubernetes.core.v1 import ConfigMap, Service, ServiceAccount

from components import images
from components.context import StackContext
from components.granting import grant, grant_everywhere
from components.monitoring import alerting, scraping
from components.monitoring.alerting import alertmanager_document
from components.monitoring.scraping import ALERTMANAGER_PORT, PROMETHEUS_PORT, Scraping, prometheus_document
from components.pods.budget import closed_budget
from components.pods.rules import PodIdentity, affinity, container_security, home, pod_security, resources
from ebbtide.provisioning_labels import FILES_DIGEST, NodeKind
from ebbtide.settings.sections.monitoring import ALERTMANAGER, PROMETHEUS, MonitoringSettings
from ebbtide.units.quantities import memory_quantity
from ebbtide.vocabulary.labels import NAMESPACE, Category

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import (
        ContainerArgsDict,
        PersistentVolumeClaimSpecArgsDict,
        PodSpecArgsDict,
        VolumeArgsDict,
        VolumeMountArgsDict,
    )
    from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict


NODE_RULES: "list[PolicyRuleArgsDict]" = [
    {"api_groups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
    {"api_groups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},  # what a kubelet asks of its callers
]
POD_RULES: "list[PolicyRuleArgsDict]" = [{"api_groups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]

_USER = 65534  # the images' own
_CPU = 100  # millicores; with 50 nodes and 500 pods 16 were used
_USED = 0.85
_DATA = "/data"
_ALERTMANAGER_STORAGE = 1024  # MiB; silences and what was sent, a few MiB
_CLAIM_TEMPLATES = "spec.volumeClaimTemplates"
_GRACE_SECONDS = 120  # to write out what is in memory; else the log of it is read again at the next start


@dataclass(frozen=True, kw_only=True)
class BundledPrometheusArgs:
    stack: StackContext
    settings: MonitoringSettings
    scraping: Scraping
    rules: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class _Part:
    """One of the two pods, but for what is alike in both."""

    name: str
    image: str
    port: int
    args: Sequence[str]
    directory: str  # of the config
    files: Mapping[str, str]  # of the config
    secrets: Mapping[str, str]  # Secrets by the directory that they are mounted in
    cpu: int
    memory: int
    storage: int
    has_account: bool


class BundledPrometheus(pulumi.ComponentResource):
    def __init__(self, name: str, args: BundledPrometheusArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:BundledPrometheus", name, None, opts)
        self._args = args
        self._serve(f"{name}-prometheus", _prometheus(args), self._rights(f"{name}-prometheus"))
        if (alertmanager := _alertmanager(args)) is not None:
            self._serve(f"{name}-alertmanager", alertmanager, [])
        self.register_outputs({})

    def _rights(self, name: str) -> list[pulumi.Resource]:
        """Of all nodes, and of the pods in the namespaces with something to scrape."""
        child, here = pulumi.ResourceOptions(parent=self), NAMESPACE
        account = ServiceAccount(
            f"{name}-account",
            metadata={"name": PROMETHEUS, "namespace": here},
            automount_service_account_token=False,
            opts=child,
        )
        everywhere = grant_everywhere(f"{name}-nodes", PROMETHEUS, NODE_RULES, home=here, parent=self)
        scraped = self._args.scraping
        spaces = {target.namespace for target in (*scraped.targets, scraped.gpu_exporter) if target is not None}
        granted = [
            resource
            for space in sorted(spaces)
            for resource in grant(f"{name}-{space}", PROMETHEUS, space, POD_RULES, home=here, parent=self)
        ]
        return [account, *everywhere, *granted]

    def _serve(self, name: str, part: _Part, after: Sequence[pulumi.Resource]) -> None:
        child, here = pulumi.ResourceOptions(parent=self), NAMESPACE
        identity = PodIdentity(name=part.name, category=Category.FIXED, customer=self._args.scraping.customer)
        config = ConfigMap(
            f"{name}-config", metadata={"name": part.name, "namespace": here}, data=part.files, opts=child
        )
        service = Service(
            f"{name}-service",
            metadata={"name": part.name, "namespace": here, "labels": identity.labels},
            spec={"selector": identity.selector, "ports": [{"name": "http", "port": part.port}]},
            opts=child,
        )
        closed_budget(f"{name}-budget", identity, here, parent=self)
        pod = self._args.stack.images.pulled(self._args.stack.egress.through(_pod(part)))
        StatefulSet(
            f"{name}-server",
            metadata={"name": part.name, "namespace": here, "labels": identity.labels},
            spec={
                "replicas": 1,
                "service_name": part.name,
                "selector": {"match_labels": identity.selector},
                "template": {
                    "metadata": {"labels": identity.labels, "annotations": {FILES_DIGEST: _digest(part.files)}},
                    "spec": pod,
                },
                "volume_claim_templates": [
                    {"metadata": {"name": "data"}, "spec": _claim(part.storage, self._args.settings.storage_class)}
                ],
                "persistent_volume_claim_retention_policy": {"when_deleted": "Delete", "when_scaled": "Retain"},
            },
            opts=pulumi.ResourceOptions(
                parent=self, depends_on=[config, service, *after], ignore_changes=[_CLAIM_TEMPLATES]
            ),
        )


def _prometheus(args: BundledPrometheusArgs) -> _Part:
    settings = args.settings
    remote = settings.remote_write
    return _Part(
        name=PROMETHEUS,
        image=args.stack.images.of(images.PROMETHEUS),
        port=PROMETHEUS_PORT,
        args=[
            f"--config.file={scraping.DIRECTORY}/{scraping.CONFIG_FILE}",
            f"--storage.tsdb.path={_DATA}",
            f"--storage.tsdb.retention.time={int(settings.kept_for.total_seconds())}s",
            f"--storage.tsdb.retention.size={int(settings.storage_mib * _USED)}MB",  # of 2^20 bytes
        ],
        directory=scraping.DIRECTORY,
        files={
            scraping.CONFIG_FILE: _text(prometheus_document(args.scraping)),
            scraping.RULES_FILE: _text(args.rules),
        },
        secrets={scraping.TOKEN_DIRECTORY: remote.secret} if remote is not None and remote.secret is not None else {},
        cpu=_CPU,
        memory=settings.memory_mib,
        storage=settings.storage_mib,
        has_account=True,
    )


def _alertmanager(args: BundledPrometheusArgs) -> _Part | None:
    alerts = args.settings.alerts
    if alerts is None:
        return None
    secrets = {alerting.SECRET_DIRECTORY: alerts.receiver.secret}
    if alerts.dead_man is not None:
        secrets[alerting.DEAD_MAN_DIRECTORY] = alerts.dead_man.secret
    return _Part(
        name=ALERTMANAGER,
        image=args.stack.images.of(images.ALERTMANAGER),
        port=ALERTMANAGER_PORT,
        args=[
            f"--config.file={alerting.DIRECTORY}/{alerting.CONFIG_FILE}",
            f"--storage.path={_DATA}",
            "--cluster.listen-address=",  # there is no second one
        ],
        directory=alerting.DIRECTORY,
        files={alerting.CONFIG_FILE: _text(alertmanager_document(alerts, proxied=args.scraping.proxied))},
        secrets=secrets,
        cpu=20,
        memory=96,
        storage=_ALERTMANAGER_STORAGE,
        has_account=False,
    )


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=1)


def _digest(files: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def _claim(storage: int, storage_class: str | None) -> "PersistentVolumeClaimSpecArgsDict":
    spec: PersistentVolumeClaimSpecArgsDict = {
        "access_modes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": memory_quantity(storage)}},
    }
    return spec if storage_class is None else {**spec, "storage_class_name": storage_class}


def _pod(part: _Part) -> "PodSpecArgsDict":
    volumes: list[VolumeArgsDict] = [
        {"name": "config", "config_map": {"name": part.name}},
        *({"name": secret_volume(path), "secret": {"secret_name": name}} for path, name in part.secrets.items()),
    ]
    return {
        "service_account_name": part.name if part.has_account else "default",
        "automount_service_account_token": part.has_account,
        "affinity": affinity(Category.FIXED),
        **home(NodeKind.FIXED),
        "security_context": pod_security(_USER),
        "termination_grace_period_seconds": _GRACE_SECONDS,
        "containers": [_container(part)],
        "volumes": volumes,
    }


def secret_volume(path: str) -> str:
    return path.rpartition("/")[2]


def _container(part: _Part) -> "ContainerArgsDict":
    mounts: list[VolumeMountArgsDict] = [
        {"name": "data", "mount_path": _DATA},
        {"name": "config", "mount_path": part.directory, "read_only": True},
        *({"name": secret_volume(path), "mount_path": path, "read_only": True} for path in part.secrets),
    ]
    return {
        "name": part.name.removeprefix("ebbtide-"),
        "image": part.image,
        "args": part.args,
        "ports": [{"name": "http", "container_port": part.port}],
        "liveness_probe": {
            "http_get": {"path": "/-/healthy", "port": part.port},
            "period_seconds": 10,
            "timeout_seconds": 5,
            "failure_threshold": 12,
        },
        "readiness_probe": {"http_get": {"path": "/-/ready", "port": part.port}, "period_seconds": 5},
        "resources": resources(cpu=part.cpu, memory=part.memory),
        "security_context": container_security(read_only=True),
        "volume_mounts": mounts,
    }
