"""No format of a page shows a secret of a file, a commit or a plan."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from ebbtide.cli.__main__ import app
from tests.builders.mutants import CANARY
from tests.builders.settings import SHORTEST

pytestmark = pytest.mark.process

URN = "urn:pulumi:acme::ebbtide::kubernetes:core/v1:Secret::gone"
MARKED = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "plaintext": CANARY}
SECRETS = f"""\
  ebbtide:redisPassword: {{ secure: v1:{CANARY} }}
  aws:secretKey: {CANARY}
  ebbtide:digestKey: {{ secure: v1:{CANARY} }}
  ebbtide:secrets: {{ api: {{ TOKEN: {{ secure: v1:{CANARY} }} }} }}
"""
CONFIG = {
    **{key: json.dumps(value) for key, value in yaml.safe_load(SHORTEST)["config"].items()},
    "ebbtide:customer": "acme",
    "ebbtide:redisPassword": CANARY,
    "aws:secretKey": CANARY,
    "ebbtide:digestKey": CANARY,
    "ebbtide:secrets": json.dumps({"api": {"TOKEN": CANARY}}),
}
"""Of a plan: nobody may rely on the CLI to have blinded it."""
CLEAR = f"""\
  ebbtide:redisPassword: {CANARY}
  ebbtide:digestKey: {CANARY}
  ebbtide:secrets: {{ api: {{ TOKEN: {CANARY} }} }}
  ebbtide:workloads:
    web: {{ category: flexible, image: "a:1", cpu: 1, memory: 1Gi, args: [{{ secure: {CANARY} }}] }}
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "stacks" / "Pulumi.acme.yaml"
    file.parent.mkdir()
    file.write_text(f"encryptionsalt: v1:{CANARY}\n{SHORTEST}{SECRETS}")
    for arguments in (
        ("init", "--quiet"),
        ("add", "."),
        ("-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "--message", CANARY),
    ):
        subprocess.run(["git", *arguments], check=True, capture_output=True)
    inputs = {"kind": "Secret", "data": {"password": CANARY}, "stringData": MARKED, "authToken": CANARY, "env": MARKED}
    state = {"urn": URN, "type": "kubernetes:core/v1:Secret", "inputs": inputs, "outputs": inputs}
    step = {"op": "update", "urn": URN, "oldState": state, "newState": {**state, "inputs": {}}}
    plan = {"steps": [{**step, "op": "delete"}], "changeSummary": {"delete": 1}, "config": CONFIG}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    return file


@pytest.mark.parametrize("format_", ["text", "markdown", "json"])
@pytest.mark.parametrize("password", ["as it was", "a new one", "in the clear"])
def test_no_format_holds_a_secret(format_: str, password: str, repository: Path) -> None:
    sound = repository.read_text()
    clear = sound.replace(SECRETS, CLEAR)
    changed = {"as it was": sound, "a new one": sound.replace("secure: v1:", "secure: v2:"), "in the clear": clear}
    repository.write_text(changed[password])
    asked = ["preview", "acme", "--against", "HEAD", "--format", format_, "--plan", "plan.json"]

    found = CliRunner().invoke(app, asked)

    assert CANARY not in found.output
    for key in ("redisPassword", "digestKey", "secrets.api.TOKEN", "workloads.web.args"):
        assert (key in found.output) == (password == "in the clear")
    assert ("gone" in found.output) == (password != "in the clear")
