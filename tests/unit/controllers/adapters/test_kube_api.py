"""Answers and kubeconfigs as the adapter reads them; requests are tested on the real API server."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from kubernetes.client import Configuration

from controllers.adapters.kube_api import KubeApi, NoCluster, from_kubeconfig

pytestmark = pytest.mark.process


@contextmanager
def answering(dates: list[str]) -> Generator[str]:
    """A server that says `{}` with these Date headers, and its address."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response_only(200)
            for date in dates:
                self.send_header("Date", date)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def heard_from(dates: list[str]) -> list[datetime]:
    heard: list[datetime] = []
    with answering(dates) as url:
        configuration = Configuration()
        configuration.host = url
        assert KubeApi(configuration, heard.append).get("/") == {}
    return heard


def test_the_servers_time_is_heard_with_every_answer() -> None:
    assert heard_from(["Sat, 21 Nov 2026 14:00:00 GMT"]) == [datetime(2026, 11, 21, 14, tzinfo=UTC)]


@pytest.mark.parametrize(
    "dates",
    [
        [],
        ["yesterday"],
        ["Sat, 21 Nov 2026 14:00:00 -0000"],  # an instant without a zone
        ["Sat, 21 Nov 2026 14:00:00 GMT", "Sat, 21 Nov 2026 14:00:01 GMT"],  # a proxy added its own
        ["Fri, 31 Dec 9999 23:59:59 GMT"],  # no calendar goes beyond it
    ],
)
def test_a_date_that_cannot_be_read_is_no_reason_to_end(dates: list[str]) -> None:
    assert heard_from(dates) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [b\nc: }", "expected ',' or ']'"),
        ("- a list", "not a kubeconfig"),
        ("kind: Config", "current-context"),
        ("contexts: 3", "not a kubeconfig"),
        ("", "is empty"),
        (b"\xff\xfe\x00", "not a kubeconfig"),
    ],
)
def test_what_is_no_kubeconfig_is_told_in_one_line(tmp_path: Path, text: str | bytes, says: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())

    with pytest.raises(NoCluster) as refused:
        from_kubeconfig(str(file))

    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_server_without_a_scheme_is_refused_with_an_example(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    cluster = {"name": "here", "cluster": {"server": "10.0.0.1:6443"}}
    context = {"name": "here", "context": {"cluster": "here", "user": "me"}}
    access = {"clusters": [cluster], "users": [], "contexts": [context], "current-context": "here"}
    file.write_text(json.dumps(access))

    with pytest.raises(NoCluster, match=r"wanted https://host:port, found 10\.0\.0\.1:6443"):
        from_kubeconfig(str(file))
