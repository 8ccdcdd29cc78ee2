"""What the gateway passes on as it came: answers in parts, TLS, gRPC; and what a pod that refuses costs."""

import base64
import http.client
import ssl
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from controllers.adapters.kube_api import Json
from ebbtide.demo.load import Answers, Stretch
from ebbtide.demo.model_server import REFUSE, ModelServer
from tests.builders.control_plane import eventually
from tests.serving.support import rpc
from tests.serving.support.kubelet import PLAIN
from tests.serving.support.site import GATEWAYS, Serving
from tests.serving.support.stack import HOST, PORT, load_on, served, service, under

pytestmark = [pytest.mark.serving, pytest.mark.timeout(240)]

QUICK = ModelServer(port=0, service=0.02, concurrency=64)
TLS_PORT = 10443  # of a pod of Envoy; the Gateway's listener says 443
CERTIFICATE = "models-tls"
WITH_TLS = f"""\
ebbtide:serving: {{ tls: {CERTIFICATE} }}
ebbtide:digestKey: {{ secure: AAA }}
ebbtide:secrets: {{ {CERTIFICATE}: {{ tls.crt: {{ secure: AAA }}, tls.key: {{ secure: BBB }} }} }}
"""


def test_the_parts_of_an_answer_arrive_as_they_are_made(serving: Serving) -> None:
    """Four, half a second apart."""
    with served(serving, service("parts"), replicas={"parts": 1}, server=ModelServer(port=0, service=0.5)):
        began, arrived = time.monotonic(), list[float]()
        host, _, port = serving.gateway_address().partition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=20)
        connection.request("POST", "/parts", b"{}", {"host": HOST, "x-work": "4", "x-parts": "4"})
        answer = connection.getresponse()
        while answer.read1():
            arrived.append(time.monotonic() - began)
        connection.close()

    assert answer.status == 200
    assert len(arrived) == 4
    assert arrived[0] < 1.2
    assert arrived[-1] - arrived[0] > 1.2


@pytest.fixture
def certificate(serving: Serving, tmp_path: Path) -> Iterator[Path]:
    """In the Secret that the file names; what is yielded is the file of who signed it, which is itself."""
    key, own = tmp_path / "tls.key", tmp_path / "tls.crt"
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", str(key), "-out", str(own)]
    names = ["-subj", "/CN=models", "-addext", f"subjectAltName=DNS:{HOST}"]
    subprocess.run(["openssl", "req", "-x509", *new, *names], check=True, capture_output=True)
    data = {file.name: base64.b64encode(file.read_bytes()).decode() for file in (own, key)}
    metadata = {"name": CERTIFICATE, "namespace": GATEWAYS}
    secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata, "data": data}
    serving.apply(secret)
    yield own
    serving.delete(secret)


def test_the_gateway_ends_tls_with_the_certificate_of_the_file(serving: Serving, certificate: Path) -> None:
    trusting = ssl.create_default_context(cafile=str(certificate))

    def answer() -> str | None:
        host = serving.gateway_address().partition(":")[0]
        try:
            return _by_tls(host, trusting)
        except OSError:
            return None

    with served(serving, service("sealed"), replicas={"sealed": 1}, server=QUICK, around=WITH_TLS):
        assert eventually(answer, what="an answer by TLS") == "HTTP/1.1 200 OK"
        with pytest.raises(ssl.SSLCertVerificationError):
            _by_tls(serving.gateway_address().partition(":")[0], ssl.create_default_context())
        with pytest.raises(ConnectionRefusedError):
            _connect(serving.gateway_address())


def _by_tls(address: str, context: ssl.SSLContext) -> str:
    """The first line of the answer to a request for `HOST` at this address."""
    connection = http.client.HTTPConnection(address, TLS_PORT, timeout=10)
    connection.connect()
    connection.sock = context.wrap_socket(connection.sock, server_hostname=HOST)
    connection.request("GET", "/sealed", headers={"host": HOST})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return f"HTTP/1.1 {answer.status} {answer.reason}"


def _connect(place: str) -> None:
    host, _, port = place.partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=5)
    connection.connect()
    connection.close()


def speaking_grpc(one: Json, _: ModelServer) -> Json:
    """A Deployment whose image is the server in `rpc`, in its place."""
    (container,) = one["spec"]["template"]["spec"]["containers"]
    container |= {"image": PLAIN, "command": [sys.executable, str(rpc.__file__)], "args": []}
    return one


def test_calls_by_grpc_reach_every_pod(serving: Serving) -> None:
    spoken = service(
        "spoken",
        f"route: {{ host: {HOST}, path: /{rpc.SERVICE}, protocol: grpc }}",
        "probes: { readiness: { tcp: http } }",
    )

    with served(serving, spoken, replicas={"spoken": 3}, server=QUICK, played=speaking_grpc):
        options = [("grpc.default_authority", HOST)]
        channel: Any = grpc.insecure_channel(serving.gateway_address(), options=options)
        say = channel.unary_unary(f"/{rpc.SERVICE}/{rpc.METHOD}")
        told = [say(b"hello", timeout=10).decode().split() for _ in range(300)]
        there = {pod.name for pod in serving.pods("spoken")}
        channel.close()

    assert {word for _, word in told} == {"hello"}
    assert {pod for pod, _ in told} == there


def unchanged(_: Json) -> None:
    """As it is rendered."""


def refused(serving: Serving, changed: Callable[[Json], None] = unchanged) -> Answers:
    """Three pods, of which one takes no connection from two seconds on; the kubelet sees it half a minute later."""
    with served(serving, service("partly"), replicas={"partly": 3}, server=QUICK, changed=changed):
        one = serving.pods("partly")[0]

        def refuses() -> None:
            with urllib.request.urlopen(f"http://{one.address}:{PORT}{REFUSE}", timeout=5):
                return

        answers = under(load_on(serving, "partly", [Stretch(seconds=10, rate=200)]), refuses)
        assert {pod.name for pod in serving.pods("partly")} > {one.name}, "it is an endpoint all the time"
    late = answers.between(4, 10)
    assert Counter(answer.pod for answer in late.all)[one.name] == 0
    return answers


def test_one_pod_of_three_that_refuses_costs_no_request(serving: Serving) -> None:
    answers = refused(serving)

    assert answers.sent > 1500
    assert (answers.lost, answers.reasons) == (0, {})


def test_without_the_policy_that_is_rendered_it_costs_some(serving: Serving) -> None:
    def changed(one: Json) -> None:
        if one["kind"] == "BackendTrafficPolicy":
            del one["spec"]["retry"], one["spec"]["healthCheck"]

    assert refused(serving, changed).reasons["status 503"] > 0
