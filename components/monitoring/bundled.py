"""The bundled Prometheus, and Alertmanager if alerts have receivers. The platform does not depend on them.

Each has one pod on a fixed node, with a volume. While one is down, no alerts are sent and nothing else changes; the
dead man's switch reports this.

**A changed config restarts the pod**, through the digest of the config in its template. About a minute of samples is
then missing.

**The volume** has the cluster's default class, and a destroy deletes it, since samples are not worth keeping. As with
Redis, Ebbtide ignores changes of the claim template, and a volume grows through its claim. Prometheus deletes the
oldest samples at 85 % use. The remainder is for data that Prometheus does not count: the write-ahead log of the last
hours, and blocks being written.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi_kubernetes.core.v1 import ConfigMap, Service

from components import images
from components.context import StackContext
from components.granting import grant, grant_everywhere
from components.monitoring import alerting, scraping
from components.monitoring.alerting import alertmanager_document
from components.monitoring.scraping import ALERTMANAGER_PORT, Scraping, prometheus_document
from components.program import Disk, Program, ProgramArgs, account, identity, probe, run_with_disk
from ebbtide.provisioning_labels import FILES_DIGEST
from ebbtide.settings.sections.alerting import Alerts
from ebbtide.settings.sections.monitoring import ALERTMANAGER, PROMETHEUS, PROMETHEUS_PORT, MonitoringSettings
from ebbtide.vocabulary.labels import NAMESPACE

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import VolumeArgsDict
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict
    from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict


NODE_RULES: "list[PolicyRuleArgsDict]" = [
    {"api_groups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
    {"api_groups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},  # required by kubelets
]
POD_RULES: "list[PolicyRuleArgsDict]" = [{"api_groups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]

_USER = 65534  # of both images
_CPU = 100  # millicores; measured use with 50 nodes and 500 pods: 16
_USED = 0.85
_DATA = "/data"
_ALERTMANAGER_STORAGE = 1024  # MiB; silences and the notification log need a few MiB
_GRACE_SECONDS = 120  # to write the samples in memory; otherwise the next start replays the log


@dataclass(frozen=True, kw_only=True)
class BundledPrometheusArgs:
    stack: StackContext
    settings: MonitoringSettings
    scraping: Scraping
    rules: Mapping[str, Any]


class BundledPrometheus(pulumi.ComponentResource):
    def __init__(self, name: str, args: BundledPrometheusArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:BundledPrometheus", name, None, opts)
        self._args = args
        self._place = ProgramArgs(stack=args.stack, namespace=NAMESPACE)
        prometheus = f"{name}-prometheus"
        self._serve(prometheus, *_prometheus(args), self._rights(prometheus))
        if args.settings.alerts is not None:
            self._serve(f"{name}-alertmanager", *_alertmanager(args, args.settings.alerts), [])
        self.register_outputs({})

    def _rights(self, name: str) -> list[pulumi.Resource]:
        """Grant rights on all nodes, and on the pods of namespaces with targets."""
        scraping = self._args.scraping
        spaces = {target.namespace for target in (*scraping.targets, scraping.gpu_exporter) if target is not None}
        return [
            account(name, PROMETHEUS, self._place, parent=self),
            *grant_everywhere(f"{name}-nodes", PROMETHEUS, NODE_RULES, home=NAMESPACE, parent=self),
            *(
                resource
                for space in sorted(spaces)
                for resource in grant(f"{name}-{space}", PROMETHEUS, space, POD_RULES, home=NAMESPACE, parent=self)
            ),
        ]

    def _serve(
        self, name: str, program: Program, storage: int, files: Mapping[str, str], after: Sequence[pulumi.Resource]
    ) -> None:
        child = pulumi.ResourceOptions(parent=self)
        metadata: ObjectMetaArgsDict = {"name": program.name, "namespace": NAMESPACE}
        pods = identity(program.name, self._args.stack.customer)
        config = ConfigMap(f"{name}-config", metadata=metadata, data=files, opts=child)
        service = Service(
            f"{name}-service",
            metadata={**metadata, "labels": pods.labels},
            spec={
                "selector": pods.selector,
                "ports": [{"name": port, "port": number} for port, number in program.ports.items()],
            },
            opts=child,
        )
        disk = Disk(directory=_DATA, mib=storage, storage_class=self._args.settings.storage_class)
        run_with_disk(name, program, disk, self._place, parent=self, after=[config, service, *after])


def _prometheus(args: BundledPrometheusArgs) -> tuple[Program, int, Mapping[str, str]]:
    """Return the program, the size of its disk in MiB, and the files of its config."""
    settings = args.settings
    remote = settings.remote_write
    files = {
        scraping.CONFIG_FILE: _text(prometheus_document(args.scraping)),
        scraping.RULES_FILE: _text(args.rules),
    }
    program = Program(
        name=PROMETHEUS,
        image=images.PROMETHEUS,
        args=[
            f"--config.file={scraping.DIRECTORY}/{scraping.CONFIG_FILE}",
            f"--storage.tsdb.path={_DATA}",
            f"--storage.tsdb.retention.time={int(settings.kept_for.total_seconds())}s",
            f"--storage.tsdb.retention.size={int(settings.storage_mib * _USED)}MB",  # Prometheus' MB has 2^20 bytes
        ],
        cpu=_CPU,
        memory=settings.memory_mib,
        mounts=_mounts(
            PROMETHEUS,
            scraping.DIRECTORY,
            {scraping.TOKEN_DIRECTORY: remote.secret} if remote is not None and remote.secret is not None else {},
        ),
        **_shared(args, PROMETHEUS, PROMETHEUS_PORT, files),
    )
    return program, settings.storage_mib, files


def _alertmanager(args: BundledPrometheusArgs, alerts: Alerts) -> tuple[Program, int, Mapping[str, str]]:
    """Return the same as `_prometheus`, for Alertmanager."""
    secrets = {alerting.SECRET_DIRECTORY: alerts.receiver.secret}
    if alerts.dead_man is not None:
        secrets[alerting.DEAD_MAN_DIRECTORY] = alerts.dead_man.secret
    files = {alerting.CONFIG_FILE: _text(alertmanager_document(alerts, proxied=args.scraping.proxied))}
    program = Program(
        name=ALERTMANAGER,
        account="default",
        token=False,
        image=images.ALERTMANAGER,
        args=[
            f"--config.file={alerting.DIRECTORY}/{alerting.CONFIG_FILE}",
            f"--storage.path={_DATA}",
            "--cluster.listen-address=",  # there is one replica
        ],
        cpu=20,
        memory=96,
        mounts=_mounts(ALERTMANAGER, alerting.DIRECTORY, secrets),
        **_shared(args, ALERTMANAGER, ALERTMANAGER_PORT, files),
    )
    return program, _ALERTMANAGER_STORAGE, files


def _shared(args: BundledPrometheusArgs, name: str, port: int, files: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of `Program` that are the same for both."""
    return {
        "container": name.removeprefix("ebbtide-"),
        "ports": {"http": port},
        "alive": probe("/-/healthy", port, failures=12, scheme=None),
        "ready": {"http_get": {"path": "/-/ready", "port": port}, "period_seconds": 5},
        "env": None,
        "annotations": {FILES_DIGEST: hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()},
        "user": _USER,
        "grace": _GRACE_SECONDS,
        "connect": args.stack.egress.through,
    }


def _mounts(name: str, directory: str, secrets: Mapping[str, str]) -> "Mapping[str, VolumeArgsDict]":
    """Return the volumes of the config and of the Secrets, by directory."""
    return {
        directory: {"name": "config", "config_map": {"name": name}},
        **{path: {"name": secret_volume(path), "secret": {"secret_name": secret}} for path, secret in secrets.items()},
    }


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=1)


def secret_volume(path: str) -> str:
    return path.rpartition("/")[2]
