"""The model server as a process: ready when loaded, its limit of requests at a time, and the effect of a signal."""

import asyncio
import json
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any

import pytest

from ebbtide.demo.embedded import free_port
from ebbtide.demo.load import Load, LoadStage, offer
from ebbtide.demo.model_server import ModelServer, OnSigterm
from tests.builders.redis import DEADLINE, wait_until

pytestmark = pytest.mark.process


@contextmanager
def running(**its: Any) -> Generator[tuple[str, "subprocess.Popen[bytes]"]]:
    server = ModelServer(port=free_port(), **its)
    process = subprocess.Popen(server.command())
    url = f"http://127.0.0.1:{server.port}"
    try:
        wait_until(lambda: status(url) is not None, "the server")
        yield url, process
    finally:
        process.kill()
        process.wait()


def status(url: str) -> int | None:
    try:
        with urllib.request.urlopen(f"{url}/ready") as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except urllib.error.URLError:
        return None


def ask(url: str, **headers: str) -> Any:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, data=b"{}", headers=names)
    with urllib.request.urlopen(request) as answer:
        return answer.read(), answer.headers


def test_it_names_the_variant_and_the_pod_that_answers() -> None:
    with running(pod="embedder-large-1", variant="large", service=0.0) as (url, _):
        body, headers = ask(url)

    assert json.loads(body) == {"variant": "large", "pod": "embedder-large-1"}
    assert (headers["x-variant"], headers["x-pod"]) == ("large", "embedder-large-1")


def test_it_is_ready_once_its_model_is_loaded() -> None:
    with running(loading=0.5) as (url, _):
        assert status(url) == 503
        wait_until(lambda: status(url) == 200, "the model")


def test_an_answer_may_come_in_parts() -> None:
    with running(service=0.0) as (url, _):
        body, headers = ask(url, x_parts="3")

    assert headers["transfer-encoding"] == "chunked"
    assert body.count(b"variant") == 3


def test_it_exports_what_runs_what_waits_and_how_busy_a_gpu_would_be() -> None:
    """Four at once for three seconds, two of them at a time."""
    with running(service=1.5, concurrency=2) as (url, _):
        assert metrics_of(url) == {"model_requests_running": 0, "model_requests_waiting": 0, "DCGM_FI_DEV_GPU_UTIL": 0}
        asking = [Thread(target=ask, args=[url]) for _ in range(4)]
        for thread in asking:
            thread.start()
        wait_until(lambda: metrics_of(url)["model_requests_waiting"] == 2, "two that wait")
        assert metrics_of(url)["model_requests_running"] == 2
        time.sleep(0.2)
        assert metrics_of(url)["DCGM_FI_DEV_GPU_UTIL"] > 90
        for thread in asking:
            thread.join()


def metrics_of(url: str) -> dict[str, float]:
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        assert answer.headers["content-type"].startswith("text/plain")
        lines = [line.split() for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def test_metrics_may_have_a_port_of_their_own() -> None:
    port = free_port()
    with running(metrics_port=port):
        assert metrics_of(f"http://127.0.0.1:{port}")["model_requests_running"] == 0


def test_a_refusing_server_takes_no_connection() -> None:
    with running(service=0.0) as (url, process):
        assert ask(f"{url}/refuse")[0]

        with pytest.raises(urllib.error.URLError, match="refused"):
            ask(url)
        assert process.poll() is None


def test_more_than_so_many_at_a_time_wait_for_each_other() -> None:
    def longest(at_a_time: int) -> float:
        with running(service=0.2, concurrency=at_a_time) as (url, _):
            port = int(url.rpartition(":")[2])
            load = Load(address=lambda: ("127.0.0.1", port), stretches=[LoadStage(seconds=0.1, rate=100)], seed=1)
            answers = asyncio.run(offer(load))
            assert answers.sent == answers.answered >= 5
            return answers.quantile(1)

    assert longest(1) > 2 * longest(20)


@pytest.mark.parametrize(("how", "answered"), [(OnSigterm.DRAIN, True), (OnSigterm.EXIT, False)])
def test_a_request_that_is_in_flight_at_the_signal(how: OnSigterm, answered: bool) -> None:
    answers: list[object] = []

    def keep_answer(url: str) -> None:
        with suppress(OSError):
            answers.append(ask(url))

    with running(service=2.0, concurrency=3, on_sigterm=how) as (url, process):
        asking = [Thread(target=keep_answer, args=[url]) for _ in range(3)]
        for thread in asking:
            thread.start()
        wait_until(lambda: metrics_of(url)["model_requests_running"] == 3, "all three to be in flight")
        process.send_signal(signal.SIGTERM)
        for thread in asking:
            thread.join()
        assert process.wait(DEADLINE) == 0

    assert len(answers) == (3 if answered else 0)


def test_one_that_ignores_the_signal_continues() -> None:
    with running(service=0.0, on_sigterm=OnSigterm.IGNORE) as (url, process):
        process.send_signal(signal.SIGTERM)

        assert ask(url)[0]
        assert process.poll() is None
