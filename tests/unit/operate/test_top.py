"""`ebbtide top` on a mock of an API server, with a real Prometheus behind its proxy, and without one."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner, Result

from ebbtide.cli.__main__ import app
from ebbtide.vocabulary.documents import dump
from tests.builders.components import controller_config, pool_policy
from tests.builders.control_plane import eventually
from tests.builders.monitoring.canned_api import CannedApi, canned_api
from tests.builders.monitoring.servers import Exposed, asked, needs_prometheus, prometheus
from tests.builders.settings import shortest
from tests.paths import ROOT
from tests.unit.operate.raw_objects import pod
from tests.unit.operate.test_status import DOCUMENT

pytestmark = pytest.mark.process

EXISTING = "ebbtide:monitoring: { prometheus: existing, namespace: monitoring }"
SERVICE = "/api/v1/namespaces/monitoring/services/prometheus-operated:9090"
IN_EBBTIDE = "/api/v1/namespaces/ebbtide"
STATUS = f"{IN_EBBTIDE}/pods/ebbtide-controller-a:8080/proxy/status"


def node(name: str, group: str, kind: str = "m7i.xlarge", *, ready: bool = True) -> dict[str, Any]:
    labels = {"ebbtide.dev/node-group": group, "ebbtide.dev/node-kind": group}
    return {
        "metadata": {"name": name, "labels": {**labels, "node.kubernetes.io/instance-type": kind}},
        "status": {
            "allocatable": {"cpu": "4", "memory": "16Gi"},
            "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}],
        },
    }


def objects() -> dict[str, Any]:
    config = replace(controller_config(), pools=(replace(pool_policy(), queues=("train", "late")),))
    pods = [pod("api-1", cpu="2"), pod("api-2", spec={"nodeName": None})]
    return {
        f"{IN_EBBTIDE}/configmaps/ebbtide-controller": {"data": {"config.json": dump(config)}},
        f"{IN_EBBTIDE}/pods": {"items": [pod("ebbtide-controller-a")]},
        STATUS: deepcopy(DOCUMENT),
        "/api/v1/nodes": {"items": [node("node-1", "flexible"), node("node-2", "flexible", ready=False)]},
        "/api/v1/pods": {"items": pods},
    }


@pytest.fixture
def cluster() -> Iterator[CannedApi]:
    with canned_api(objects()) as api:
        yield api


def top(cluster: CannedApi, folder: Path, *words: str, more: str = "", columns: int = 150) -> Result:
    stack = folder / "Pulumi.acme.yaml"
    stack.write_text(shortest(more=more))
    arguments = ["top", str(stack), "--kubeconfig", cluster.kubeconfig(folder), *words]
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(app, arguments)


def row_of(result: Result, name: str) -> list[str]:
    (line,) = [line for line in result.output.splitlines() if line.startswith(f"{name} ")]
    return line.split()


def test_pools_nodes_and_budgets_are_shown_without_a_prometheus(cluster: CannedApi, tmp_path: Path) -> None:
    result = top(cluster, tmp_path)

    assert result.exit_code == 0, result.output
    assert row_of(result, "train")[:9] == ["train", "train,late", "7", "2", "1m", "?", "2/5", "1", "more"]
    assert row_of(result, "flexible")[:8] == ["flexible", "flexible", "2", "1", "25%", "?", "3%", "?"]
    assert row_of(result, "api")[:2] == ["api", "open"]
    assert "window   closed: business hours" in result.output
    assert "pods without a node: 1" in result.output
    assert "evictions in the last hour: ?" in result.output
    assert "? CPU used, memory used, evictions, p95 of waits: no Prometheus: the stack file has none" in result.output
    assert "? the holiday list has ended" in result.output


def test_what_is_not_known_is_null_in_json_and_never_zero(cluster: CannedApi, tmp_path: Path) -> None:
    found = json.loads(top(cluster, tmp_path, "--json").output)

    (group,) = [group for group in found["groups"] if group["name"] == "flexible"]
    assert group["cpu"] == {"requested": 0.25, "used": None}
    assert found["evictions"] is None
    assert found["pools"][0]["waitP95"] is None


def test_sidecars_and_overhead_are_part_of_what_pods_request(cluster: CannedApi, tmp_path: Path) -> None:
    sidecar = {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    cluster.objects["/api/v1/pods"]["items"][0]["spec"] |= {"initContainers": [sidecar], "overhead": {"cpu": "1"}}

    assert row_of(top(cluster, tmp_path), "flexible")[4] == "50%"


def test_a_controller_that_does_not_answer_leaves_its_queues_unknown(cluster: CannedApi, tmp_path: Path) -> None:
    del cluster.objects[STATUS]

    result = top(cluster, tmp_path)

    assert row_of(result, "train")[2:6] == ["?", "?", "?", "?"]
    assert "? queues and reasons: the controller does not answer: pod ebbtide-controller-a:" in result.output


def test_after_a_destroy_that_was_cut_off_nodes_and_their_price_are_shown(cluster: CannedApi, tmp_path: Path) -> None:
    cluster.objects = {"/api/v1/nodes": cluster.objects["/api/v1/nodes"], "/api/v1/pods": {"items": []}}

    result = top(cluster, tmp_path, "--once")

    assert result.exit_code == 0, result.output
    assert row_of(result, "flexible")[:4] == ["flexible", "flexible", "2", "1"]
    assert row_of(result, "flexible")[-1] == "0.40"


def test_nodes_that_may_not_be_read_are_named_and_the_rest_is_shown(cluster: CannedApi, tmp_path: Path) -> None:
    del cluster.objects["/api/v1/nodes"]

    result = top(cluster, tmp_path)

    assert '? nodes: "/api/v1/nodes" not found' in result.output
    assert row_of(result, "train")[2] == "7"
    assert "NUMBER" not in result.output


def test_a_node_without_a_price_makes_its_groups_dollars_unknown(cluster: CannedApi, tmp_path: Path) -> None:
    assert row_of(top(cluster, tmp_path), "flexible")[-1] != "?"
    cluster.objects["/api/v1/nodes"]["items"].append(node("node-3", "flexible", "x99.huge"))

    result = top(cluster, tmp_path)

    assert row_of(result, "flexible")[-1] == "?"
    assert "? dollars: no list price for x99.huge" in result.output


def test_the_cluster_of_another_customer_is_refused(cluster: CannedApi, tmp_path: Path) -> None:
    config = replace(controller_config(), customer="other")
    cluster.objects[f"{IN_EBBTIDE}/configmaps/ebbtide-controller"] = {"data": {"config.json": dump(config)}}

    result = top(cluster, tmp_path)

    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert "this cluster belongs to customer other, the stack to acme: wanted the stack's context" in result.output


@pytest.mark.parametrize(
    ("more", "service"),
    [
        (EXISTING, "monitoring/prometheus-operated"),
        ("ebbtide:monitoring: { prometheus: bundled }", "ebbtide/ebbtide-prometheus"),
    ],
)
def test_a_prometheus_that_is_not_there_is_named_once(
    cluster: CannedApi, tmp_path: Path, more: str, service: str
) -> None:
    result = top(cluster, tmp_path, more=more)

    (line,) = [line for line in result.output.splitlines() if service in line]
    assert line.startswith("? CPU used, memory used, evictions, p95 of waits: Prometheus behind the service")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--prometheus", "prometheus:9090"), "--prometheus: wanted the address of a Prometheus"),
        (("--prometheus", "http://here", "--prometheus-token-file", "/no/such"), "the token of Prometheus: /no/such"),
    ],
)
def test_a_wrongly_named_prometheus_is_reported_in_one_line(
    cluster: CannedApi, tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    result = top(cluster, tmp_path, *words)

    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert told in result.output


EXPOSED = """\
ebbtide_leader 1
ebbtide_pod_info{namespace="ebbtide",pod="api-1",node="node-1",workload="api",category="flexible"} 1
ebbtide_exporter_sees{what="pods"} 1
ebbtide_pool_jobs{pool="train",part="waiting"} 7
"""
RECORDED = {
    "customer_group_category_workload:ebbtide_used_cpu_cores:sum": ("vector(1)", {"group": "flexible"}),
    "customer_group_category_workload:ebbtide_used_memory_bytes:sum": ("vector(8*1024^3)", {"group": "flexible"}),
    "customer_workload:ebbtide_evictions:increase1h": ("vector(3)", {"workload": "api"}),
    "customer_pool:ebbtide_pool_oldest_wait_seconds:p95_1h": ("vector(1800)", {"pool": "train"}),
}


def rules(*left_out: str) -> dict[str, Any]:
    """Return recording rules of the same names, with values that a test can predict."""
    made = [
        {"record": name, "expr": expression, "labels": {**labels, "customer": "acme"}}
        for name, (expression, labels) in RECORDED.items()
        if name not in left_out
    ]
    return {"groups": [{"name": "made-up", "rules": made}]}


def ready(url: str) -> bool:
    names = ["ebbtide_pod_info", *RECORDED]
    return all(asked(url, f"query?query={name}")["result"] for name in names if "evictions" not in name)


@needs_prometheus
def test_a_wait_is_none_where_no_job_waited_and_unknown_where_the_queue_does_not_show_it(tmp_path: Path) -> None:
    facts = objects()
    pools = tuple(pool_policy(name) for name in ("train", "quiet", "hidden", "gone"))
    dumped = dump(replace(controller_config(), pools=pools))
    facts[f"{IN_EBBTIDE}/configmaps/ebbtide-controller"] = {"data": {"config.json": dumped}}
    more = "".join(
        f'ebbtide_pool_jobs{{pool="{name}",part="{part}"}} {jobs}\n'
        for name, part, jobs in (("quiet", "waiting", 0), ("quiet", "running", 3), ("hidden", "waiting", 2))
    )
    with (
        canned_api(facts) as api,
        prometheus(tmp_path, {"one": Exposed(EXPOSED + more).address}, rules=rules()) as url,
    ):
        api.services[SERVICE] = url
        eventually(lambda: ready(url), what="the recordings")

        result = top(api, tmp_path, more=EXISTING)

    assert {name: row_of(result, name)[5] for name in ("train", "quiet", "hidden", "gone")} == {
        "train": "30m",
        "quiet": "-",
        "hidden": "?",
        "gone": "?",
    }


@needs_prometheus
def test_what_prometheus_knows_comes_through_the_api_servers_proxy(cluster: CannedApi, tmp_path: Path) -> None:
    with prometheus(tmp_path, {"one": Exposed(EXPOSED).address}, rules=rules()) as url:
        cluster.services[SERVICE] = url
        eventually(lambda: ready(url), what="the recordings")

        result = top(cluster, tmp_path, more=EXISTING)

    assert row_of(result, "flexible")[:8] == ["flexible", "flexible", "2", "1", "25%", "12%", "3%", "25%"]
    assert row_of(result, "train")[5] == "30m"
    assert "evictions in the last hour: api 3" in result.output
    assert "used:" not in result.output


@needs_prometheus
def test_no_evictions_are_none_only_while_the_exporter_sees_pods(cluster: CannedApi, tmp_path: Path) -> None:
    exposed = Exposed(EXPOSED)
    with prometheus(
        tmp_path, {"one": exposed.address}, rules=rules("customer_workload:ebbtide_evictions:increase1h")
    ) as url:
        eventually(lambda: ready(url), what="the recordings")
        assert "evictions in the last hour: none" in top(cluster, tmp_path, "--prometheus", url).output

        exposed.text = EXPOSED.replace('sees{what="pods"} 1', 'sees{what="pods"} 0')
        eventually(lambda: asked(url, "query?query=ebbtide_exporter_sees==0")["result"], what="the blind exporter")
        result = top(cluster, tmp_path, "--prometheus", url)

    assert "evictions in the last hour: ?" in result.output
    assert "? evictions: the exporter cannot see pods" in result.output


def test_with_once_it_prints_and_ends_on_a_terminal_too(
    cluster: CannedApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refreshed = Mock()
    monkeypatch.setattr("ebbtide.cli.top._refresh", refreshed)
    monkeypatch.setenv("FORCE_COLOR", "1")

    once = top(cluster, tmp_path, "--once")

    assert "evictions in the last hour" in once.output
    refreshed.assert_not_called()
    top(cluster, tmp_path)
    refreshed.assert_called_once()


def test_on_a_terminal_it_stays_until_q_is_pressed(cluster: CannedApi, tmp_path: Path) -> None:
    stack = tmp_path / "Pulumi.acme.yaml"
    stack.write_text(shortest())
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "ebbtide.cli", "top", str(stack), "--kubeconfig", cluster.kubeconfig(tmp_path)]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=ROOT) as process:
        os.close(theirs)
        shown = b""
        while b"the holiday list has ended" not in shown:
            shown += os.read(ours, 65_536)
        assert process.poll() is None
        os.write(ours, b"q")
        with suppress(OSError):  # of a terminal that nobody holds open any longer
            while os.read(ours, 65_536):
                pass

    assert process.returncode == 0
    os.close(ours)
