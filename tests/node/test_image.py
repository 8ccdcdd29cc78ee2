"""The controller's image, built from the project's own Dockerfile: what it holds, and how it starts."""

import json
import re
import stat
import tomllib
from collections.abc import Iterator
from datetime import timedelta
from importlib import metadata
from pathlib import Path

import pytest
from control_plane.nodes.images import building
from control_plane.nodes.images.container import Container, running
from control_plane.nodes.run import Failed

from ebbtide.vocabulary.controller_config import RedisEndpoint
from ebbtide.vocabulary.documents import dump
from tests.builders.control_plane import eventually
from tests.builders.controllers import config
from tests.paths import ROOT

pytestmark = [pytest.mark.node, pytest.mark.timeout(1800)]

PATIENCE = 300.0  # seconds
TOOLS = {"ar", "cc", "curl", "docker", "g++", "gcc", "git", "ld", "make", "nc", "ssh", "wget"}
ARGUMENTS = ("--config", "/etc/test/config.json", "--kubeconfig", "/etc/test/kubeconfig")
NOWHERE = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "x", "user": {"token": "x"}}],
    "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    "current-context": "x",
}
ASK = """
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(f"http://127.0.0.1:8080/{sys.argv[1]}").status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with building.unpacked("controller") as root:
        yield root


@pytest.fixture(params=[65532, 1000], ids=["the image's own user", "the user that is rendered"])
def container(request: pytest.FixtureRequest) -> Iterator[Container]:
    """Without Redis and without an API server: it starts and waits for both."""
    told = config(redis=RedisEndpoint(host="127.0.0.1", port=1), resync=timedelta(seconds=1))
    files = {"config.json": dump(told), "kubeconfig": json.dumps(NOWHERE)}
    with running("controller", ARGUMENTS, user=request.param, files=files) as container:
        yield container


def test_it_holds_the_controller_the_vocabulary_and_what_they_need(root: Path) -> None:
    modules = {str(path.relative_to(root / "app")) for path in (root / "app").rglob("*.py")}

    assert {path.name for path in (root / "app").iterdir()} == {"controllers", "dependencies", "ebbtide"}
    assert {path.name for path in (root / "app" / "ebbtide").iterdir()} - {"__pycache__"} == {"vocabulary"}
    assert {"controllers/__main__.py", "controllers/closer.py", "ebbtide/vocabulary/labels.py"} <= modules


def test_it_holds_no_tools(root: Path) -> None:
    folders = [root / folder for folder in ("usr/bin", "usr/sbin", "usr/local/bin", "usr/local/sbin")]

    assert {name for name in TOOLS for folder in folders if (folder / name).exists()} == set()


def test_nobody_but_root_may_change_its_files(root: Path) -> None:
    files = [path.lstat() for path in (root / "app").rglob("*") if not path.is_symlink()]

    assert {(status.st_uid, status.st_gid) for status in files} == {(0, 0)}
    assert not any(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH | stat.S_ISUID | stat.S_ISGID) for status in files)


def test_a_scanner_finds_each_package_in_it_by_name_and_version(root: Path) -> None:
    """The release's list of software (SBOM) is made by a scanner, which reads what is installed."""
    locked = re.findall(r"(?m)^([a-z0-9-]+)==(\S+) \\$", (ROOT / "tools/locks/controller.txt").read_text())
    found = [
        distribution.metadata for distribution in metadata.distributions(path=[str(root / "app" / "dependencies")])
    ]

    assert {(_plain(each["Name"]), each["Version"]) for each in found} == set(locked)
    assert "Package: libc6\n" in (root / "var/lib/dpkg/status").read_text()


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_it_says_what_it_is() -> None:
    labels = building.settings_of("controller")["Labels"]
    told = {name.removeprefix("org.opencontainers.image."): text for name, text in labels.items()}

    assert told.keys() >= {"title", "description"}
    assert told["licenses"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"]


def test_nothing_of_this_machine_is_in_it(root: Path) -> None:
    ours, theirs = building.AUTHORITIES, root / building.AUTHORITIES.relative_to("/")

    assert building.settings_of("controller")["User"] == "65532:65532"
    assert "proxy" not in str(building.settings_of("controller")).lower()
    assert theirs.stat().st_ino != ours.stat().st_ino


def test_it_starts_without_rights_on_a_read_only_root_and_leaves_when_told(container: Container) -> None:
    eventually(lambda: answer(container, "healthz") == "200", what="the health of the controller", patience=PATIENCE)
    ready = answer(container, "readyz")
    status = dict(re.findall(r"(?m)^(\w+):\t(.*)$", container.run("cat", "/proc/1/status")))
    with pytest.raises(Failed, match="Read-only file system"):
        container.run("touch", "/app/new")
    code = container.stop()

    assert ready == "503"
    assert (status["CapEff"], status["CapBnd"], status["NoNewPrivs"]) == ("0" * 16, "0" * 16, "1")
    assert code == 0


def test_its_bytecode_is_complete(container: Container) -> None:
    """On a read-only root what is compiled at a start is compiled at each."""
    eventually(lambda: answer(container, "healthz") == "200", what="the health of the controller", patience=PATIENCE)
    told = container.run("sh", "-c", "python -v -m controllers --help 2>&1 | grep '^# code object from'").splitlines()
    kept = [line for line in told if line.endswith(".opt-2.pyc'")]

    assert len(kept) > 100
    assert [line for line in told if line.endswith(".py")] == []


def answer(container: Container, page: str) -> str:
    try:
        return container.run("python", "-c", ASK, page).strip()
    except Failed:  # nothing listens yet
        return ""
