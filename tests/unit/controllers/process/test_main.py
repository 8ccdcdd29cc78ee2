"""The command: what it refuses. That it runs, reloads and ends is tested on the real control plane."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from controllers.scaler.main import main
from ebbtide.vocabulary.controller_config import RedisEndpoint
from ebbtide.vocabulary.documents import dump
from tests.builders.controllers import config, pool_policy

SERVER = {"name": "here", "cluster": {"server": "https://127.0.0.1:1"}}


def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], document: str, *more: str) -> str:
    """The one line that it says."""
    file, kubeconfig = tmp_path / "config.json", tmp_path / "kubeconfig"
    file.write_text(document)
    context = {"name": "here", "context": {"cluster": "here", "user": "me"}}
    access: dict[str, Any] = {"clusters": [SERVER], "users": [{"name": "me", "user": {}}], "contexts": [context]}
    kubeconfig.write_text(json.dumps({**access, "current-context": "here"}))

    assert main(["--config", str(file), "--kubeconfig", str(kubeconfig), "--listen", "127.0.0.1:0", *more]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ("not json", "wanted a JSON object"),
        ('{"schema": 9}', "schema 9"),
        ('{"schema": 3}', "incomplete"),
        (dump(config(pool_policy(source="huey"))), "a running task is in no key of Redis"),
        (dump(config(pool_policy(source="kafka"))), "this release reads"),
        (dump(config(redis=RedisEndpoint(host="redis", password_env="EBBTIDE_NO_SUCH"))), "variable EBBTIDE_NO_SUCH"),
    ],
)
def test_a_bad_document_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], document: str, says: str
) -> None:
    assert says in refused(tmp_path, capsys, document)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--config", "/nowhere.json"), "/nowhere.json"),
        (("--kubeconfig", "/nowhere"), "/nowhere"),
        (("--listen", "127.0.0.1"), "--listen 127.0.0.1: "),
        (("--listen", "127.0.0.1:http"), "--listen 127.0.0.1:http: "),
        (("--listen", "127.0.0.1:99999"), "port must be"),
    ],
)
def test_a_bad_argument_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, str], says: str
) -> None:
    assert says in refused(tmp_path, capsys, dump(config()), *more)


@pytest.mark.process
def test_a_taken_port_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert address in refused(tmp_path, capsys, dump(config()), "--listen", address)


def test_outside_a_cluster_and_without_a_kubeconfig_it_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    file = tmp_path / "config.json"
    file.write_text(dump(config()))

    assert main(["--config", str(file)]) == 2
    assert "not set" in capsys.readouterr().err
