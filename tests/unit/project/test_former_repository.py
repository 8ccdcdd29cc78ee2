"""A repository that a former `ebbtide init` wrote works with today's wheel, and a former worker image with its modules.

tests/data/former/README.md says what was recorded. The product runs in an environment outside this
repository.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from redis import Redis

from ebbtide.demo.embedded_redis import EmbeddedRedis
from tests.builders.cur import in_region, known_month, write_csv
from tests.builders.installed import Environment
from tests.builders.redis import client, server, shared_server, wait_until
from tests.builders.workflow_run import WorkflowRun, on_path
from tests.paths import DATA

__all__ = ["client", "server", "shared_server"]  # fixtures

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not (shutil.which("jq") and shutil.which("bash")), reason="needs bash and jq"),
]

RECORDED = sorted(path for path in (DATA / "former").iterdir() if path.is_dir())
STAND_IN = Path(__file__).with_name("stand_ins") / "pulumi.py"
AWS = """#!/bin/sh
echo "aws $*" >> "$ASKED"
if [ "$1" = s3 ]; then cp -r "$BILLS" bill; fi
"""
GH = """#!/bin/sh
echo "gh $*" >> "$ASKED"
case "$*" in
  "api graphql"*) cat "$DEPLOYMENTS" ;;
  "issue list"*) echo '[]' ;;
  "pr list"*) echo 0 ;;
esac
"""
DEPLOYED = {
    "nodes": [{"commitOid": "BASE", "statuses": {"nodes": [{"state": "SUCCESS", "createdAt": "2026-11-29T00:00:00Z"}]}}]
}
READ = "fromJSON(vars.EBBTIDE_READ)[matrix.stack]"


@dataclass(frozen=True)
class Team:
    """A clone of the team's repository: on `main` as recorded, and one commit later."""

    folder: Path
    environment: dict[str, str]

    def run(self, *arguments: str) -> str:
        command = [str(self.folder / ".venv" / "bin" / arguments[0]), *arguments[1:]]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=team", "-c", "user.email=team@example.com", "-c", "commit.gpgsign=false")
        command = ["git", *identity, *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def workflow(self, name: str, **values: str) -> WorkflowRun:
        secrets = ("READ_PASSPHRASE", "READ_TOKEN")
        github = {
            "github.token": "token",
            "github.repository": "acme/platform",
            "github.server_url": "https://github.example.com",
            "github.run_id": "7",
            "github.event.pull_request.number": "4",
            "vars.AWS_REGION": "eu-central-1",
            "vars.PULUMI_BACKEND_URL": "s3://state",
            "vars.EBBTIDE_TRACE": "",
            f"{READ}.region": "eu-central-1",
            f"{READ}.backend": "s3://state",
            **{f"secrets.EBBTIDE_{secret}": "secret" for secret in secrets},
            "secrets.PULUMI_CONFIG_PASSPHRASE": "secret",
            "secrets.PULUMI_ACCESS_TOKEN": "secret",
        }
        return WorkflowRun(repository=self.folder, name=name, values=github | values, environment=self.environment)

    @property
    def asked(self) -> list[str]:
        return Path(self.environment["ASKED"]).read_text().splitlines()


@pytest.fixture(params=RECORDED, ids=lambda path: path.name)
def team(request: pytest.FixtureRequest, installed: Environment, tmp_path: Path) -> Team:
    folder, origin = tmp_path / "repository", tmp_path / "origin"
    shutil.copytree(request.param / "repository", folder)
    (folder / ".venv").mkdir()
    for part in ("bin", "lib", "pyvenv.cfg"):
        (folder / ".venv" / part).symlink_to(installed.home / part)
    (folder / ".venv" / ".installed").touch()  # `make setup` has nothing to do
    pulumi = f"#!{installed.bin / 'python'}\n{STAND_IN.read_text()}"
    here = Team(
        folder,
        {
            "PATH": on_path(tmp_path / "bin", pulumi=pulumi, aws=AWS, gh=GH),
            "HOME": str(tmp_path),
            "ASKED": str(tmp_path / "asked"),
            "DEPLOYMENTS": str(tmp_path / "deployments.json"),
            "BILLS": str(tmp_path / "bills"),
            "GITHUB_BASE_REF": "main",
            "GITHUB_EVENT_NAME": "push",
            "GITHUB_REPOSITORY": "acme/platform",
            "GITHUB_SERVER_URL": "https://github.example.com",
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        },
    )
    subprocess.run(["git", "init", "--quiet", "--bare", origin], check=True)
    here.git("init", "--quiet", "--initial-branch", "main")
    here.git("remote", "add", "origin", str(origin))
    here.git("add", "--all")
    here.git("commit", "--quiet", "--message", "as recorded")
    here.git("push", "--quiet", "origin", "main")
    return here


def change_stacks(team: Team) -> None:
    """Change one stack by its file and one by its base, delete the third, and commit. Today has no business hours."""
    later = f"{datetime.now(UTC) + timedelta(days=3):%a}".lower()
    acme, base = team.folder / "stacks/Pulumi.acme.yaml", team.folder / "stacks/bases/labs.yaml"
    # Three days from now may be the Friday of the file, whose line must change, too.
    week = re.sub(r'mon-thu: "08:00-18:00"\n *fri: "08:00-15:00"', f'{later}: "08:00-14:00"', acme.read_text())
    acme.write_text(week.replace("      max: 4\n      # Of one worker", "      max: 6\n      # Of one worker"))
    base.write_text(base.read_text().replace("mon-fri", later))
    (team.folder / "stacks/Pulumi.example.yaml").unlink()
    team.git("commit", "--quiet", "--all", "--message", "a change")
    assert team.git("show", "--shortstat", "--format=").startswith("3 files changed, 3 insertions(+), ")


def test_its_stack_files_are_valid_and_can_be_rendered(team: Team) -> None:
    checked = team.run("ebbtide", "check")
    rendered = team.run("ebbtide", "render", "acme", "--output", "out")

    assert re.findall(r"(?m)^(\w+): OK", checked) == ["acme", "example", "labs"]
    assert "total" in rendered
    assert (team.folder / "out" / "controller-config.json").is_file()


def test_the_extras_of_its_lock_exist(team: Team, installed: Environment) -> None:
    [locked] = re.findall(r"(?m)^ebbtide\[([a-z,]+)\]", (team.folder / "requirements.txt").read_text())
    [metadata] = installed.home.glob("lib/python*/site-packages/ebbtide-*.dist-info")

    assert {*locked.split(",")} <= {*(Distribution.at(metadata).metadata.get_all("Provides-Extra") or [])}


def test_a_pull_request_gets_its_preview(team: Team) -> None:
    change_stacks(team)
    preview = team.workflow("preview")
    preview.conditions = {"steps.preview.outputs.status != '0'": False}

    preview.job("changed")
    for stack in json.loads(preview.values["needs.changed.outputs.stacks"]):
        preview.values["matrix.stack"] = stack
        preview.job("plan")
    preview.job("preview")
    preview.job("comment")

    assert preview.values["needs.changed.outputs.stacks"] == '["acme", "labs"]'
    assert preview.values["steps.preview.outputs.status"] == "0", preview.printed
    comment = json.loads((team.folder / "body.json").read_text())["body"]
    assert comment.startswith("<!-- ebbtide:preview -->\n")
    assert "**Stack example**: its file is gone." in comment
    assert "| EB019 | excepted: two people read it, in the morning (until 2099-12-31) |" in comment
    assert "digest-weekly" in comment  # which only the plan has: it is of the team's program
    assert [line.split(" --input")[0] for line in team.asked if "--method" in line] == [
        "gh api --method POST repos/acme/platform/issues/4/comments"
    ]


def test_a_push_brings_up_its_stacks_in_waves(team: Team) -> None:
    base = team.git("rev-parse", "HEAD")
    change_stacks(team)
    team.git("push", "--quiet", "origin", "main")
    deployed = json.dumps({"data": {"repository": {"s0": DEPLOYED, "s1": {"nodes": []}}}})
    Path(team.environment["DEPLOYMENTS"]).write_text(deployed.replace("BASE", base))
    team.environment["GITHUB_SHA"] = team.git("rev-parse", "HEAD")
    inputs = {f"inputs.{name}": "" for name in ("stack", "duringBusinessHours", "reason")}
    up = team.workflow("up", **inputs, **{"vars.EBBTIDE_UP": '["acme", "labs"]'})

    up.job("plan")
    waves = [json.loads(up.values[f"needs.plan.outputs.{wave}"]) for wave in ("canary", "early", "rest")]
    up.values["matrix.stack"] = "labs"
    up.job("canary")

    assert waves == [["labs"], [], ["acme"]]
    assert "pulumi up --stack labs --refresh --yes --non-interactive --policy-pack policies" in team.asked
    assert re.findall(r"outputs (.*)", up.printed) == ["clusterName controllerConfig gpuQuota ownership"]
    [policies] = re.findall(r"policies ebbtide (.*)", up.printed)
    assert {"stack-inputs", "stack-config", "EB001", "EB019", "all-judged"} <= {*policies.split()}


def test_a_person_may_bring_up_stacks_again_in_business_hours(team: Team) -> None:
    Path(team.environment["DEPLOYMENTS"]).write_text('{"data": {"repository": {"s0": {"nodes": []}}}}')
    inputs = {"inputs.stack": "", "inputs.duringBusinessHours": "true", "inputs.reason": "the fix of an outage"}
    team.environment["GITHUB_EVENT_NAME"] = "workflow_dispatch"
    up = team.workflow("up", **inputs, **{"vars.EBBTIDE_UP": '["acme"]'})

    up.job("plan")

    assert up.values["needs.plan.outputs.rest"] == '["acme"]'


def test_the_nightly_check_asks_pulumi_about_its_stacks(team: Team) -> None:
    drift = team.workflow("drift", **{"vars.EBBTIDE_READ": '{"labs": {"backend": "s3://state"}}'})

    drift.job("stacks")
    drift.values["matrix.stack"] = "labs"
    drift.job("drift")

    assert drift.values["needs.stacks.outputs.stacks"] == '["labs"]'
    assert [line.split(" --")[0] for line in team.asked] == ["pulumi refresh", "pulumi preview"]


def test_the_bill_is_added_to_its_committed_ledger(team: Team) -> None:
    Path(team.environment["BILLS"]).mkdir()
    bill = in_region(known_month(datetime(2026, 10, 2, tzinfo=UTC)), "eu-central-1")
    write_csv(Path(team.environment["BILLS"]) / "cur.csv.gz", bill)
    matrix = {"matrix.stack": "acme", "matrix.cluster": "acme", "matrix.bill": "s3://bills", "inputs.month": "2026-10"}
    ledger = team.workflow("ledger", **matrix, **{"github.workspace": str(team.folder)})

    ledger.job("read")
    ledger.job("propose")

    committed = json.loads(team.git("show", "origin/ledger/months:stacks/ledger/acme/2026-10.json"))
    assert [entry["bill"] is None for entry in committed["entries"]] == [True, False]


def test_what_is_idle_is_reported_in_an_issue(team: Team) -> None:
    """Neither AWS nor a cluster answers, so the report holds what the stack file knows, and what could not be read."""
    team.environment.update(AWS_ENDPOINT_URL="http://127.0.0.1:9", AWS_MAX_ATTEMPTS="1")
    team.environment.update(AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b", AWS_EC2_METADATA_DISABLED="true")
    stacks = '[{"stack": "acme", "cluster": "acme"}]'
    idle = team.workflow("idle", **{"matrix.stack": "acme", "matrix.cluster": "acme", "vars.EBBTIDE_IDLE": stacks})
    idle.values["github.workspace"] = str(team.folder)

    idle.job("read")
    idle.job("report")

    body = (team.folder / "body.md").read_text()
    assert re.search(r"^\| team-search \| expired \| `reports` .* 2026-01-01 ", body, re.MULTILINE), body
    assert "- not known: `volumes: " in body
    assert [line for line in team.asked if line.startswith("gh issue create")]


@pytest.fixture(params=RECORDED, ids=lambda path: path.name)
def start(
    request: pytest.FixtureRequest, installed: Environment, server: EmbeddedRedis, tmp_path: Path
) -> Callable[..., "subprocess.Popen[bytes]"]:
    """Start a command of a former worker image, in the folder of its code."""
    folder = tmp_path / "image"
    shutil.copytree(request.param / "worker", folder)
    pod = dict(line.split("=", 1) for line in (folder / "pod.env").read_text().splitlines())
    environment = {**pod, "REDIS_HOST": server.host, "REDIS_PORT": str(server.port), "PYTHONPATH": str(folder)}

    def started(command: str, *arguments: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [installed.bin / command, *arguments], cwd=folder, env=environment, stdin=subprocess.PIPE
        )

    return started


def test_a_former_list_worker_handles_payloads_until_it_is_stopped(
    start: Callable[..., "subprocess.Popen[bytes]"], client: Redis
) -> None:
    client.rpush("images", *(json.dumps({"id": f"job-{number}", "number": number}) for number in (1, 2, 3, 4)))

    with start("python", "lists.py") as worker:
        assert worker.wait(timeout=60) == 0

    assert (client.lrange("done", 0, -1), client.llen("images")) == ([b"1", b"2", b"3"], 1)
    assert client.smembers("ebbtide:queues") == {b"images"}


def test_a_former_rq_worker_runs_a_job_with_checkpoints(
    start: Callable[..., "subprocess.Popen[bytes]"], client: Redis, server: EmbeddedRedis
) -> None:
    from rq import Queue  # imports more than the other tests need

    job = Queue("train", connection=client).enqueue("training.count", 3, "checkpoints")

    safe = ("-m", "rq.cli", "worker", "--burst", "-w", "ebbtide.jobs.rq_worker.SafeWorker")
    with start("python", *safe, "-u", f"redis://{server.host}:{server.port}", "train") as worker:
        assert worker.wait(timeout=60) == 0

    assert job.return_value() == 3


def test_a_former_framework_of_a_teams_own_reports_its_worker(
    start: Callable[..., "subprocess.Popen[bytes]"], client: Redis
) -> None:
    with start("python", "reports.py") as worker:
        wait_until(lambda: client.exists("ebbtide:worker:own:pod-1.7"), "the report")
        report = client.hgetall("ebbtide:worker:own:pod-1.7")
        worker.communicate(timeout=60)

    assert (report[b"state"], report[b"hostname"]) == (b"busy", b"pod-1")
    assert (worker.returncode, client.smembers("ebbtide:workers:own")) == (0, set())
