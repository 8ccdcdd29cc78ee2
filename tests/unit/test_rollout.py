"""Rollouts in waves: the scripts of `up.yml` in the order and under the conditions of the workflow, without GitHub.

`ebbtide` and git are real. `gh` and `pulumi` are stand-ins, and say so: `gh` answers from a file of deployments, and
`pulumi` records the stack. `Repository.run` stands in for GitHub's engine: it starts the jobs of a matrix one by one,
and records a deployment for each job that names an environment.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.paths import ROOT

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not (shutil.which("jq") and shutil.which("bash")), reason="needs bash and jq"),
]

EVENING, LATER, NIGHT = "2026-11-30T19:07Z", "2026-11-30T20:07Z", "2026-11-30T23:07Z"
"""20:07 and 21:07 in Berlin, 14:07 and 15:07 in New York; and after business hours in both."""
MORNING = "2026-12-01T09:00Z"

EBBTIDE = f"""#!{sys.executable}
# The real command at the time that the file `clock` holds.
from datetime import datetime
from pathlib import Path
import ebbtide.cli.changed
from ebbtide.cli.__main__ import main
class Clock(datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.fromisoformat(Path("clock").read_text())
ebbtide.cli.changed.datetime = Clock
main()
"""
GH = f"""#!{sys.executable}
# A stand-in for gh: it answers a query of deployments from the file `deployments`, newest first.
import json, re, sys
from pathlib import Path
print("stand-in for gh", file=sys.stderr)
if Path("outage").exists():
    sys.exit("gh: HTTP 502")
query = next(word for word in sys.argv if word.startswith("query="))
known = json.loads(Path("deployments").read_text())[::-1]
asked = re.findall(r'(s\\d+): deployments\\(environments: \\["([^"]+)"\\]', query)
nodes = lambda name: [item["node"] for item in known if item["environment"] == name]
answer = {{alias: {{"nodes": nodes(name)}} for alias, name in asked}}
print(json.dumps({{"data": {{"repository": answer}}}}))
"""
PULUMI = """#!/usr/bin/env bash
# A stand-in for pulumi: it notes the stack, and fails if the file `broken-<stack>` exists.
echo "stand-in for pulumi: $*"
echo "$3" >> ups
[ ! -e "broken-$3" ]
"""


def workflow() -> dict[str, Any]:
    return yaml.safe_load((ROOT / ".github" / "workflows" / "up.yml").read_text())


def stack_file(wave: str, timezone: str = "Europe/Berlin", image: str = "train:1") -> str:
    return f"""config:
  ebbtide:customer: acme
  ebbtide:businessHours: {{ timezone: {timezone}, week: {{ mon-fri: "08:00-18:00" }} }}
  ebbtide:rollout: {{ wave: {wave} }}
  ebbtide:workers:
    train: {{ source: {{ queues: [train] }}, image: "{image}", max: 2, cpu: 1, memory: 1Gi, longestJob: 1h }}
"""


@dataclass
class Run:
    results: dict[str, str] = field(default_factory=dict)  # of each job, as GitHub names them
    waves: dict[str, list[str]] = field(default_factory=dict)  # the matrices
    printed: str = ""
    summary: str = ""


class Repository:
    def __init__(self) -> None:
        self.stacks: list[str] = []
        for name, text in {".venv/bin/ebbtide": EBBTIDE, "bin/gh": GH, "bin/pulumi": PULUMI}.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(text)
            Path(name).chmod(0o755)
        Path(".gitignore").write_text("/*\n!/stacks\n")
        Path("stacks").mkdir()
        Path("Pulumi.yaml").touch()
        Path("deployments").write_text("[]")
        git("init", "--quiet", "--initial-branch=main")

    def write(self, stack: str, text: str) -> None:
        self.stacks = sorted({*self.stacks, stack})
        Path(f"stacks/Pulumi.{stack}.yaml").write_text(text)

    def commit(self) -> str:
        git("add", "--all")
        git("commit", "--quiet", "--message=change")
        return git("rev-parse", "HEAD")

    @property
    def ups(self) -> list[str]:
        """The stacks that Pulumi brought up, or tried to, since this was last read."""
        notes = Path("ups")
        lines = notes.read_text().splitlines() if notes.exists() else []
        notes.unlink(missing_ok=True)
        return lines

    def run(
        self,
        clock: str,
        event: str = "schedule",
        *,
        inputs: Mapping[str, Any] | None = None,
        before: Mapping[str, Callable[[], object]] | None = None,
        up: str = "",
        plan_only: bool = False,
    ) -> Run:
        """A run of the workflow for HEAD. `before`: what happens before a wave begins."""
        Path("clock").write_text(clock.replace("Z", "+00:00"))
        given, happened, sha, run = inputs or {}, dict(before or {}), git("rev-parse", "HEAD"), Run()
        environment = {
            "PATH": f"{Path('bin').resolve()}:{os.environ['PATH']}",
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_EVENT_NAME": event,
            "GITHUB_ACTOR": "kim",
            "GITHUB_SHA": sha,
            "GITHUB_OUTPUT": "output",
            "GITHUB_STEP_SUMMARY": "summary",
            "PULUMI_BACKEND_URL": "s3://state",
        }
        planned = {
            "STACK": given.get("stack", ""),
            "DURING_BUSINESS_HOURS": str(given.get("duringBusinessHours", "")).lower(),
            "REASON": given.get("reason", ""),
            "UP": up or json.dumps(self.stacks),
        }
        for name in ("output", "summary"):
            Path(name).unlink(missing_ok=True)
        for name, job in list(workflow()["jobs"].items())[: 1 if plan_only else None]:
            if name == "plan":
                run.results[name] = self._job(job, environment | planned, given, run)
                lines = Path("output").read_text().splitlines() if Path("output").exists() else []
                run.waves = {key: json.loads(value) for key, value in (line.split("=", 1) for line in lines)}
                run.summary = Path("summary").read_text() if Path("summary").exists() else ""
                continue
            if not starts(job, run):
                run.results[name] = "skipped"
                continue
            happened.pop(name, lambda: None)()
            results = {self._deploy(stack, sha, job, environment, given, run) for stack in run.waves[name]}
            run.results[name] = "success" if results == {"success"} else "failure"
        return run

    def plan(self, clock: str, event: str = "schedule", **options: Any) -> Run:
        """The first job of a run alone."""
        return self.run(clock, event, plan_only=True, **options)

    def _deploy(
        self, stack: str, sha: str, job: Any, environment: Mapping[str, str], given: Mapping[str, Any], run: Run
    ) -> str:
        result = self._job(job, {**environment, "STACK": stack}, given, run)
        at = Path("clock").read_text()
        states = ["WAITING", "IN_PROGRESS", result.upper()]
        self.record(stack, sha, *states, at=at)
        return result

    def record(self, stack: str, commit: str, *states: str, at: str) -> None:
        nodes = [{"state": state, "createdAt": at} for state in states]
        item = {"environment": stack, "node": {"commitOid": commit, "statuses": {"nodes": nodes}}}
        Path("deployments").write_text(json.dumps([*json.loads(Path("deployments").read_text()), item]))

    def _job(self, job: Any, environment: Mapping[str, str], given: Mapping[str, Any], run: Run) -> str:
        for step in job["steps"]:
            text = step.get("run", "make setup")
            if text == "make setup" or (
                step.get("if") == "!inputs.duringBusinessHours" and given.get("duringBusinessHours")
            ):
                continue
            bash = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text]
            done = subprocess.run(bash, env=environment, check=False, capture_output=True, text=True)
            run.printed += done.stdout + done.stderr
            if done.returncode:
                return "failure"
        return "success"


def starts(job: Any, run: Run) -> bool:
    """The `if` of a wave, in the few words of GitHub's expressions that it uses."""
    text = job["if"].replace("!cancelled()", "True").replace("&&", "and").replace("||", "or")
    text = re.sub(r"needs\.(\w+)\.result", lambda part: repr(run.results[part[1]]), text)
    matrix: Callable[[re.Match[str]], str] = lambda part: repr(json.dumps(run.waves.get(part[1], "")))  # noqa: E731
    text = re.sub(r"needs\.plan\.outputs\.(\w+)", matrix, text)
    needs = [job["needs"]] if isinstance(job["needs"], str) else job["needs"]
    implied = "!cancelled()" in job["if"] or all(run.results[need] == "success" for need in needs)
    return implied and bool(eval(text))


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    for kind in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{kind}_NAME", "a")
        monkeypatch.setenv(f"GIT_{kind}_EMAIL", "a@example.com")
    made = Repository()
    made.write("acme", stack_file("canary"))
    made.write("beta", stack_file("early"))
    made.write("york", stack_file("early", "America/New_York"))
    made.write("demo", stack_file("rest"))
    made.commit()
    return made


def test_a_failed_and_a_deferred_customer_hold_the_next_wave_and_later_runs_go_on(repository: Repository) -> None:
    Path("broken-beta").touch()

    first = repository.run(EVENING, "push")

    assert first.waves == {"canary": ["acme"], "early": ["beta"], "rest": []}
    assert first.results == {"plan": "success", "canary": "success", "early": "failure", "rest": "skipped"}
    assert "- early: york is deferred: business hours until Mon 2026-11-30 18:00 EST\n" in first.summary
    assert "- rest: held by an earlier wave: demo\n" in first.summary
    assert repository.ups == ["acme", "beta"]

    waiting = repository.run(LATER)

    assert set(waiting.results.values()) == {"success", "skipped"}
    assert "- early: beta failed: it waits for a commit that changes it, or for Run workflow\n" in waiting.summary

    after_hours = repository.run(NIGHT)

    assert after_hours.waves == {"canary": [], "early": ["york"], "rest": []}
    assert repository.ups == ["york"]

    Path("broken-beta").unlink()
    repository.write("beta", stack_file("early", image="train:2"))
    repository.commit()
    fixed = repository.run(NIGHT, "push")

    assert fixed.waves == {"canary": [], "early": ["beta"], "rest": ["demo"]}
    assert repository.ups == ["beta", "demo"]
    assert "nothing is left to bring up" in repository.plan(NIGHT).summary


def test_a_person_retries_what_failed(repository: Repository) -> None:
    Path("broken-acme").touch()
    repository.run(NIGHT, "push", up='["acme"]')
    Path("broken-acme").unlink()

    assert repository.plan(NIGHT).waves == {"canary": [], "early": [], "rest": []}
    assert repository.plan(NIGHT, "workflow_dispatch").waves == {
        "canary": ["acme"],
        "early": ["beta", "york"],
        "rest": ["demo"],
    }


def test_a_commit_that_comes_during_a_wave_starts_again_with_canary(repository: Repository) -> None:
    def release() -> None:
        for stack, wave in {"acme": "canary", "demo": "rest"}.items():
            repository.write(stack, stack_file(wave, image="train:2"))
        repository.commit()

    overtaken = repository.run(NIGHT, "push", before={"rest": release}, up='["acme", "demo"]')

    assert overtaken.results == {"plan": "success", "canary": "success", "early": "skipped", "rest": "failure"}
    assert "demo::left to the run of a newer commit on main" in overtaken.printed
    assert repository.ups == ["acme"]
    assert repository.plan(NIGHT, up='["acme", "demo"]').waves == {"canary": ["acme"], "early": [], "rest": ["demo"]}


def test_a_stack_whose_reviewers_approve_in_its_business_hours_is_deferred_and_brought_up_later(
    repository: Repository,
) -> None:
    def approved_in_the_morning() -> None:
        Path("clock").write_text(MORNING.replace("Z", "+00:00"))

    run = repository.run(NIGHT, "push", before={"canary": approved_in_the_morning}, up='["acme", "demo"]')

    assert run.results == {"plan": "success", "canary": "failure", "early": "skipped", "rest": "skipped"}
    assert "acme::deferred: in business hours until 2026-12-01T18:00:00+01:00" in run.printed
    assert repository.ups == []
    assert repository.plan("2026-12-01T23:07Z").waves["canary"] == ["acme"]


def test_what_a_cancelled_run_left_behind_does_not_count_as_live(repository: Repository) -> None:
    commit = git("rev-parse", "HEAD")
    repository.record("acme", commit, "WAITING", "IN_PROGRESS", at=EVENING)
    repository.record("beta", commit, "IN_PROGRESS", "SUCCESS", "INACTIVE", at=EVENING)
    repository.record("beta", commit, "WAITING", at=LATER)

    assert repository.plan(NIGHT, "push").waves == {"canary": ["acme"], "early": ["york"], "rest": ["demo"]}


def test_a_live_commit_that_was_pushed_away_is_brought_up_again(repository: Repository) -> None:
    repository.record("acme", "0123456789" * 4, "SUCCESS", at=EVENING)

    assert repository.plan(NIGHT, "push").waves["canary"] == ["acme"]


def test_a_removed_stack_holds_nobody(repository: Repository) -> None:
    Path("stacks/Pulumi.acme.yaml").unlink()
    repository.commit()

    assert repository.plan(NIGHT, "push").waves == {"canary": [], "early": ["beta", "york"], "rest": ["demo"]}


def test_nothing_is_brought_up_while_github_does_not_answer(repository: Repository) -> None:
    Path("outage").touch()

    run = repository.run(NIGHT, "push")

    assert (run.results["plan"], run.waves, repository.ups) == ("failure", {}, [])
    assert set(run.results.values()) == {"failure", "skipped"}


def test_business_hours_are_ignored_for_a_reason_alone(repository: Repository) -> None:
    inputs = {"duringBusinessHours": True, "reason": " "}

    refused = repository.run(MORNING, "workflow_dispatch", inputs=inputs)

    assert (refused.results["plan"], repository.ups) == ("failure", [])
    assert "duringBusinessHours: wanted a reason" in refused.printed

    inputs["reason"] = "fix of `x`; $(touch hacked)"
    run = repository.run(MORNING, "workflow_dispatch", inputs=inputs, up='["acme"]')

    assert (run.results["canary"], repository.ups) == ("success", ["acme"])
    assert run.summary.startswith("Business hours are ignored (kim): fix of `x`; $(touch hacked)\n")
    assert not Path("hacked").exists()


def test_a_named_stack_waits_for_no_wave_but_for_the_end_of_its_business_hours(repository: Repository) -> None:
    by_name: dict[str, Any] = {"event": "workflow_dispatch", "inputs": {"stack": "demo"}}

    assert repository.plan(NIGHT, **by_name).waves == {"canary": [], "early": [], "rest": ["demo"]}
    assert repository.plan(MORNING, **by_name).results["plan"] == "failure"


@pytest.mark.parametrize("stack", ["dem", "$(touch hacked)", '" or true', "acme demo", "york"])
def test_a_stack_that_does_not_exist_or_is_not_named_updates_nothing(repository: Repository, stack: str) -> None:
    run = repository.plan(NIGHT, "workflow_dispatch", inputs={"stack": stack}, up='["acme", "demo"]')

    assert (run.results["plan"], run.waves) == ("failure", {})
    assert f"stack {stack}: wanted a stack that has a file and that EBBTIDE_UP names" in run.printed
    assert not Path("hacked").exists()


@pytest.mark.parametrize("up", ["acme", '{"acme": {}', '"acme"', "null"])
def test_a_variable_that_is_no_list_of_stacks_updates_nothing(repository: Repository, up: str) -> None:
    run = repository.plan(NIGHT, "push", up=up)

    assert (run.results["plan"], run.waves) == ("failure", {})
    assert 'EBBTIDE_UP: wanted a JSON list of stacks (for example ["acme"])' in run.printed


@pytest.mark.parametrize(("up", "canary"), [('["acme", "gone"]', ["acme"]), ("[]", [])])
def test_an_update_concerns_no_stack_that_the_repository_does_not_name(
    repository: Repository, up: str, canary: list[str]
) -> None:
    """Before the matrix: a job that names an environment creates it, without reviewers."""
    run = repository.plan(NIGHT, "push", up=up)

    assert run.waves == {"canary": canary, "early": [], "rest": []}
    assert "not brought up, since EBBTIDE_UP does not name them: " in run.printed
    assert "demo" in run.printed
