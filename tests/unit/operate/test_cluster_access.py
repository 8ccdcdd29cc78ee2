"""What the commands for a running cluster print for a broken kubeconfig: one line that names what to fix."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ebbtide.cli.__main__ import app

COMMANDS = {
    "probe": ("probe",),
    "adopt": ("adopt", "--namespace", "team"),
    "status": ("status",),
    "why": ("why", "pool", "train"),
    "why job": ("why", "job", "4f1c"),
    "pause": ("pause", "--why", "x"),
    "keep": ("keep", "train", "--until", "2h"),
    "resume": ("resume",),
    "release": ("release",),
    "wake": ("wake", "--until", "2h"),
    "maintenance": ("maintenance", "--for", "1h", "--why", "x"),
}


def ebbtide(*arguments: str, **environment: str) -> Result:
    return CliRunner(env={"COLUMNS": "80", **environment}).invoke(app, list(arguments))


def kubeconfig(folder: Path, server: str = "https://127.0.0.1:1", user: dict[str, Any] | None = None) -> str:
    """A file with the contexts `here` (current) and `there`."""
    contexts = [{"name": name, "context": {"cluster": "here", "user": "me"}} for name in ("here", "there")]
    clusters = [{"name": "here", "cluster": {"server": server}}]
    access: dict[str, Any] = {"clusters": clusters, "contexts": contexts, "current-context": "here"}
    file = folder / "kubeconfig"
    file.write_text(json.dumps({**access, "users": [{"name": "me", "user": user or {}}]}))
    return str(file)


def error_line(result: Result, code: int) -> str:
    assert result.exit_code == code, result.output
    (line,) = result.output.splitlines()
    return line


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_names_the_file_that_is_missing(command: str) -> None:
    line = error_line(ebbtide(*COMMANDS[command], "--kubeconfig", "/does/not/exist"), 2)

    assert line.startswith("no cluster: kubeconfig /does/not/exist: no such file; wanted ")
    assert "for example --kubeconfig ~/.kube/config" in line


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_names_file_context_and_server_that_cannot_be_reached(tmp_path: Path, command: str) -> None:
    file = kubeconfig(tmp_path)

    line = error_line(ebbtide(*COMMANDS[command], "--kubeconfig", file, "--context", "there"), 1)

    assert line.startswith(f"kubeconfig {file}, context there: the server https://127.0.0.1:1 cannot be reached: ")
    assert line.endswith(f"try: kubectl --kubeconfig {file} --context there version")


def test_the_current_context_is_named_where_none_was_given(tmp_path: Path) -> None:
    assert ", context here: " in error_line(ebbtide("status", "--kubeconfig", kubeconfig(tmp_path)), 1)


def test_an_unknown_context_is_reported_with_those_that_exist(tmp_path: Path) -> None:
    line = error_line(ebbtide("status", "--kubeconfig", kubeconfig(tmp_path), "--context", "their"), 2)

    assert "no context their; there are: here, there; wanted " in line


def test_a_context_can_be_named_though_the_current_one_is_wrong(tmp_path: Path) -> None:
    file = Path(kubeconfig(tmp_path))
    file.write_text(file.read_text().replace('"current-context": "here"', '"current-context": "gone"'))

    assert ", context there: the server" in error_line(
        ebbtide("status", "--kubeconfig", str(file), "--context", "there"), 1
    )
    assert "Expected object with name gone" in error_line(ebbtide("status", "--kubeconfig", str(file)), 2)


@pytest.mark.parametrize(
    ("text", "says"), [("a: [b\nc: }", "not a kubeconfig: "), ("- a", "not a kubeconfig: "), ("", "")]
)
def test_a_broken_file_is_one_line(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "broken"
    file.write_text(text)

    line = error_line(ebbtide("status", "--kubeconfig", str(file)), 2)

    assert line.startswith(f"no cluster: kubeconfig {file}: {says}")
    assert "wanted one that kubectl can use" in line


def test_the_controllers_address_may_come_from_the_environment() -> None:
    address = "http://127.0.0.1:1"

    asked = ebbtide("status", EBBTIDE_CONTROLLER_URL=address)

    assert f"no status at {address}/status" in error_line(asked, 1)
    for command in ("status", "why"):
        assert "EBBTIDE_CONTROLLER_URL" in ebbtide(command, "--help").output
