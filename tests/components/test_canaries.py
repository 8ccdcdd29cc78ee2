"""A secret that is set as it should be reaches Kubernetes Secrets and AWS, and nothing that anybody reads."""

import json
import logging
from pathlib import Path

import pytest
from typer.testing import CliRunner

import infra
from ebbtide.cli.__main__ import app
from ebbtide.cli.render import output_files
from ebbtide.preview.recording import Recording, record_directory
from tests.builders_mutants import CANARY, as_pulumi_passes, sound_config
from tests.builders_settings import SHORTEST

PASSWORD = "ebbtide:redisPassword"
KINDS = {
    "in-cluster": {"kind": "in-cluster"},
    "elasticache": {"kind": "elasticache"},
    "url": {"kind": "url", "url": "rediss://queues.example.com:6379/0"},
}


def program(redis: dict[str, str]) -> Recording:
    """A customer with a password, which Pulumi hands to the program in the clear."""
    config = {**sound_config("shortest"), "ebbtide:redis": redis, PASSWORD: 2 * CANARY, "aws:secretKey": CANARY}
    texts, _ = as_pulumi_passes(config)
    return record_directory(Path(infra.__file__).parent, texts, secret_keys=[PASSWORD, "aws:secretKey"], stack="acme")


@pytest.mark.parametrize("kind", KINDS)
def test_a_password_is_in_no_plain_value_of_the_program(
    kind: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    recording = program(KINDS[kind])
    said = "".join(capfd.readouterr()) + caplog.text

    assert CANARY not in repr(recording) + said
    assert [r.name for r in recording.resources if "[secret]" in json.dumps(r.inputs, default=str)] != []
    assert CANARY not in "".join(output_files(recording.resources).values())


@pytest.mark.parametrize("arguments", [(), ("--format", "json"), ("--graph",), ("--output", "out")])
def test_a_password_is_in_nothing_that_is_rendered(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    secrets = f"  {PASSWORD}: {{ secure: v1:{CANARY} }}\n  aws:secretKey: {CANARY}\n"
    Path("Pulumi.acme.yaml").write_text(f"encryptionsalt: v1:{CANARY}\n{SHORTEST}{secrets}")

    rendered = CliRunner().invoke(app, ["render", "Pulumi.acme.yaml", *arguments])
    checked = CliRunner().invoke(app, ["check", "Pulumi.acme.yaml"])
    written = [path.read_text() for path in Path("out").rglob("*") if path.is_file()]

    assert (rendered.exit_code, checked.exit_code) == (0, 0)
    assert bool(written) == ("--output" in arguments)
    assert CANARY not in rendered.output + checked.output + "".join(written)
