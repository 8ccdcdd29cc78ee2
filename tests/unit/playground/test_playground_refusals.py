"""What cannot be shown is said in a line, before anything is started."""

import socket
from pathlib import Path

import pytest
from control_plane.playground.__main__ import main

from tests.paths import ROOT


@pytest.fixture(autouse=True)
def at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_a_stack_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert "nowhere" in refusal(capsys, "nowhere")


def test_a_stack_that_does_not_check(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = (ROOT / "stacks" / "Pulumi.demo.yaml").read_text()
    stack = tmp_path / "Pulumi.broken.yaml"
    stack.write_text(text.replace("America/New_York", "America/Old_York"))

    assert "America/Old_York" in refusal(capsys, str(stack))


def test_prices_that_are_not_there(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EBBTIDE_PRICES", str(tmp_path / "nowhere"))

    assert f"{tmp_path}/nowhere: found no such directory" in refusal(capsys)


def test_a_port_that_somebody_listens_on(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])

        assert f"port {port} is taken" in refusal(capsys, "--port", port)


def test_no_control_plane_and_no_go(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PATH", "EBBTIDE_CACHE"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)

    line = refusal(capsys)

    assert "etcd" in line
    assert "install Go" in line
    assert "build.py" in line
