"""The workflows' own scripts, run as GitHub runs them, with a stand-in for `ebbtide` that notes what it is asked."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.paths import ROOT

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not (shutil.which("jq") and shutil.which("bash")), reason="needs bash and jq"),
]

STAND_IN = """#!/usr/bin/env bash
printf '%s\\n' "$*" >> asked
[ ! -e "$1.out" ] || cat "$1.out"
exit "$(cat "$1.status" 2>/dev/null || echo 0)"
"""


@dataclass(frozen=True)
class Ran:
    status: int
    outputs: dict[str, str]  # what the step set
    asked: list[str]  # what `ebbtide` was asked
    printed: str = field(default="", compare=False)


def steps_of(workflow: str, job: str) -> list[str]:
    """The scripts of a job; "" for a step that runs an action."""
    read: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / f"{workflow}.yml").read_text())
    return [step.get("run", "") for step in read["jobs"][job]["steps"]]


def script(workflow: str, job: str, command: str) -> str:
    [found] = [text for text in steps_of(workflow, job) if f"ebbtide {command}" in text]
    return found


def run(text: str, environment: Mapping[str, str]) -> Ran:
    """In the current folder, with the options that GitHub gives to `shell: bash`."""
    stand_in = Path(".venv/bin/ebbtide")
    stand_in.parent.mkdir(parents=True)
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o755)
    surroundings = {"PATH": os.environ["PATH"], "GITHUB_OUTPUT": "output", "GITHUB_BASE_REF": "main", **environment}
    bash = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text]
    done = subprocess.run(bash, env=surroundings, check=False, capture_output=True)
    lines = Path("output").read_text().splitlines() if Path("output").exists() else []
    asked = Path("asked").read_text().splitlines() if Path("asked").exists() else []
    printed = (done.stdout + done.stderr).decode()
    return Ran(done.returncode, dict(line.split("=", 1) for line in lines), asked, printed)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_what_changed_and_what_is_gone_are_asked_for_in_the_same_way() -> None:
    Path("changed.out").write_text('["acme"]')

    ran = run(script("preview", "changed", "changed"), {})

    assert ran.asked == ["changed --against origin/main...", "changed --against origin/main... --gone"]
    assert ran.outputs == {"stacks": '["acme"]', "gone": '["acme"]'}


def preview(stacks: list[str], gone: Sequence[str] = (), trace: str = "") -> Ran:
    given = {"STACKS": json.dumps(stacks), "GONE": json.dumps(gone), "TRACE": trace}
    return run(script("preview", "preview", "preview"), given)


def test_a_preview_is_asked_for_the_changed_stacks_with_the_plans_there_are() -> None:
    Path("preview.out").write_text("**safe**")
    Path("plans").mkdir()
    Path("plans/acme.json").touch()

    ran = preview(["acme", "demo"])

    assert (ran.status, ran.outputs) == (0, {"written": "true", "status": "0"})
    assert ran.asked == ["preview --format markdown --against origin/main... --plan plans/acme.json -- acme demo"]
    assert Path("preview.md").read_text() == "**safe**"


def test_a_preview_replays_the_trace_that_the_repository_names() -> None:
    Path("preview.out").write_text("**safe**")

    ran = preview(["acme"], trace="jobs of march.csv")

    assert ran.asked == ["preview --format markdown --against origin/main... --trace jobs of march.csv -- acme"]


def test_a_blocked_preview_is_handed_on_before_the_job_fails() -> None:
    Path("preview.out").write_text("**blocked**")
    Path("preview.status").write_text("1")

    assert preview(["acme"]) == Ran(
        0,
        {"written": "true", "status": "1"},
        ["preview --format markdown --against origin/main... -- acme"],
    )


def test_a_preview_that_says_nothing_fails_the_step() -> None:
    Path("preview.status").write_text("2")

    ran = preview(["acme"])

    assert (ran.status, ran.outputs) == (2, {})


def test_a_change_without_stacks_says_so() -> None:
    ran = preview([])

    assert (ran.asked, ran.outputs["written"]) == ([], "true")
    assert Path("preview.md").read_text() == "This pull request changes no stack.\n"


@pytest.mark.parametrize("stacks", [[], ["acme"]])
def test_a_stack_whose_file_is_gone_is_named(stacks: list[str]) -> None:
    Path("preview.out").write_text("**safe**\n")

    ran = preview(stacks, gone=["old"])

    assert (ran.status, ran.outputs["written"], len(ran.asked)) == (0, "true", len(stacks))
    assert Path("preview.md").read_text().splitlines()[-1].startswith("**Stack old**: its file is gone.")


GH = """#!/usr/bin/env bash
# Notes what would be written; a list of comments comes from the file `comments`, through the caller's own filter.
if [ "$2" = --paginate ]; then jq --raw-output "$5" comments; else echo "$3 $4 $(jq -r .body "$6")" >> written; fi
"""
BOT = "github-actions[bot]"
MARKED = "<!-- ebbtide:preview -->\r\nold"


def commented(both: str, *comments: tuple[int, str, str]) -> list[str]:
    """What is written where there are these comments: number, author, text."""
    for folder in ("bin", "preview"):
        Path(folder).mkdir()
    Path("bin/gh").write_text(GH)
    Path("bin/gh").chmod(0o755)
    Path("preview/comment.md").write_text("**safe**")
    Path("comments").write_text(json.dumps([{"id": n, "user": {"login": who}, "body": b} for n, who, b in comments]))
    given = {
        "PATH": f"{Path('bin').resolve()}:{os.environ['PATH']}",
        "GITHUB_REPOSITORY": "acme/platform",
        "GITHUB_SERVER_URL": "https://github.com",
        "PR": "7",
        "BOTH": both,
    }
    [text] = [text for text in steps_of("preview", "comment") if "gh api" in text]

    assert run(text, given).status == 0
    return Path("written").read_text().splitlines() if Path("written").exists() else []


@pytest.mark.parametrize(("both", "created"), [('["acme"][]', 1), ('[]["old"]', 1), ("[][]", 0)])
def test_a_comment_is_created_only_where_a_stack_is_changed(both: str, created: int) -> None:
    assert commented(both) == ["POST repos/acme/platform/issues/7/comments **safe**"] * created


@pytest.mark.parametrize("both", ['["acme"][]', "[][]"])
def test_the_first_comment_of_ours_is_edited_and_nobody_elses(both: str) -> None:
    comments = [
        (1, "mallory", MARKED),
        (2, BOT, "no marker\n<!-- ebbtide:preview -->"),
        (3, BOT, MARKED),
        (4, BOT, MARKED),
    ]

    assert commented(both, *comments) == ["PATCH repos/acme/platform/issues/comments/3 **safe**"]


def test_the_nightly_check_looks_at_the_stacks_that_it_may_read() -> None:
    Path("changed.out").write_text('["acme", "demo"]')

    ran = run(script("drift", "stacks", "changed"), {"READ": '{"demo": {"backend": "s3://state"}, "gone": {}}'})

    assert ran.outputs == {"stacks": '["demo"]'}


def on_path(monkeypatch: pytest.MonkeyPatch, **programs: str) -> None:
    """Stand-ins that note what they are asked, too, and then run a script of their own."""
    Path("bin").mkdir()
    for name, more in programs.items():
        Path(f"bin/{name}").write_text(f'#!/bin/sh\necho "{name} $*" >> asked\n{more}\n')
        Path(f"bin/{name}").chmod(0o755)
    monkeypatch.setenv("PATH", f"{Path.cwd()}/bin:{os.environ['PATH']}")


def test_the_engines_tier_gets_the_provider_that_the_lock_names(monkeypatch: pytest.MonkeyPatch) -> None:
    [text] = [step for step in steps_of("ci", "tier") if "pulumi plugin install" in step]
    on_path(monkeypatch, pulumi="")
    Path("tools/locks").mkdir(parents=True)
    shutil.copy(ROOT / "tools/locks/dev.txt", "tools/locks")

    ran = run(text, {"GITHUB_PATH": "path", "HOME": "/home/runner"})

    version = metadata.version("pulumi-kubernetes")
    assert (ran.status, ran.asked) == (0, [f"pulumi plugin install resource kubernetes {version}"])
    assert Path("path").read_text() == f"/home/runner/.pulumi/plugins/resource-kubernetes-v{version}\n"


@pytest.mark.parametrize(("open_ones", "made"), [(1, False), (0, True)])
def test_new_dependencies_are_proposed_in_one_pull_request(
    open_ones: int, made: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    [text] = [step for step in steps_of("dependencies", "propose") if step]
    on_path(monkeypatch, git='[ "$1" != diff ]', gh=f'[ "$2" != list ] || echo {open_ones}')

    ran = run(text, {"BRANCH": "dependencies/locks"})

    assert ran.status == 0
    assert "git push --force origin dependencies/locks" in ran.asked
    assert any(line.startswith("gh pr create") for line in ran.asked) is made


def test_locks_that_did_not_change_are_not_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    [text] = [step for step in steps_of("dependencies", "propose") if step]
    on_path(monkeypatch, git="")

    ran = run(text, {"BRANCH": "dependencies/locks"})

    assert (ran.status, ran.asked) == (0, ["git diff --quiet -- tools/locks"])


@pytest.mark.parametrize(
    ("bill", "more"), [("", []), ("s3://bills/cur/data", ["s3 cp", "--bill bill"])], ids=["no bill", "a bill"]
)
def test_a_ledger_is_read_with_the_bill_of_its_month(
    bill: str, more: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(monkeypatch, aws="")

    ran = run(
        script("ledger", "read", "ledger"), {"STACK": "acme", "CLUSTER": "acme", "BILL": bill, "MONTH": "2026-11"}
    )

    asked = "\n".join(ran.asked)
    assert ran.status == 0
    assert "aws eks update-kubeconfig --name acme" in asked
    assert "ledger acme --month 2026-11 --write" in asked
    assert all(part in asked for part in more)
    assert ("BILLING_PERIOD=2026-11/" in asked) is bool(more)


@pytest.mark.parametrize("changed", [True, False])
def test_ledgers_are_proposed_in_one_pull_request_if_one_is_new(changed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each artifact holds all ledgers of the checkout; only those of its own stack count."""
    [text] = [step for step in steps_of("ledger", "propose") if step]
    for stack in ("acme", "demo"):
        folder = Path(f"ledgers/ledger-{stack}/{stack}")
        folder.mkdir(parents=True)
        (folder / "2026-11.json").write_text(stack)
    old = Path("ledgers/ledger-demo/acme/2026-11.json")
    old.parent.mkdir()
    old.write_text("older")
    on_path(monkeypatch, git='[ "$1" != diff ]' if changed else "", gh='[ "$2" != list ] || echo 0')

    ran = run(text, {"BRANCH": "ledger/months"})

    assert ran.status == 0
    assert ("git push --force origin ledger/months" in ran.asked) is changed
    assert Path("stacks/ledger/acme/2026-11.json").read_text() == "acme"


def idle_report(monkeypatch: pytest.MonkeyPatch, issues: str, *findings: Mapping[str, object], unread: str = "") -> Ran:
    """The report of two stacks, of which the second could not be read."""
    [text] = [step for step in steps_of("idle", "report") if step]
    Path("idle").mkdir()
    document = {"stack": "acme", "findings": findings, "unread": [unread] if unread else []}
    Path("idle/acme.json").write_text(json.dumps(document))
    on_path(monkeypatch, gh=f"[ \"$2\" != list ] || echo '{issues}'")
    stacks = json.dumps([{"stack": "acme"}, {"stack": "demo"}])
    return run(text, {"STACKS": stacks, "TITLE": "Unused", "RUN": "https://ci/1", "GITHUB_STEP_SUMMARY": "summary"})


IDLE: Mapping[str, object] = {
    "kind": "volume",
    "name": "old|`0`",
    "evidence": "100 GiB gp3",
    "usd": 8.8,
    "since": "2026-08-01T00:00:00Z",
    "owner": "@acme/search",
    "expires": None,
}


def test_idle_things_are_reported_with_their_owners_and_the_stack_that_was_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran = idle_report(
        monkeypatch, "[]", IDLE, {**IDLE, "usd": None, "since": None, "owner": ""}, unread="load | balancers"
    )

    lines = Path("body.md").read_text().splitlines()
    assert ran.status == 0, ran.printed
    assert "| @acme/search | volume | `old 0 ` | $9 | 2026-08-01 |  | `100 GiB gp3` |" in lines
    assert "|  | volume | `old 0 ` | ? |  |  | `100 GiB gp3` |" in lines
    assert "- not known: `load balancers`" in lines
    assert lines[lines.index("## demo") + 2] == "It could not be read."
    assert Path("summary").read_text() in Path("body.md").read_text()


OPEN = '[{"number": 3, "title": "Other"}, {"number": 7, "title": "Unused"}, {"number": 9, "title": "Unused"}]'


@pytest.mark.parametrize(
    ("issues", "findings", "asked"),
    [
        ("[]", [IDLE], ["gh issue create --title Unused --body-file body.md"]),
        ("[]", [], []),
        (OPEN, [IDLE], ["gh issue edit 7 --body-file body.md"]),
        (OPEN, [], ["gh issue edit 7 --body-file body.md"]),
    ],
    ids=["first", "nothing to say", "again", "nothing left"],
)
def test_the_weekly_report_is_one_issue_that_is_edited(
    issues: str, findings: list[Mapping[str, object]], asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = idle_report(monkeypatch, issues, *findings)

    assert ran.status == 0, ran.printed
    assert [line for line in ran.asked if "issue list" not in line] == asked


def test_idle_things_are_read_with_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    on_path(monkeypatch, aws="")

    ran = run(script("idle", "read", "idle"), {"STACK": "acme", "CLUSTER": "acme"})

    assert ran.status == 0
    assert ran.asked[-1] == "idle acme --aws --context acme --json acme.json"
