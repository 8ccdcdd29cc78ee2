"""The gateway's keepalive, with a real Envoy on loopback: probes reach a client whose request has no answer yet."""

import socket
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from components.serving.routing import client_policy
from ebbtide.demo.embedded import free_port
from ebbtide.demo.embedded_envoy import EmbeddedEnvoy, Route, Upstream, wait_until
from ebbtide.text.durations import read_duration
from tests.segments import segments_in

pytestmark = pytest.mark.process

NAME = "httproute/ebbtide/embedder/rule/0"
SOL_SOCKET, SO_KEEPALIVE, SOL_TCP, TCP_KEEPIDLE, TCP_KEEPINTVL = 1, 9, 6, 4, 5


class KeepaliveGateway(EmbeddedEnvoy):
    """With the socket options that Envoy Gateway writes into a listener for a `tcpKeepalive`."""

    def __init__(self, keepalive: Mapping[str, str]) -> None:
        super().__init__([Upstream(name=NAME)], [Route(to={NAME: 1})])
        self._keepalive = keepalive

    def _listener(self) -> dict[str, Any]:
        named = {"idleTime": TCP_KEEPIDLE, "interval": TCP_KEEPINTVL}
        options: list[dict[str, Any]] = [{"level": SOL_SOCKET, "name": SO_KEEPALIVE, "int_value": 1}]
        options += [
            {"level": SOL_TCP, "name": named[key], "int_value": seconds(text)} for key, text in self._keepalive.items()
        ]
        return {**super()._listener(), **({"socket_options": options} if self._keepalive else {})}


def seconds(text: str) -> int:
    duration = read_duration(text)
    assert duration is not None
    return int(duration.total_seconds())


@contextmanager
def silent_model() -> Generator[int]:
    """Run a server that takes requests and answers none; yield its port."""
    taken: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", free_port())) as server:

        def accept() -> None:
            while True:
                try:
                    taken.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    for connection in taken:
        connection.close()


def segments_to_a_silent_client(keepalive: Mapping[str, str], lasting: float) -> int:
    """Count the TCP segments that reach a client while its request waits for an answer."""
    with silent_model() as model, KeepaliveGateway(keepalive) as gateway:
        gateway.set_endpoints(NAME, [("127.0.0.1", model)])
        wait_until(lambda: gateway.endpoints(NAME) == {("127.0.0.1", model)}, "the model")
        with socket.create_connection((gateway.host, gateway.port)) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: models\r\n\r\n")
            wait_until(lambda: gateway.in_flight(NAME) == 1, "the request")
            before = segments_in(client)
            time.sleep(lasting)
            after = segments_in(client)
            client.setblocking(False)
            with pytest.raises(BlockingIOError):  # no byte of an answer
                client.recv(1)
        return after - before


def test_probes_reach_a_client_while_its_request_is_silent() -> None:
    """The times of the policy in seconds instead of minutes; its keys are those of the policy."""
    rendered = client_policy(timedelta(minutes=15))["tcpKeepalive"]
    assert rendered.keys() == {"idleTime", "interval"}

    assert segments_to_a_silent_client(dict.fromkeys(rendered, "1s"), 4.0) >= 2
    assert segments_to_a_silent_client({}, 3.0) == 0


def test_the_load_balancer_sees_several_probes_before_it_forgets_a_connection() -> None:
    """It forgets after 350 s; a probe may be lost, and the next one too."""
    rendered = client_policy(timedelta(minutes=15))["tcpKeepalive"]

    assert seconds(rendered["idleTime"]) + 3 * seconds(rendered["interval"]) < 350
