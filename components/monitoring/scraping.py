"""The config of the bundled Prometheus, as plain data: scrape jobs and remote write.

**Targets** are selected by namespace and label, so that the account lists pods in no other namespace, and the API
server sends no other pods. A pod that has ended is not a target.

**Labels.** Ebbtide's processes and the GPU exporter report other pods, named by the labels `namespace` and `pod`, so
their samples keep these labels (`honor_labels`). Labels that a customer's pod sets are never kept: they could name
another customer.

**Dropped series.** A kubelet reports each container three times, in some 60 series. Prometheus keeps the series that
rules and `sleep` use, and only those of containers (`container!=""`): sums over a pod would count twice. Network
counters exist only per pod and per node; the node's, one series per interface, are dropped. All series of other targets
are kept, up to a number of samples that no well-behaved pod reaches.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from components.monitoring.targets import USUAL, ScrapeTarget
from ebbtide.monitoring.rules import CUSTOMER
from ebbtide.settings.sections.alerting import TOKEN_KEY, RemoteWrite
from ebbtide.settings.sections.monitoring import PROMETHEUS_PORT

Document: TypeAlias = dict[str, Any]

INTERVAL = f"{int(USUAL.total_seconds())}s"
DIRECTORY = "/etc/prometheus"
CONFIG_FILE, RULES_FILE = "prometheus.json", "rules.json"
TOKEN_DIRECTORY = "/etc/prometheus-remote-write"
ALERTMANAGER_PORT = 9093
MOST_SAMPLES = 20_000  # per pod and scrape

KUBELET_KEPT = "kubelet_volume_stats_(used|capacity)_bytes"
NODE_KEPT = "node_(cpu_usage_seconds_total|memory_working_set_bytes)"
CADVISOR_KEPT = (
    "container_(cpu_usage_seconds_total|cpu_cfs_periods_total|cpu_cfs_throttled_periods_total|"
    "memory_working_set_bytes|memory_max_usage_bytes|network_receive_bytes_total|network_transmit_bytes_total)"
)
_SUMS = "container_(cpu|memory)_.+;;.*|container_network_.+;.*;"
"""Dropped series of cAdvisor, as name, container and pod: sums over a pod's containers, and networks of nodes."""
GPU_KEPT = "DCGM_FI_(DEV_(GPU_UTIL|FB_USED|FB_FREE)|PROF_GR_ENGINE_ACTIVE)"

_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_OF_KUBELETS = {
    "kubelet": ("/metrics", KUBELET_KEPT),
    "kubelet-resource": ("/metrics/resource", NODE_KEPT),
    "cadvisor": ("/metrics/cadvisor", CADVISOR_KEPT),
}


@dataclass(frozen=True, kw_only=True)
class Scraping:
    customer: str
    targets: Sequence[ScrapeTarget]
    kubelets_are_known: bool
    """True if the cluster's authority signs the kubelets' certificates, as on EKS. Elsewhere many are self-signed."""
    gpu_exporter: ScrapeTarget | None = None
    alertmanager: str | None = None  # host and port
    remote_write: RemoteWrite | None = None
    region: str = ""  # of `remote_write.role`
    proxied: bool = False  # addresses outside the cluster are called through the environment's proxy


def prometheus_document(scraping: Scraping) -> Document:
    return {
        "global": {
            "scrape_interval": INTERVAL,
            "evaluation_interval": INTERVAL,
            "external_labels": {CUSTOMER: scraping.customer},
        },
        "rule_files": [f"{DIRECTORY}/{RULES_FILE}"],
        "scrape_configs": [{**job, **_with_customer(job, scraping.customer)} for job in _jobs(scraping)],
        **({"alerting": {"alertmanagers": [_static(scraping.alertmanager)]}} if scraping.alertmanager else {}),
        **({"remote_write": [_remote(scraping.remote_write, scraping)]} if scraping.remote_write else {}),
    }


def jobs_of_pods(customer: str, targets: Sequence[ScrapeTarget]) -> Document:
    """Return a file for `scrape_config_files` of an existing Prometheus, with jobs for the stack's pods."""
    jobs = [_target_job(target) for target in targets]
    named = [{**job, "job_name": f"{customer}/{job['job_name']}"} for job in jobs]
    return {"scrape_configs": [{**job, **_with_customer(job, customer)} for job in named]}


def _jobs(scraping: Scraping) -> Iterator[Document]:
    yield {"job_name": "prometheus", **_static(f"localhost:{PROMETHEUS_PORT}")}
    if scraping.alertmanager:
        yield {"job_name": "alertmanager", **_static(scraping.alertmanager)}
    for name, (path, kept) in _OF_KUBELETS.items():
        yield _kubelet_job(name, path, kept, signed=scraping.kubelets_are_known)
    yield from map(_target_job, scraping.targets)
    if scraping.gpu_exporter is not None:
        job = _pod_job("gpu", scraping.gpu_exporter, trusted=True)
        yield {**job, "metric_relabel_configs": [_keep("__name__", GPU_KEPT)]}


def _target_job(target: ScrapeTarget) -> Document:
    job = _pod_job(f"{target.namespace}/{target.name}", target, trusted=target.reports_other_pods)
    if target.every != USUAL:
        job["scrape_interval"] = job["scrape_timeout"] = f"{int(target.every.total_seconds())}s"
    if target.kept:
        job["metric_relabel_configs"] = [_keep(label, expression) for label, expression in target.kept.items()]
    return job if target.path == "/metrics" else {**job, "metrics_path": target.path}


def _static(address: str) -> Document:
    return {"static_configs": [{"targets": [address]}]}


def _with_customer(job: Mapping[str, Any], customer: str) -> Document:
    own = job.get("relabel_configs", [])
    return {"relabel_configs": [*own, {"target_label": CUSTOMER, "replacement": customer}]}


def _kubelet_job(name: str, path: str, kept_series: str, *, signed: bool) -> Document:
    tls: Document = {"ca_file": f"{_ACCOUNT}/ca.crt"} if signed else {"insecure_skip_verify": True}
    dropped = (
        [{"action": "drop", "source_labels": ["__name__", "container", "pod"], "regex": _SUMS}]
        if name == "cadvisor"
        else []
    )
    return {
        "job_name": name,
        "scheme": "https",
        "metrics_path": path,
        "authorization": {"credentials_file": f"{_ACCOUNT}/token"},
        "tls_config": tls,
        "kubernetes_sd_configs": [{"role": "node"}],
        "relabel_configs": [_label("node_name", "node")],
        "metric_relabel_configs": [_keep("__name__", kept_series), *dropped],
    }


def _pod_job(name: str, target: ScrapeTarget, *, trusted: bool) -> Document:
    chosen = f"{target.label} in ({','.join(target.workloads)})"
    limits: Document = {"honor_labels": True} if trusted else {"sample_limit": MOST_SAMPLES}
    return {
        "job_name": name,
        **limits,
        "kubernetes_sd_configs": [
            {
                "role": "pod",
                "namespaces": {"names": [target.namespace]},
                "selectors": [{"role": "pod", "label": chosen}],
            }
        ],
        "relabel_configs": [
            _keep("__meta_kubernetes_pod_container_port_name", target.port),
            {"action": "drop", "source_labels": ["__meta_kubernetes_pod_phase"], "regex": "Succeeded|Failed"},
            _label("namespace", "namespace"),
            _label("pod_name", "pod"),
            _label("pod_node_name", "node"),
            *([] if trusted else [_label("pod_label_ebbtide_dev_workload", "workload")]),
        ],
    }


def _keep(label: str, expression: str) -> Document:
    return {"action": "keep", "source_labels": [label], "regex": expression}


def _label(meta_label: str, label: str) -> Document:
    return {"source_labels": [f"__meta_kubernetes_{meta_label}"], "target_label": label}


def _remote(remote: RemoteWrite, scraping: Scraping) -> Document:
    document: Document = {"url": remote.url}
    if remote.secret is not None:
        document["authorization"] = {"credentials_file": f"{TOKEN_DIRECTORY}/{TOKEN_KEY}"}
    if remote.headers:
        document["headers"] = dict(remote.headers)
    if remote.role is not None:
        document["sigv4"] = {"region": scraping.region}
    return {**document, "proxy_from_environment": True} if scraping.proxied else document
