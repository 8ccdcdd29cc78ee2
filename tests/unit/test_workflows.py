"""The workflows keep the rules that a linter of their syntax does not know: who runs with which rights, how long.

Sources: GitHub's pages "Secure use reference" and "Securely using pull_request_target"; docs/how-to/pull-requests.md.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ebbtide.cli.__main__ import COMMANDS
from ebbtide.settings.sections.rollout import Wave
from tests.paths import ROOT

FILES = sorted((ROOT / ".github" / "workflows").glob("*.y*ml"))
ALL = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
SETUP_LOCK = ROOT / "tools" / "locks" / "dev.txt"


def workflow(file: Path) -> dict[str, Any]:
    """YAML reads the key `on` as true."""
    read: dict[Any, Any] = yaml.safe_load(file.read_text())
    return {"on" if key is True else str(key): value for key, value in read.items()}


def named(name: str) -> dict[str, Any]:
    return workflow(ROOT / ".github" / "workflows" / f"{name}.yml")


def jobs(file: Path) -> dict[str, dict[str, Any]]:
    return workflow(file)["jobs"]


def steps(file: Path) -> Iterator[dict[str, Any]]:
    for job in jobs(file).values():
        yield from job["steps"]


def scripts(file: Path) -> Iterator[str]:
    yield from (step["run"] for step in steps(file) if "run" in step)


def rights(permissions: dict[str, str]) -> set[str]:
    return {f"{scope}: {right}" for scope, right in permissions.items()}


def test_there_is_a_workflow_for_each_part_of_a_change() -> None:
    assert {"ci", "preview", "up", "drift", "ledger", "idle", "release", "dependencies"} <= {
        file.stem for file in FILES
    }


@ALL
def test_none_hands_rights_to_the_code_of_a_fork(file: Path) -> None:
    triggers = workflow(file)["on"]

    assert not set(triggers) & {"pull_request_target", "workflow_run", "issue_comment"}


@ALL
def test_every_workflow_starts_with_the_right_to_read_alone(file: Path) -> None:
    assert rights(workflow(file)["permissions"]) == {"contents: read"}


@ALL
def test_what_is_run_holds_no_expression(file: Path) -> None:
    """The title of a pull request, put into a script, is a script."""
    assert [script for script in scripts(file) if "${{" in script] == []


@pytest.mark.process
@ALL
def test_every_script_is_sound_bash(file: Path) -> None:
    for script in scripts(file):
        subprocess.run(["bash", "-n"], input=script, text=True, check=True, capture_output=True)


@ALL
def test_a_script_stops_when_any_part_of_a_pipe_fails(file: Path) -> None:
    """GitHub runs `shell: bash` with pipefail, and a shell that is not named without."""
    assert workflow(file)["defaults"] == {"run": {"shell": "bash"}}


@ALL
def test_every_job_has_an_end(file: Path) -> None:
    assert all(0 < job["timeout-minutes"] < 360 for job in jobs(file).values())


@ALL
def test_every_action_is_named_by_its_commit_and_its_version_stands_beside(file: Path) -> None:
    used = re.findall(r"uses: (.*)", file.read_text())

    assert used
    assert [line for line in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)] == []


def test_an_action_has_one_commit_in_all_workflows() -> None:
    used = {line for file in FILES for line in re.findall(r"uses: (.*)", file.read_text())}

    assert len(used) == len({line.partition("@")[0] for line in used})


@ALL
def test_a_checkout_leaves_no_token_behind(file: Path) -> None:
    checkouts = [step for step in steps(file) if step.get("uses", "").startswith("actions/checkout@")]

    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


@ALL
def test_a_job_with_more_rights_than_to_read_runs_no_code_of_a_pull_request(file: Path) -> None:
    if "pull_request" not in workflow(file)["on"]:
        return
    for name, job in jobs(file).items():
        more = rights(job.get("permissions", {})) - {"contents: read"}
        if not more:
            continue
        assert "github.event.pull_request.head.repo.full_name == github.repository" in job["if"], name
        if more != {"id-token: write"}:  # a role that reads; what writes runs nothing of the repository
            used = [step["uses"].partition("@")[0] for step in job["steps"] if "uses" in step]
            assert used == ["actions/download-artifact"], name


@pytest.mark.parametrize(
    ("name", "job", "more"),
    [
        ("preview", "plan", {"id-token: write"}),
        ("up", "plan", {"deployments: read"}),
        *(("up", wave, {"id-token: write"}) for wave in Wave),
        ("drift", "drift", {"id-token: write"}),
        ("ledger", "read", {"id-token: write"}),
        ("idle", "read", {"id-token: write"}),
    ],
)
def test_a_job_has_the_rights_that_its_work_needs(name: str, job: str, more: set[str]) -> None:
    assert rights(named(name)["jobs"][job]["permissions"]) == {"contents: read", *more}


def test_what_comments_may_do_nothing_else() -> None:
    assert rights(named("preview")["jobs"]["comment"]["permissions"]) == {"pull-requests: write"}


def test_no_other_job_of_a_change_has_rights_of_its_own() -> None:
    names = ("ci", "preview", "up", "drift", "ledger", "idle", "dependencies")
    own = {f"{name}.{job}" for name in names for job, it in named(name)["jobs"].items() if "permissions" in it}

    waves = {f"up.{wave}" for wave in Wave}
    reading = {"preview.plan", "up.plan", "drift.drift", "ledger.read", "idle.read"}
    writing = {"preview.comment", "dependencies.propose", "ledger.propose", "idle.report"}
    assert own == {*waves, *reading, *writing}


def test_what_proposes_new_dependencies_runs_none_of_them() -> None:
    """Building a package may run its code, which must not meet a token that writes."""
    propose = named("dependencies")["jobs"]["propose"]
    text = "\n".join(step.get("run", "") for step in propose["steps"])

    assert propose["needs"] == "lock"
    assert rights(propose["permissions"]) == {"contents: write", "pull-requests: write"}
    assert not re.search(r"\b(make|pip|uv|python)\b", text.replace("`make lock LOCK=--upgrade`", ""))


def test_what_proposes_ledgers_runs_nothing_of_the_repository() -> None:
    propose = named("ledger")["jobs"]["propose"]

    assert rights(propose["permissions"]) == {"contents: write", "pull-requests: write"}
    assert not any(re.search(r"\b(make|python|\.venv)\b", step.get("run", "")) for step in propose["steps"])


def test_what_reports_idle_things_writes_issues_alone_and_runs_nothing_of_the_repository() -> None:
    report = named("idle")["jobs"]["report"]

    assert rights(report["permissions"]) == {"issues: write"}
    assert [step["uses"].partition("@")[0] for step in report["steps"] if "uses" in step] == [
        "actions/download-artifact"
    ]


def test_one_check_stands_for_all_tiers() -> None:
    """A branch's protection names it. A job that is skipped would count as passed, so this one always runs."""
    gate = named("ci")["jobs"]["everything"]

    assert (gate["needs"], gate["if"]) == ("tier", "always()")
    assert gate["env"] == {"TIERS": "${{ needs.tier.result }}"}
    assert gate["steps"] == [{"run": 'test "$TIERS" = success'}]


def test_the_tiers_with_an_engine_have_the_pulumi_cli() -> None:
    """The tier `long` runs the engine's big counts, and `aws-engine` the real provider on it."""
    [step] = [step for step in named("ci")["jobs"]["tier"]["steps"] if "pulumi/actions" in step.get("uses", "")]

    assert step["if"] == """contains(fromJSON('["aws-engine", "engine", "long"]'), matrix.tier)"""


def test_a_newer_preview_ends_the_older_one_of_its_pull_request() -> None:
    concurrency = named("preview")["concurrency"]

    assert concurrency == {"group": "preview-${{ github.event.pull_request.number }}", "cancel-in-progress": True}


@pytest.mark.parametrize("wave", Wave)
def test_an_update_is_never_cut_short_and_touches_few_stacks_at_a_time(wave: Wave) -> None:
    up = named("up")["jobs"][wave]

    assert named("up")["concurrency"]["cancel-in-progress"] is False
    assert up["concurrency"] == {"group": "up-${{ matrix.stack }}", "cancel-in-progress": False}
    assert (up["strategy"]["max-parallel"], up["strategy"]["fail-fast"]) == (5, False)
    assert up["environment"] == "${{ matrix.stack }}"


def test_the_waves_of_the_workflow_are_those_of_the_stack_files_and_differ_by_their_turn_alone() -> None:
    plan, *waves = named("up")["jobs"].items()

    assert [name for name, _ in waves] == list(Wave)
    assert list(plan[1]["outputs"]) == list(Wave)
    assert all(
        job["strategy"]["matrix"] == {"stack": f"${{{{ fromJSON(needs.plan.outputs.{name}) }}}}"} for name, job in waves
    )
    parts = [{key: job[key] for key in job if key not in ("needs", "if", "strategy")} for _, job in waves]
    assert parts == parts[:1] * 3


@pytest.mark.parametrize("file", [file for file in FILES if file.stem != "up"], ids=lambda file: file.stem)
def test_nothing_but_up_changes_a_stack(file: Path) -> None:
    changing = re.compile(
        r"pulumi (up|update|destroy|import|cancel|state|config set)|pulumi refresh(?!.*--preview-only)"
    )

    assert not any(changing.search(script) for script in scripts(file))


def test_up_refreshes_and_never_skips_the_preview() -> None:
    [script] = {s for s in scripts(ROOT / ".github" / "workflows" / "up.yml") if "pulumi up" in s}

    assert "--refresh" in script
    assert "--skip-preview" not in script


def test_the_pulumi_cli_is_the_one_that_the_program_is_locked_to() -> None:
    [locked] = re.findall(r"^pulumi==([\d.]+)", SETUP_LOCK.read_text(), re.MULTILINE)
    installed = [step["with"] for file in FILES for step in steps(file) if "pulumi/actions" in step.get("uses", "")]

    assert installed == [{"pulumi-version": locked}] * 6


@ALL
def test_every_command_of_ours_that_is_run_exists(file: Path) -> None:
    assert {name for script in scripts(file) for name in re.findall(r"bin/ebbtide (\w+)", script)} <= set(COMMANDS)


def test_an_update_is_judged_by_the_policies_before_anything_is_touched() -> None:
    """Policies on a whole stack are asked when a run has ended: without its preview that is too late."""
    (update,) = {script for script in scripts(ROOT / ".github" / "workflows" / "up.yml") if "pulumi up" in script}

    _, _, pack = update.partition("--policy-pack ")
    assert (ROOT / pack.split()[0] / "PulumiPolicy.yaml").is_file()
    assert "--skip-preview" not in update
