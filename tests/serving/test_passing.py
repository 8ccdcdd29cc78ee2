"""What the gateway passes on as it came: answers in parts, TLS, gRPC; and what a pod that refuses costs."""

import base64
import http.client
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from controllers.adapters.kube_api import Json
from ebbtide.demo.load import LoadAnswers, LoadStage
from ebbtide.demo.model_server import REFUSE, ModelServer
from tests.builders.control_plane import eventually
from tests.segments import segments_in
from tests.serving.support import rpc
from tests.serving.support.kubelet import PLAIN
from tests.serving.support.site import GATEWAYS, Serving
from tests.serving.support.stack import HOST, PORT, load_on, played, served, service, under

pytestmark = [pytest.mark.serving, pytest.mark.timeout(240)]

QUICK = ModelServer(port=0, service=0.02, concurrency=64)
TLS_PORT = 10443  # of a pod of Envoy; the Gateway's listener says 443
CERTIFICATE = "models-tls"
WITH_TLS = f"""\
ebbtide:serving: {{ tls: {CERTIFICATE} }}
ebbtide:digestKey: {{ secure: AAA }}
ebbtide:secrets: {{ {CERTIFICATE}: {{ tls.crt: {{ secure: AAA }}, tls.key: {{ secure: BBB }} }} }}
"""


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
    """The first of this file: the others share a gateway without TLS."""
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


@pytest.fixture(scope="module")
def passing(serving: Serving) -> Iterator[Serving]:
    """One service that speaks gRPC, and two of which one is without the policy that is rendered."""
    spoken = service(
        "spoken",
        f"route: {{ host: {HOST}, path: /{rpc.SERVICE}, protocol: grpc }}",
        "probes: { readiness: { tcp: http } }",
    )
    replicas = {"spoken": 3, "guarded": 3, "careless": 3}
    services = [spoken, service("guarded"), service("careless")]
    with served(serving, *services, replicas=replicas, server=QUICK, played=either, changed=careless):
        yield serving


def either(one: Json, server: ModelServer) -> Json:
    return speaking_grpc(one) if one["metadata"]["name"] == "spoken" else played(one, server)


def speaking_grpc(one: Json) -> Json:
    """A Deployment whose image is the server in `rpc`, in its place."""
    (container,) = one["spec"]["template"]["spec"]["containers"]
    container |= {"image": PLAIN, "command": [sys.executable, str(rpc.__file__)], "args": []}
    return one


def careless(one: Json) -> None:
    if (one["kind"], one["metadata"]["name"]) == ("BackendTrafficPolicy", "careless"):
        del one["spec"]["retry"], one["spec"]["healthCheck"]


def test_the_parts_of_an_answer_arrive_as_they_are_made(passing: Serving) -> None:
    """Four, half a second apart."""
    began, arrived = time.monotonic(), list[float]()
    host, _, port = passing.gateway_address().partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    connection.request("POST", "/guarded", b"{}", {"host": HOST, "x-work": "100", "x-parts": "4"})
    answer = connection.getresponse()
    while answer.read1():
        arrived.append(time.monotonic() - began)
    connection.close()

    assert answer.status == 200
    assert len(arrived) == 4
    assert arrived[0] < 1.2
    assert arrived[-1] - arrived[0] > 1.2


def test_probes_reach_a_silent_client_before_the_load_balancer_forgets_its_connection(passing: Serving) -> None:
    """As Envoy Gateway hands the rendered policy to Envoy; in seconds: `tests/unit/demo/test_keepalive.py`."""
    host, _, port = passing.gateway_address().partition(":")
    with socket.create_connection((host, int(port)), timeout=5) as client:
        before = segments_in(client)
        time.sleep(65)

        assert segments_in(client) > before
        with pytest.raises(TimeoutError):  # it is open, and no byte came
            client.recv(1)


def test_calls_by_grpc_reach_every_pod(passing: Serving) -> None:
    channel: Any = grpc.insecure_channel(passing.gateway_address(), options=[("grpc.default_authority", HOST)])
    say = channel.unary_unary(f"/{rpc.SERVICE}/{rpc.METHOD}")
    told = [say(b"hello", timeout=10).decode().split() for _ in range(300)]
    channel.close()

    assert {word for _, word in told} == {"hello"}
    assert {pod for pod, _ in told} == {pod.name for pod in passing.pods("spoken")}


def refused(serving: Serving, name: str) -> LoadAnswers:
    """Three pods, of which one takes no connection from two seconds on; the kubelet sees it half a minute later."""
    one = serving.pods(name, 3)[0]

    def refuses() -> None:
        with urllib.request.urlopen(f"http://{one.address}:{PORT}{REFUSE}", timeout=5):
            return

    answers = under(load_on(serving, name, [LoadStage(seconds=10, rate=200)]), refuses)
    assert one.name in {pod.name for pod in serving.pods(name)}, "it is an endpoint all the time"
    assert Counter(answer.pod for answer in answers.between(4, 10).all)[one.name] == 0
    return answers


def test_one_pod_of_three_that_refuses_costs_no_request(passing: Serving) -> None:
    answers = refused(passing, "guarded")

    assert answers.sent > 1500
    assert (answers.lost, answers.reasons) == (0, {})


def test_without_the_policy_that_is_rendered_it_costs_some(passing: Serving) -> None:
    assert refused(passing, "careless").reasons["status 503"] > 0
