"""A Prometheus that is named by its address: what its token file may hold, and what is sent."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from ebbtide.operate.api import CannotOperate
from ebbtide.operate.prometheus import named_link

pytestmark = pytest.mark.process


class RecordingServer(BaseHTTPRequestHandler):
    heard: dict[str, str]

    def do_GET(self) -> None:
        type(self).heard = {name.lower(): value for name, value in self.headers.items()}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), RecordingServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def token_file(text: str, folder: Path) -> Path:
    file = folder / "token"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("abc.def==\n", {"authorization": "Bearer abc.def=="}),
        ("X-Scope-OrgID: acme\n", {"x-scope-orgid": "acme"}),
        (
            "X-Scope-OrgID: acme\nAuthorization: Basic YTpi\n\n",
            {"x-scope-orgid": "acme", "authorization": "Basic YTpi"},
        ),
    ],
)
def test_a_token_is_sent_as_bearer_and_headers_are_sent_unchanged(
    text: str, sent: dict[str, str], url: str, tmp_path: Path
) -> None:
    named_link(url, token_file(text, tmp_path)).get("query", {"query": "up"})

    assert {name: RecordingServer.heard.get(name) for name in ("authorization", "x-scope-orgid")} == {
        "authorization": None,
        "x-scope-orgid": None,
        **sent,
    }


@pytest.mark.parametrize("text", ["", "geheim\ngeheim", "X-Scope-OrgID: geheim\ngeheim", "geheim\x01", "gehéim"])
def test_what_is_neither_is_refused_without_being_shown(text: str, url: str, tmp_path: Path) -> None:
    with pytest.raises(CannotOperate, match="wanted one line with a token, or headers") as refused:
        named_link(url, token_file(text, tmp_path))

    assert "geh" not in str(refused.value).replace(str(tmp_path), "")
