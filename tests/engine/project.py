"""A temporary project for the real engine: the shipped program and stack files, a backend and a cloud of its own.

Nothing of it leaves the folder: the backend is a directory, plugins are never downloaded, and `aws` is a stand-in or
what a test gives in its place.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml
from pulumi import automation

from tests.engine.stand_in.cloud import Cloud
from tests.paths import ROOT, STACK_FILES

STACKS = sorted(file.name.removeprefix("Pulumi.").removesuffix(".yaml") for file in STACK_FILES.glob("*.yaml"))
_SAME = frozenset({"same", "read", "refresh"})


@dataclass(frozen=True)
class Told:
    """What a run did: the operation for each resource that it touched, by URN, and what it printed."""

    touched: Mapping[str, str]
    output: str

    def named(self) -> dict[str, str]:
        return {urn.rsplit("::", 1)[1]: operation for urn, operation in self.touched.items()}

    def of(self, *kinds: str) -> set[str]:
        """The names of what was touched and is of one of these kinds."""
        return {urn.rsplit("::", 1)[1] for urn in self.touched if urn.split("::")[2].rsplit(":", 1)[1] in kinds}


@dataclass(frozen=True)
class Project:
    folder: Path
    stand_ins: Sequence[str] = ("aws", "kubernetes")
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    program: Path = ROOT / "infra"
    plugins: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """By package, the command of a plugin that is no stand-in."""

    def __post_init__(self) -> None:
        for part in ("state", "cloud", "home", "stacks"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        for part, shipped in (("infra", self.program), (".venv", Path(sys.prefix))):
            (self.folder / part).symlink_to(shipped)
        commands = {**{name: self._stand_in(name) for name in self.stand_ins}, **self.plugins}
        plugins = [{"name": name, "path": str(self._launcher(name, each).parent)} for name, each in commands.items()]
        shipped = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
        (self.folder / "Pulumi.yaml").write_text(yaml.safe_dump({**shipped, "plugins": {"providers": plugins}}))

    def _stand_in(self, name: str) -> list[str]:
        named = (name, version(f"pulumi-{name}"), str(self.cloud_folder))
        return [sys.executable, "-m", "tests.engine.stand_in", *named]

    def _launcher(self, name: str, command: Sequence[str]) -> Path:
        file = self.folder / "plugins" / name / f"pulumi-resource-{name}"
        file.parent.mkdir(parents=True)
        file.write_text("#!/bin/sh\nexec " + " ".join(f"'{part}'" for part in command) + "\n")
        file.chmod(0o755)
        return file

    @property
    def cloud_folder(self) -> Path:
        return self.folder / "cloud"

    @property
    def cloud(self) -> Cloud:
        return Cloud(self.cloud_folder)

    def copy(self, folder: Path) -> "Project":
        """The same stacks at the same point, on their own from here on."""
        for part in ("state", "cloud", "stacks"):
            shutil.copytree(self.folder / part, folder / part)
        return Project(folder, self.stand_ins, self.environment, self.program, self.plugins)

    def write(self, name: str, config: Mapping[str, Any]) -> None:
        (self.folder / "stacks" / f"Pulumi.{name}.yaml").write_text(yaml.safe_dump({"config": dict(config)}))

    def ship(self, name: str) -> None:
        shutil.copy(STACK_FILES / f"Pulumi.{name}.yaml", self.folder / "stacks")

    def edit(self, name: str, change: Callable[[dict[str, Any]], object]) -> None:
        """Change the stack file's `config`."""
        file = self.folder / "stacks" / f"Pulumi.{name}.yaml"
        content = yaml.safe_load(file.read_text())
        change(content["config"])
        file.write_text(yaml.safe_dump(content))

    def let_go(self, name: str) -> None:
        """As the documentation of `deletionProtection` says: false, and then up."""
        self.edit(name, lambda config: config["ebbtide:cluster"].update(deletionProtection=False))
        self.up(name)

    def kept(self, name: str) -> set[str]:
        """The ids of what a destroy takes out of the state and leaves in the cloud."""
        return {each["id"] for each in self.state(name) if each.get("retainOnDelete")}

    def state(self, name: str) -> list[dict[str, Any]]:
        """What the engine knows of, in the order of making."""
        deployment: Any = self.stack(name).export_stack().deployment
        return deployment["resources"]

    def pending(self, name: str) -> dict[str, str]:
        """What an update that was cut off had begun, by the name of the resource: "creating" and the like."""
        deployment: Any = self.stack(name).export_stack().deployment
        begun: list[dict[str, Any]] = deployment.get("pending_operations") or []
        return {each["resource"]["urn"].rsplit("::", 1)[1]: each["type"] for each in begun}

    def stack(self, name: str) -> automation.Stack:
        variables = {
            "PULUMI_BACKEND_URL": f"file://{self.folder / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE": "for tests",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_HOME": str(self.folder / "home"),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PATH": os.environ["PATH"],
            **self.environment,
        }
        options = automation.LocalWorkspaceOptions(env_vars=variables)
        return automation.create_or_select_stack(name, work_dir=str(self.folder), opts=options)

    def cli(self, name: str, *command: str) -> "subprocess.CompletedProcess[str]":
        """The CLI itself: the Automation API leaves an update's own preview out, and has plans in another form."""
        environment = {**os.environ, **self.stack(name).workspace.env_vars}
        full = ["pulumi", *command, "--stack", name, "--non-interactive"]
        return subprocess.run(full, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)

    def plan(self, name: str) -> Path:
        """What `pulumi preview --json` writes."""
        file = self.folder / f"{name}.plan.json"
        file.write_text(self.cli(name, "preview", "--json").stdout)
        return file

    def preview(self, name: str, **options: Any) -> Told:
        return _told(self.stack(name).preview, **options)

    def up(self, name: str, **options: Any) -> Told:
        return _told(self.stack(name).up, **options)

    def destroy(self, name: str, **options: Any) -> Told:
        return _told(self.stack(name).destroy, **options)


def _told(run: Callable[..., Any], **options: Any) -> Told:
    touched: dict[str, str] = {}
    lines: list[str] = []

    def hear(event: automation.EngineEvent) -> None:
        if event.resource_pre_event and event.resource_pre_event.metadata.op not in _SAME:
            metadata = event.resource_pre_event.metadata
            touched[metadata.urn] = str(getattr(metadata.op, "value", metadata.op))

    run(on_event=hear, on_output=lines.append, **options)
    return Told(touched, "\n".join(lines))
