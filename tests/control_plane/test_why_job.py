"""`ebbtide why job` through the real API server: its login, its upgrade, and its words for a node that is gone.

Only the kubelet is played: it speaks TLS and runs what it is given as a process.
"""

import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from control_plane.plane.driver import ControlPlane
from rq import Queue

from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.vocabulary.documents import dump
from tests.builders.components import controller_config, pool_policy
from tests.builders.control_plane import Fresh
from tests.builders.jobs import job as plain_job
from tests.paths import ROOT
from tests.unit.operate.pod_exec import PodServer, _Handler

pytestmark = [
    pytest.mark.control_plane,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl for the kubelet's certificate"),
]


class _Kubelet(_Handler):
    def do_GET(self) -> None:  # noqa: N802 - the name of the library
        url = urlsplit(self.path)
        self._exec(url.path, parse_qs(url.query)["command"])


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[tuple[PodServer, ThreadingHTTPServer]]:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    files = ("-keyout", str(key), "-out", str(certificate))
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=kubelet", *files]
    subprocess.run(command, check=True, capture_output=True)
    pods = PodServer(environment={"PYTHONPATH": str(ROOT)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Kubelet", (_Kubelet,), {"pods": pods}))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield pods, server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_worker_is_asked_through_the_api_server(
    control_plane: ControlPlane, fresh: Fresh, kubelet: tuple[PodServer, ThreadingHTTPServer]
) -> None:
    pods, server = kubelet
    api, namespace = control_plane.api, fresh.namespace()
    node = f"node-{namespace}"
    status: dict[str, Any] = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": server.server_port}},
    }
    fresh.create("/api/v1/nodes", {"metadata": {"name": node}, "status": status})
    pool = replace(pool_policy(), name="train", namespace=namespace, deployment="train", queues=("train",))
    config = dump(replace(controller_config(pools=()), pools=(pool,)))
    api.create(
        f"/api/v1/namespaces/{namespace}/configmaps",
        {"metadata": {"name": "ebbtide-controller"}, "data": {"config.json": config}},
    )
    path = f"/api/v1/namespaces/{namespace}/pods"
    pod = {"nodeName": node, "containers": [{"name": "worker", "image": "train:1"}]}
    api.create(path, {"metadata": {"name": "train-a", "labels": {"ebbtide.dev/workload": "train"}}, "spec": pod})
    api.patch(f"{path}/train-a/status", {"status": {"phase": "Running"}})

    def why(job: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "ebbtide.cli", "why", "job", job, "--namespace", namespace]
        command += ["--kubeconfig", str(control_plane.kubeconfig)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        return done.returncode, done.stdout + done.stderr

    with EmbeddedRedis() as redis, redis.client() as client:
        pods.environment["RQ_REDIS_URL"] = f"redis://{redis.host}:{redis.port}/0"
        job = Queue("train", connection=client).enqueue(plain_job, 0)

        assert why(job.id) == (
            0,
            f"Job {job.id} waits: number 1 of 1 in queue train of pool train.\nIt has opened no checkpoint.\n",
        )
        assert why("unknown")[0] == 2

    server.shutdown()
    server.server_close()
    code, said = why("unknown")
    assert (code, said.count("\n")) == (1, 1)
    assert "pod train-a: error dialing backend" in said
