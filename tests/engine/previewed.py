"""What `ebbtide preview` says of a project's stack against its last commit, with a plan of the engine or without."""

import json
import subprocess
from typing import Any

from typer.testing import CliRunner

from ebbtide.cli.__main__ import app
from tests.engine.project import Project


def commit(project: Project) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for arguments in (("init", "--quiet"), ("add", "stacks"), (*identity, "commit", "--quiet", "--message", "one")):
        subprocess.run(["git", *arguments], cwd=project.folder, check=True, capture_output=True)


def previewed(*more: str) -> tuple[dict[str, Any], str]:
    """The one customer of the page, and all that was said, in the project that is the current directory."""
    said = CliRunner().invoke(app, ["preview", "demo", "--against", "HEAD", "--format", "json", *more])
    return json.loads(said.stdout)["customers"][0], said.stdout


def told(page: dict[str, Any]) -> set[tuple[str, ...]]:
    """Components aside, which the engine counts, and the files' comparison does not. Of groups of nodes, one is called
    as its resource is, and belongs to no other.
    """
    components = {"Workload", "WorkerPool"}
    of_groups = ("NodeGroup", "")
    known = [change for change in page["changes"] if change["type"] not in components]
    changes = [change for change in known if (change["type"], change["component"]) != of_groups]
    return {(c["kind"], c["type"], c["name"], c["component"], *c["reasons"], str(c["lowers"])) for c in changes}
