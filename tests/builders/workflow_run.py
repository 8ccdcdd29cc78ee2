"""GitHub's workflows of a repository, run on this machine: scripts in bash, and what actions do to files.

Expressions and conditions are looked up, not evaluated: one without a value fails.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

_EXPRESSION = re.compile(r"\$\{\{ (.*?) \}\}")


@dataclass(kw_only=True)
class WorkflowRun:
    """One run. Its jobs share the clone, from which each removes what git does not know; .venv is ignored."""

    repository: Path
    name: str
    values: dict[str, str]  # by expression
    environment: Mapping[str, str]
    conditions: Mapping[str, bool] = field(default_factory=dict[str, bool])  # of steps
    printed: str = ""

    def job(self, name: str) -> None:
        """Run the steps of a job in order; the first script that fails ends the test."""
        subprocess.run(["git", "clean", "--quiet", "--force", "-d"], cwd=self.repository, check=True)
        job = self._workflow["jobs"][name]
        for step in job["steps"]:
            if not self.conditions.get(step.get("if", ""), True):
                continue
            if "run" in step:
                outputs = self._script(step, self._resolved({**job.get("env", {}), **step.get("env", {})}))
                self.values |= {f"steps.{step.get('id')}.outputs.{key}": value for key, value in outputs.items()}
            else:
                self._action(step["uses"].partition("@")[0], step.get("with", {}))
        for output, expression in job.get("outputs", {}).items():
            self.values[f"needs.{name}.outputs.{output}"] = self._text(expression)

    @property
    def _workflow(self) -> Mapping[str, Any]:
        return yaml.safe_load((self.repository / ".github" / "workflows" / f"{self.name}.yml").read_text())

    def _script(self, step: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, str]:
        output = self.repository.parent / "output"
        output.write_text("")
        bash = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        surroundings = {**self.environment, **environment, "GITHUB_OUTPUT": str(output)}
        done = subprocess.run(bash, cwd=self.repository, env=surroundings, capture_output=True, text=True, check=False)
        self.printed += f"$ {step['run']}\n{done.stdout}{done.stderr}"
        assert done.returncode == 0, self.printed
        return dict(line.split("=", 1) for line in output.read_text().splitlines())

    def _action(self, action: str, given: Mapping[str, Any]) -> None:
        artifacts = self.repository.parent / "artifacts"
        if action == "actions/upload-artifact":
            source, target = self.repository / self._text(given["path"]), artifacts / self._text(given["name"])
            if source.is_dir():
                shutil.copytree(source, target, dirs_exist_ok=True)
            else:
                target.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
        elif action == "actions/download-artifact":
            target = self.repository / given["path"]
            for artifact in sorted(artifacts.glob(given.get("name") or given["pattern"])):
                merged = "name" in given or given.get("merge-multiple", False)
                shutil.copytree(artifact, target if merged else target / artifact.name, dirs_exist_ok=True)

    def _resolved(self, environment: Mapping[str, Any]) -> dict[str, str]:
        return {key: self._text(value) for key, value in environment.items()}

    def _text(self, value: object) -> str:
        return _EXPRESSION.sub(lambda match: self.values[match[1]], str(value))


def on_path(folder: Path, **programs: str) -> str:
    """Return a PATH whose first folder holds these programs by name: the text of each."""
    folder.mkdir()
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"
