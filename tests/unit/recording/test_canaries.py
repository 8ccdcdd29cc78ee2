"""A secret reaches only Kubernetes Secrets and AWS, and no file or output."""

import json
import logging
import re
from base64 import b64encode
from pathlib import Path

import pulumi
import pytest
from pulumi import RunError
from typer.testing import CliRunner

import infra
from ebbtide.cli.__main__ import app
from ebbtide.provisioning_labels import SECRETS_DIGEST
from ebbtide.recording.output import output_files
from ebbtide.recording.record import Recording, record_directory, record_program
from ebbtide.settings.file.problems import value_at
from infra.config import stack_secrets
from tests.builders.mutants import CANARY, as_pulumi_passes, sound_config
from tests.builders.settings import SHORTEST

pytestmark = pytest.mark.whole

PASSWORD = "ebbtide:redisPassword"
SECRETS = "ebbtide:secrets"
DIGEST_KEY = "ebbtide:digestKey"
ENCODED = b64encode(CANARY.encode()).decode().rstrip("=")[:-1]  # as every longer text with it at its begin spells it
KINDS = {
    "in-cluster": {"kind": "in-cluster"},
    "elasticache": {"kind": "elasticache"},
    "url": {"kind": "url", "url": "rediss://queues.example.com:6379/0"},
}


def program(redis: dict[str, str], **changes: object) -> Recording:
    """A customer with secrets, which Pulumi passes to the program in the clear."""
    held = {"api": {"TOKEN": CANARY, "tls.key": f"{CANARY}\n{CANARY}"}}
    secret = {PASSWORD: 2 * CANARY, "aws:secretKey": CANARY, SECRETS: held, DIGEST_KEY: 4 * CANARY}
    sound = sound_config("shortest")
    web: dict[str, object] = {"category": "flexible", "image": "web:1", "cpu": 1, "memory": "1Gi"}
    web["env"] = {"TOKEN": {"secret": "api", "key": "TOKEN"}}
    (pool,) = sound["ebbtide:workers"]
    workers = {pool: {**sound["ebbtide:workers"][pool], "envFrom": [{"secret": "api"}]}}
    taken = {"ebbtide:workloads": {"web": web}, "ebbtide:workers": workers}
    texts, _ = as_pulumi_passes({**sound, **taken, "ebbtide:redis": redis, **secret, **changes})
    hidden = [*secret, *(key for key, value in changes.items() if CANARY in json.dumps(value))]
    return record_directory(Path(infra.__file__).parent, texts, secret_keys=hidden, stack="acme")


@pytest.mark.parametrize("kind", KINDS)
def test_a_password_is_in_no_plain_value_of_the_program(
    kind: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    recording = program(KINDS[kind])
    said = "".join(capfd.readouterr()) + caplog.text

    assert CANARY not in repr(recording) + said
    assert ENCODED not in repr(recording) + said
    assert {"ebbtide.api", "ebbtide-workers.api"} <= {resource.name for resource in recording.resources}
    digests = {
        resource.name: value_at(resource.inputs, ("spec", "template", "metadata", "annotations", SECRETS_DIGEST))
        for resource in recording.resources
        if resource.inputs.get("kind") == "Deployment"
    }
    assert {name for name, it in digests.items() if re.fullmatch(r"[0-9a-f]{64}", str(it))} == {
        "web-deployment",
        "train-deployment",
    }
    assert [r.name for r in recording.resources if "[secret]" in json.dumps(r.inputs, default=str)] != []
    assert CANARY not in "".join(output_files(recording.resources).values())


def test_the_program_itself_has_values_and_key_as_secrets_only() -> None:
    def body() -> None:
        config = {SECRETS: json.dumps({"api": {"TOKEN": CANARY}}), DIGEST_KEY: 4 * CANARY}
        pulumi.runtime.set_all_config(config, list(config))
        held = stack_secrets()
        assert held is not None
        pulumi.export("values", held.values)
        pulumi.export("key", held.key)

    assert record_program(body).outputs == {"key": "[secret]", "values": "[secret]"}


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({SECRETS: {"api": {"TOKEN": 5, "OTHER": CANARY}}}, "ebbtide:secrets.api.TOKEN"),
        ({SECRETS: {"Api": {"TOKEN": CANARY}}}, "ebbtide:secrets.Api"),
        ({SECRETS: CANARY}, "ebbtide:secrets: wanted names of Secrets"),
        ({SECRETS: [CANARY]}, "ebbtide:secrets: wanted names of Secrets"),
        ({DIGEST_KEY: CANARY}, "found a secret that is too short"),
        ({"ebbtide:workloads": {"api": {"env": {"TOKEN": CANARY}}}}, "hide all of ebbtide:workloads"),
        ({"ebbtide:egress": {"httpsProxy": CANARY}}, "belong only in ebbtide:secrets"),
    ],
)
def test_a_refusal_of_the_program_names_the_key_and_shows_no_value(
    changes: dict[str, object], found: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RunError) as refused:
        program(KINDS["url"], **changes)

    assert found in str(refused.value)
    assert CANARY not in str(refused.value) + "".join(capfd.readouterr())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key", [PASSWORD, DIGEST_KEY])
def test_the_program_refuses_a_placeholder(kind: str, key: str) -> None:
    with pytest.raises(RunError) as refused:
        program(KINDS[kind], **{key: "PLACEHOLDER"})

    (line,) = str(refused.value).splitlines()
    assert f"{key}: wanted the value of this secret, found PLACEHOLDER" in line


def test_the_program_refuses_secrets_that_pulumi_holds_in_the_clear() -> None:
    texts, _ = as_pulumi_passes(
        {**sound_config("shortest"), SECRETS: {"api": {"TOKEN": CANARY}}, DIGEST_KEY: 4 * CANARY}
    )

    with pytest.raises(RunError, match="secret") as refused:
        record_directory(Path(infra.__file__).parent, texts, secret_keys=[], stack="acme")

    assert str(refused.value).count("found a value in the clear") == 2
    assert CANARY not in str(refused.value)


@pytest.mark.parametrize("arguments", [(), ("--format", "json"), ("--graph",), ("--output", "out")])
def test_a_password_is_in_nothing_that_is_rendered(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    secrets = f"  {PASSWORD}: {{ secure: v1:{CANARY} }}\n  aws:secretKey: {CANARY}\n"
    secrets += (
        f"  {DIGEST_KEY}: {{ secure: v1:{CANARY} }}\n  {SECRETS}: {{ api: {{ TOKEN: {{ secure: {CANARY} }} }} }}\n"
    )
    Path("Pulumi.acme.yaml").write_text(f"encryptionsalt: v1:{CANARY}\n{SHORTEST}{secrets}")

    rendered = CliRunner().invoke(app, ["render", "Pulumi.acme.yaml", *arguments])
    checked = CliRunner().invoke(app, ["check", "Pulumi.acme.yaml"])
    written = [path.read_text() for path in Path("out").rglob("*") if path.is_file()]

    assert (rendered.exit_code, checked.exit_code) == (0, 0)
    assert bool(written) == ("--output" in arguments)
    assert CANARY not in rendered.output + checked.output + "".join(written)
