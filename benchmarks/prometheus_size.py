"""Memory and CPU of the bundled Prometheus with 50 nodes and 500 pods, with its rendered config and rules.

**Real**: Prometheus as the tests build it, the relabelling, what is dropped, the rules. **Synthetic**: the pages, from
a server in this process. Of each kubelet as many series as one writes for ten pods and for six that run on every node;
of the exporter some for each node and each pod; and in the second run 100 from each pod, which no stack has to have.
Values change at each scrape. Targets are named and not discovered; kubelets' pages are asked for without TLS.

**Time**: a round of scrapes and rules every two seconds instead of every 30, until each series has more samples than a
chunk in memory holds (120): from then on memory grows by little. Then the head is written out as a block, as happens
every two hours. CPU is that of a round, over 30 seconds.
"""

import gzip
import json
import os
import random
import subprocess
import tempfile
import time
import urllib.request
import zlib
from collections.abc import Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlencode

from control_plane.plane.binaries import OF_MONITORING, PROMETHEUS, binaries
from control_plane.plane.probes import free_ports

from benchmarks.measure import Figures
from components.monitoring.scraping import INTERVAL, Scraping, prometheus_document
from components.monitoring.targets import targets
from ebbtide.monitoring.documents import rules_document
from ebbtide.settings import StackSettings, parse_stack

NODES, PODS = 50, 500
_OF_EVERY_NODE = 6  # pods: network, volumes, proxy, monitoring and so on
_CADVISOR_FAMILIES, _KUBELET_SERIES = 60, 2_000  # as a kubelet 1.35 writes, rounded
_OWN_SERIES = 100
_ROUND, _ROUNDS, _VARIANTS = 2.0, 130, 4
_EACH_POD = ("pod_requested_cpu_cores", "pod_requested_memory_bytes", "pod_requested_gpus")
_EACH_NODE = ("node_cpu_cores", "node_memory_bytes", "node_created_timestamp_seconds", "node_ready")
_KEPT = (
    *("container_cpu_usage_seconds_total", "container_memory_working_set_bytes", "container_memory_max_usage_bytes"),
    *("container_cpu_cfs_periods_total", "container_cpu_cfs_throttled_periods_total"),
)
_TICKS = os.sysconf("SC_CLK_TCK")


def measured() -> dict[str, Figures]:
    return {
        "prometheus, 50 nodes, 500 pods": _run(with_own_metrics=False),
        "prometheus, the same, 100 own series a pod": _run(with_own_metrics=True),
    }


def _run(*, with_own_metrics: bool) -> Figures:
    program = binaries(OF_MONITORING)[PROMETHEUS]
    pages = _pages(own=with_own_metrics)
    with tempfile.TemporaryDirectory(prefix="ebbtide-prometheus-") as name, _Pages(pages) as served:
        folder, settings = Path(name), _settings()
        _write(folder, settings, served)
        (port,) = free_ports(1)
        flags = ["--config.file=prometheus.json", "--web.enable-admin-api", f"--web.listen-address=127.0.0.1:{port}"]
        with (folder / "log").open("wb") as log, subprocess.Popen([program, *flags], cwd=folder, stderr=log) as server:
            try:
                time.sleep(_ROUNDS / 2 * _ROUND)
                before = _cpu_seconds(server.pid)
                time.sleep(_ROUNDS / 2 * _ROUND)
                a_round = (_cpu_seconds(server.pid) - before) / (_ROUNDS / 2)
                steady = _mib(server.pid, "VmRSS")
                read, kept = (
                    _value(port, f"sum(scrape_samples_{what})") for what in ("scraped", "post_metric_relabeling")
                )
                up = _value(port, "count(up == 1)")
                _post(port, "admin/tsdb/snapshot")
                return {
                    "targets_up": up,
                    "samples_read": read,
                    "samples_kept": kept,
                    "resident_mib": round(steady),
                    "peak_mib": round(_mib(server.pid, "VmHWM")),
                    "cores": round(a_round / float(INTERVAL.removesuffix("s")), 3),
                }
            finally:
                server.kill()


def _settings() -> StackSettings:
    config: dict[str, Any] = {
        "aws:region": "us-east-1",
        "ebbtide:customer": "acme",
        "ebbtide:businessHours": {"timezone": "America/New_York", "week": {"mon-fri": "08:00-19:00"}},
        "ebbtide:workers": {
            "train": {
                "source": {"queues": ["train"]},
                "image": "train:1",
                "max": PODS,
                "cpu": 1,
                "memory": "2Gi",
                "longestJob": "1h",
                "ports": {"metrics": 9100},
            }
        },
        "ebbtide:monitoring": {"prometheus": "bundled"},
    }
    return parse_stack(config, stack="acme", file="acme.yaml")


def _write(folder: Path, settings: StackSettings, pages: "_Pages") -> None:
    config = prometheus_document(
        Scraping(customer=settings.customer, targets=targets(settings), kubelets_are_known=True)
    )
    config["scrape_configs"] = [named for job in config["scrape_configs"] if (named := _named(job, pages))]
    config["global"] |= dict.fromkeys(("scrape_interval", "evaluation_interval", "scrape_timeout"), f"{_ROUND:g}s")
    config["rule_files"] = ["rules.json"]
    (folder / "prometheus.json").write_text(json.dumps(config))
    (folder / "rules.json").write_text(json.dumps(rules_document(settings)))


def _named(job: Mapping[str, Any], pages: "_Pages") -> dict[str, Any]:
    """The job with targets of the server's, which discovery would have found; empty for one that has none here."""
    of_the_job = [path for path in pages.variants if path.startswith(f"/{job['job_name']}/")]
    left = {key: value for key, value in job.items() if key not in ("kubernetes_sd_configs", "scheme", "tls_config")}
    left.pop("authorization", None)
    static = [{"targets": [f"127.0.0.1:{pages.server_port}"], "labels": _found(path)} for path in of_the_job]
    return {**left, "static_configs": static} if static else {}


def _found(path: str) -> dict[str, str]:
    """The labels of discovery."""
    name, pod = path.rpartition("/")[2], "__meta_kubernetes_pod"
    port = "metrics" if name.startswith("train-") else "http"
    return {
        "__metrics_path__": path,
        "instance": name,
        "__meta_kubernetes_node_name": name,
        f"{pod}_name": name,
        f"{pod}_namespace": "ebbtide-workers",
        f"{pod}_node_name": _node_of(name) if port == "metrics" else "node-0",
        f"{pod}_container_port_name": port,
        f"{pod}_label_ebbtide_dev_workload": "train",
    }


# --- the pages --------------------------------------------------------------------------------------------------------


def _node_of(pod: str) -> str:
    return f"node-{int(pod.rpartition('-')[2]) % NODES}"


def _pages(*, own: bool) -> dict[str, list[bytes]]:
    nodes, pods = [f"node-{number}" for number in range(NODES)], [f"train-{number}" for number in range(PODS)]
    pages: dict[str, Iterable[str]] = {"/ebbtide/ebbtide/exporter": [*_of_the_exporter(nodes, pods)]}
    for node in nodes:
        held = [*(pod for pod in pods if _node_of(pod) == node), *(f"{node}-{n}" for n in range(_OF_EVERY_NODE))]
        pages[f"/cadvisor/{node}"] = [*_of_cadvisor(held)]
        pages[f"/kubelet/{node}"] = [f'kubelet_kept_by_nobody{{number="{n}"}}' for n in range(_KUBELET_SERIES)]
        names = ("node_cpu_usage_seconds_total", "node_memory_working_set_bytes")
        pages[f"/kubelet-resource/{node}"] = names
    for pod in pods if own else ():
        pages[f"/ebbtide-workers/ebbtide-pods/{pod}"] = [f'own_total{{number="{n}"}}' for n in range(_OWN_SERIES)]
    chance = random.Random(0)
    return {path: [_page(series, chance, n) for n in range(_VARIANTS)] for path, series in pages.items()}


def _page(series: Iterable[str], chance: random.Random, number: int) -> bytes:
    lines = (f"{one} {number * 1000 + chance.random() * 900:.6f}" for one in series)
    return gzip.compress(("\n".join(lines) + "\n").encode(), compresslevel=1)


def _of_the_exporter(nodes: list[str], pods: list[str]) -> Iterator[str]:
    shape = 'group="flexible",kind="flexible",instance_type="m7i.4xlarge",capacity_type="on-demand",zone="a"'
    for node in nodes:
        yield f'ebbtide_node_info{{node="{node}",{shape}}}'
        yield from (f'ebbtide_{name}{{node="{node}"}}' for name in _EACH_NODE)
    for pod in pods:
        labels = f'namespace="ebbtide-workers",pod="{pod}"'
        yield f'ebbtide_pod_info{{{labels},node="{_node_of(pod)}",workload="train",category="worker"}}'
        yield from (f"ebbtide_{name}{{{labels}}}" for name in _EACH_POD)


def _of_cadvisor(pods: list[str]) -> Iterator[str]:
    """Of each pod: its container, the pause container and the pod's whole group, as cAdvisor has them."""
    families = [*_KEPT, *(f"container_other_{n}_total" for n in range(_CADVISOR_FAMILIES - len(_KEPT)))]
    for pod in pods:
        path = f"/kubepods.slice/kubepods-pod{pod}.slice/cri-containerd-{zlib.crc32(pod.encode()):064x}.scope"
        for container in ("main", "POD", ""):
            labels = f'container="{container}",id="{path}",image="registry.example.com/train:1",name="{pod}"'
            yield from (f'{name}{{{labels},namespace="ebbtide-workers",pod="{pod}"}}' for name in families)


class _Pages(ThreadingHTTPServer):
    """Each path has some variants, compressed beforehand, which it gives in turn."""

    request_queue_size = 1024

    def __init__(self, variants: Mapping[str, list[bytes]]) -> None:
        super().__init__(("127.0.0.1", 0), _Page)
        self.variants = variants
        Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request: object, client_address: object) -> None:
        """Who hangs up at the end is no news."""

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Page(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        assert isinstance(self.server, _Pages)
        body = self.server.variants[self.path][int(time.time() / _ROUND) % _VARIANTS]
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's own name
        """Quiet."""


# --- the process ------------------------------------------------------------------------------------------------------


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _mib(pid: int, what: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(what)).split()[1]) / 1024


def _value(port: int, query: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{urlencode({'query': query})}") as answer:
        return float(json.loads(answer.read())["data"]["result"][0]["value"][1])


def _post(port: int, path: str) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}", data=b"") as answer:
        answer.read()
