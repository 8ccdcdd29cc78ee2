"""What the engine keeps and prints of a stack's Secrets: nothing that can be read."""

import json
from base64 import b64encode
from collections.abc import Callable

import pytest
from pulumi.automation import ConfigValue

from tests.engine.project import Project

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

CANARY = "canary-7f3a91"
ENCODED = b64encode(CANARY.encode()).decode()
KEY = "digest-key-canary-" + 32 * "k"


def test_a_value_reaches_the_cluster_and_is_nowhere_else(running: Callable[[str], Project]) -> None:
    project = running("demo")
    stack = project.stack("demo")
    stack.set_config("ebbtide:digestKey", ConfigValue(KEY, secret=True))
    stack.set_config("ebbtide:secrets.api.TOKEN", ConfigValue(CANARY, secret=True), path=True)

    told = project.up("demo")
    printed = told.output + project.cli("demo", "preview", "--json", "--show-sames").stdout
    # By the CLI: the Automation API's own export asks for secrets in the clear.
    exported = project.cli("demo", "stack", "export").stdout + repr(stack.outputs())
    folders = [project.folder / part for part in ("state", "stacks")]
    kept = "".join(path.read_text(errors="replace") for at in folders for path in at.rglob("*") if path.is_file())
    cluster = "".join(json.dumps(thing) for thing in project.cloud.things())

    assert told.named()["ebbtide.api"] == "create"
    assert ENCODED in cluster
    assert "ebbtide.api" in exported
    assert not [text for text in (CANARY, ENCODED, KEY) if text in printed + exported + kept]
