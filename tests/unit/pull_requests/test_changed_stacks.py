"""The stacks that a change concerns, by file names and in a real repository."""

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from ebbtide.cli.__main__ import app
from ebbtide.pull_requests.changed_stacks import NOTHING, concerned

pytestmark = pytest.mark.process

STACKS = ("acme", "demo")


@pytest.mark.parametrize(
    ("paths", "stacks"),
    [
        ([], ()),
        (["stacks/Pulumi.acme.yaml"], ("acme",)),
        (["stacks/Pulumi.acme.yaml", "docs/life.md", "README.md", "tests/unit/test_layout.py"], ("acme",)),
        (["docs/life.md", "tools/docs/site.py", "Makefile", ".github/workflows/ci.yml"], ()),
        (["stacks/ledger/acme/2026-11.json"], ()),
        (["examples/ray-dataset/jobs/one.py", "tools/serving/keda/go.mod", "tools/mutants/list.jsonl"], ()),
        (["components/pods/budget.py"], STACKS),
        (["stacks/Pulumi.acme.yaml", "tools/locks/dev.txt"], STACKS),
        (["Pulumi.yaml"], STACKS),
        (["ebbtide/prices/data/ec2.csv"], STACKS),
        (["stacks/Pulumi.acme.yaml.orig"], STACKS),
        (["something/new.txt"], STACKS),
    ],
)
def test_a_stack_file_concerns_its_stack_and_code_concerns_all(paths: list[str], stacks: tuple[str, ...]) -> None:
    assert concerned(paths, STACKS).stacks == stacks


def test_a_stack_whose_file_is_gone_is_told_of_and_not_listed() -> None:
    found = concerned(["stacks/Pulumi.old.yaml", "stacks/Pulumi.demo.yaml"], STACKS)

    assert (found.stacks, found.gone) == (("demo",), ("old",))


@pytest.mark.parametrize("name", ["-rf", "a b", "a;b", "$(id)", "é", "a" * 101])
def test_a_name_that_pulumi_would_not_take_is_never_listed(name: str) -> None:
    found = concerned([f"stacks/Pulumi.{name}.yaml"], (*STACKS, name))

    assert (found.stacks, found.misnamed) == ((), (name,))


@given(st.sets(st.sampled_from(["infra/eks.py", "docs/x.md", "stacks/Pulumi.acme.yaml", "stacks/Pulumi.demo.yaml"])))
def test_more_changed_files_never_concern_fewer_stacks(paths: set[str]) -> None:
    all_of_them = set(concerned(paths, STACKS).stacks)

    assert all(set(concerned(paths - {path}, STACKS).stacks) <= all_of_them for path in paths)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    for kind in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{kind}_NAME", "a")
        monkeypatch.setenv(f"GIT_{kind}_EMAIL", "a@example.com")
    git("init", "--quiet", "--initial-branch=main")
    write("stacks/Pulumi.acme.yaml", "stacks/Pulumi.demo.yaml", "infra/eks.py", "docs/x.md")
    commit()
    return tmp_path


def git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], check=True, capture_output=True)


def write(*names: str, text: str = "config: {}") -> None:
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)


def commit() -> None:
    git("add", "--all")
    git("commit", "--quiet", "--message=change")


def changed(against: str = "main", *options: str) -> Result:
    return CliRunner().invoke(app, ["changed", "--against", against, *options])


def stacks(against: str = "main...") -> list[str]:
    return json.loads(changed(against).stdout)


def test_a_branch_is_compared_with_where_it_left_the_other(repository: Path) -> None:
    git("checkout", "--quiet", "-b", "longer-hours")
    write("stacks/Pulumi.acme.yaml", text="2")
    commit()
    git("checkout", "--quiet", "main")
    write("infra/eks.py", "stacks/Pulumi.demo.yaml", text="2")
    commit()
    git("checkout", "--quiet", "longer-hours")

    assert stacks("main") == stacks("main...") == ["acme"]


def test_what_is_not_committed_yet_counts_too(repository: Path) -> None:
    write("stacks/Pulumi.acme.yaml", text="2")
    write("stacks/Pulumi.new.yaml")

    assert stacks() == ["acme", "new"]


def test_a_renamed_stack_is_one_that_came_and_one_that_went(repository: Path) -> None:
    git("mv", "stacks/Pulumi.acme.yaml", "stacks/Pulumi.acme-eu.yaml")

    said = changed()

    assert json.loads(said.stdout) == ["acme-eu"]
    assert json.loads(changed("main", "--gone").stdout) == ["acme"]
    assert "stack acme: its file is gone; its resources stay until `pulumi destroy`" in said.stderr


def reading(path: str) -> str:
    """The text of a stack file with a workload that reads the file at this path."""
    volumes = f"{{ conf: {{ files: {{ x: {{ file: {path} }} }} }} }}"
    return f"config: {{ ebbtide:workloads: {{ web: {{ volumes: {volumes} }} }} }}"


def test_a_file_that_stacks_read_concerns_these_alone(repository: Path) -> None:
    write("stacks/Pulumi.acme.yaml", text=reading("conf/web.conf"))
    write("stacks/Pulumi.beta.yaml", text=reading("./conf//web.conf"))
    write("stacks/conf/web.conf", "stacks/conf/unread.conf")
    commit()
    write("stacks/conf/web.conf", text="2")

    assert stacks() == ["acme", "beta"]

    write("stacks/conf/unread.conf", text="2")

    assert stacks() == ["acme", "beta", "demo"]


def test_a_file_read_by_a_service_or_through_a_link_concerns_its_stack(repository: Path) -> None:
    volumes = "volumes: { conf: { files: { x: { file: conf/llm.conf } } } }"
    write("stacks/Pulumi.acme.yaml", text=f"config: {{ ebbtide:services: {{ chat: {{ {volumes} }} }} }}")
    write("stacks/Pulumi.demo.yaml", text=reading("conf/link.conf"))
    write("stacks/conf/llm.conf")
    Path("stacks/conf/link.conf").symlink_to("llm.conf")
    write("stacks/Pulumi.other.yaml")
    commit()
    write("stacks/conf/llm.conf", text="2")

    assert stacks() == ["acme", "demo"]


def test_a_file_that_a_stack_no_longer_reads_concerns_that_stack(repository: Path) -> None:
    write("stacks/Pulumi.acme.yaml", text=reading("conf/web.conf"))
    write("stacks/conf/web.conf")
    commit()
    write("stacks/Pulumi.acme.yaml")
    Path("stacks/conf/web.conf").unlink()

    assert stacks() == ["acme"]


def based(path: str) -> str:
    return f"config: {{ ebbtide:base: {path} }}"


def test_a_base_concerns_the_stacks_that_build_on_it(repository: Path) -> None:
    write("stacks/Pulumi.acme.yaml", "stacks/Pulumi.beta.yaml", text=based("[bases/eu.yaml]"))
    write("stacks/bases/eu.yaml", text=based("./bases/all.yaml"))
    write("stacks/bases/all.yaml", text=reading("conf/web.conf"))
    write("stacks/conf/web.conf")
    commit()

    for path, text in (
        ("stacks/bases/eu.yaml", "config: {}"),
        ("stacks/bases/all.yaml", "config: {}"),
        ("stacks/conf/web.conf", "2"),
    ):
        git("checkout", "--", ".")
        write(path, text=text)
        assert stacks() == ["acme", "beta"], path


def test_a_base_that_bases_no_longer_name_concerns_their_stacks(repository: Path) -> None:
    write("stacks/Pulumi.acme.yaml", text=based("bases/eu.yaml"))
    write("stacks/bases/eu.yaml", text=based("bases/all.yaml"))
    write("stacks/bases/all.yaml")
    commit()
    write("stacks/bases/eu.yaml")
    Path("stacks/bases/all.yaml").unlink()

    assert stacks() == ["acme"]


def test_a_stack_whose_base_is_gone_may_read_any_file(repository: Path) -> None:
    write("stacks/Pulumi.acme.yaml", text=based("bases/eu.yaml"))
    write("stacks/bases/eu.yaml", "stacks/conf/web.conf")
    write("stacks/Pulumi.beta.yaml", text=reading("conf/web.conf"))
    commit()
    Path("stacks/bases/eu.yaml").unlink()
    write("stacks/conf/web.conf", text="2")

    assert stacks() == ["acme", "beta"]


def test_the_projects_configuration_concerns_all_stacks(repository: Path) -> None:
    write("Pulumi.yaml", text="name: ebbtide")
    commit()
    write("Pulumi.yaml", text="name: ebbtide\nconfig: { ebbtide:images: { value: { registry: example.com } } }")

    assert stacks() == ["acme", "demo"]


def test_a_stack_file_that_cannot_be_read_may_read_any_file(repository: Path) -> None:
    write("stacks/Pulumi.acme.yaml", text=reading("conf/web.conf"))
    write("stacks/Pulumi.broken.yaml", text="config: { a: [")
    write("stacks/conf/web.conf")
    commit()
    write("stacks/conf/web.conf", text="2")

    assert stacks() == ["acme", "broken"]


def test_why_it_is_all_stacks_is_said_beside_the_array(repository: Path) -> None:
    write("infra/eks.py", text="2")

    said = changed()

    assert (json.loads(said.stdout), said.stderr) == (["acme", "demo"], "all stacks: infra/eks.py\n")


def test_the_first_push_of_a_branch_concerns_all(repository: Path) -> None:
    assert stacks(NOTHING) == ["acme", "demo"]


def test_all_stacks_can_be_asked_for(repository: Path) -> None:
    assert json.loads(CliRunner().invoke(app, ["changed", "--all"]).stdout) == ["acme", "demo"]


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--all", "--against", "main"],
        ["--all", "--deployed"],
        ["--all", "--waves", "--gone"],
        ["--deployed", "--retry"],
        ["--all", "--during-business-hours"],
    ],
)
def test_options_that_contradict_each_other_are_refused(options: list[str]) -> None:
    assert CliRunner().invoke(app, ["changed", *options]).exit_code == 2


def test_some_stacks_alone_can_be_asked_for(repository: Path) -> None:
    write("infra/eks.py", text="2")

    assert json.loads(changed("main", "demo").stdout) == ["demo"]

    said = changed("main", "demo", "gone", "lost")

    assert (said.exit_code, said.stdout) == (1, "")
    assert [line.partition(":")[0] for line in said.stderr.splitlines()] == ["stack gone", "stack lost"]


def test_a_misnamed_stack_file_fails_the_job(repository: Path) -> None:
    write("stacks/Pulumi.-x.yaml")

    said = changed()

    assert (said.exit_code, json.loads(said.stdout)) == (1, [])
    assert "stacks/Pulumi.-x.yaml: wanted letters" in said.stderr


@pytest.mark.parametrize("ref", ["no-such-branch", "--output=x", ""])
def test_a_ref_that_does_not_exist_is_one_line(repository: Path, ref: str) -> None:
    said = changed(ref)

    assert (said.exit_code, said.stdout) == (1, "")
    assert said.stderr == f"--against {ref}: no such branch, tag or commit here (for example origin/main)\n"


def test_a_shallow_clone_without_a_common_commit_says_how_to_deepen_it(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git("checkout", "--quiet", "-b", "longer-hours")
    write("docs/x.md", text="2")
    commit()
    git("checkout", "--quiet", "main")
    write("docs/x.md", text="3")
    commit()
    git("clone", "--quiet", "--depth=1", "--no-single-branch", f"file://{repository}", "shallow")
    monkeypatch.chdir("shallow")

    said = changed("origin/longer-hours")

    assert said.exit_code == 1
    assert said.stderr.endswith("(the clone is shallow: git fetch --unshallow, or fetch-depth: 0)\n")


def test_outside_of_a_repository_git_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))

    said = changed()

    assert (said.exit_code, len(said.stderr.splitlines())) == (1, 1)
    assert "not a git repository" in said.stderr
