"""A stack file at a git ref: the compared side, or one clear line."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ebbtide.preview import sides
from ebbtide.preview.sides import NoSuchRef, Side, code_note, side_at, side_now
from ebbtide.recording.resources import Resource
from ebbtide.settings import StackSettings
from tests.builders.settings import SHORTEST
from tests.builders.sides import Repository, with_max
from tests.paths import ROOT

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def unrendered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Record nothing: these tests check which file is read."""

    def nothing(_: StackSettings) -> tuple[Resource, ...]:
        return ()

    monkeypatch.setattr(sides, "record", nothing)
    sides._recent.clear()
    yield
    sides._recent.clear()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "one")
    made.commit()
    return made


def refusal(repository: Repository, ref: str) -> str:
    with pytest.raises(NoSuchRef) as refused:
        side_at("acme", ref, repository.root)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def most_workers(side: Side) -> int:
    assert side.settings is not None
    return next(iter(side.settings.workers.values())).max


def test_three_dots_are_the_commit_at_which_the_work_began(repository: Repository) -> None:
    repository.git("switch", "--quiet", "--create", "work")
    repository.git("switch", "--quiet", "main")
    repository.commit(with_max(7))
    repository.git("switch", "--quiet", "work")

    assert most_workers(repository.at("main")) == 7
    assert most_workers(repository.at("main...")) == 4


def test_a_stack_that_was_not_there_yet_has_no_earlier_side(repository: Repository) -> None:
    repository.write(SHORTEST.replace("customer: acme", "customer: other"), "new")

    assert side_at("new", "HEAD", repository.root) is None


def test_a_file_of_another_name_with_the_same_customer_is_the_same_stack(repository: Repository) -> None:
    repository.git("mv", "stacks/Pulumi.acme.yaml", "stacks/Pulumi.renamed.yaml")

    before = repository.at("HEAD", "renamed")

    assert before.stack == "acme"
    assert "pulumi stack rename" in before.problems[0]


def test_a_second_file_for_a_customer_is_no_rename(repository: Repository) -> None:
    repository.write(SHORTEST, "second")

    assert side_at("second", "HEAD", repository.root) is None


def test_a_file_that_was_invalid_says_where_and_the_other_side_is_still_there(repository: Repository) -> None:
    repository.commit(with_max(-1))
    repository.write(SHORTEST)

    before, after = repository.at("HEAD"), side_now("acme", repository.root)

    assert (before.settings, before.resources) == (None, ())
    assert before.problems[0].startswith("stacks/Pulumi.acme.yaml at HEAD:")
    assert (after.problems, after.settings is None) == ((), False)


def test_each_side_has_the_base_of_its_time(repository: Repository) -> None:
    stack = SHORTEST.replace("config:\n", "config:\n  ebbtide:base: bases/more.yaml\n").replace("max: 4, ", "")
    repository.write_base("config: { ebbtide:workers: { train: { max: 5 } } }")
    repository.commit(stack)
    repository.write_base("config: { ebbtide:workers: { train: { max: 6 } } }")

    assert most_workers(repository.at("HEAD")) == 5
    assert most_workers(side_now("acme", repository.root)) == 6

    repository.write_base("config: { ebbtide:workers: { train: { max: -6 } } }")
    repository.commit(stack)

    assert repository.at("HEAD").problems[0].startswith("stacks/bases/more.yaml at HEAD:1: ebbtide:workers.train.max")
    assert side_now("acme", repository.root).problems[0].startswith("stacks/bases/more.yaml:1: ")


def test_each_side_has_the_projects_configuration_of_its_time(repository: Repository) -> None:
    project = "name: ebbtide\nconfig: {{ images: {{ default: {{ registry: {} }} }} }}\n"
    (repository.root / "Pulumi.yaml").write_text(project.format("old.example.com"))
    repository.commit()
    (repository.root / "Pulumi.yaml").write_text(project.format("new.example.com"))

    sides_ = (repository.at("HEAD"), side_now("acme", repository.root))

    assert [side.settings and side.settings.images.registry for side in sides_] == [
        "old.example.com",
        "new.example.com",
    ]


def test_a_file_that_is_gone_now_is_named(repository: Repository) -> None:
    (repository.root / "stacks" / "Pulumi.acme.yaml").unlink()

    assert "no such file" in side_now("acme", repository.root).problems[0]
    assert repository.at("HEAD").settings is not None


@pytest.mark.parametrize("ref", ["nope", "", "--help", "-", "HEAD:stacks", "a b", "a\nb", "nope...HEAD", "HEAD~99"])
def test_a_ref_that_is_no_commit_is_one_line(repository: Repository, ref: str) -> None:
    assert "is not a commit of this repository" in refusal(repository, ref)


def test_a_branch_that_only_the_remote_has_is_suggested(repository: Repository) -> None:
    repository.git("update-ref", "refs/remotes/origin/release", "HEAD")

    assert "did you mean origin/release?" in refusal(repository, "release")


def test_branches_without_a_commit_in_common_are_one_line(repository: Repository) -> None:
    repository.git("switch", "--quiet", "--orphan", "alone")
    repository.commit(with_max(7))

    assert "have no commit in common" in refusal(repository, "main...")


def test_a_shallow_clone_says_how_to_get_the_rest(repository: Repository, tmp_path: Path) -> None:
    repository.commit(with_max(7))
    shallow = tmp_path / "shallow"
    repository.git("clone", "--quiet", "--depth", "1", f"file://{repository.root}", str(shallow))

    with pytest.raises(NoSuchRef, match=r"the clone is shallow; .* fetch-depth: 0"):
        side_at("acme", "HEAD~1", shallow)


def test_without_a_repository_there_is_nothing_to_compare_with(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(repository.root / ".git"))  # another's, as a hook has it: not to be believed

    with pytest.raises(NoSuchRef, match="there is no git repository"):
        side_at("acme", "HEAD", tmp_path)


def test_without_git_there_is_one_line(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repository.root))

    assert "git cannot be asked" in refusal(repository, "HEAD")


def test_a_link_in_place_of_a_file_is_not_followed(repository: Repository) -> None:
    path = repository.root / "stacks" / "Pulumi.acme.yaml"
    path.unlink()
    path.symlink_to("/etc/hostname")
    repository.git("add", "--all")
    repository.git("commit", "--quiet", "--message", "a link")

    assert "is not a plain file" in refusal(repository, "HEAD")


def test_git_neither_fetches_nor_asks_for_a_password(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[list[str], dict[str, str]]] = []
    run: Any = subprocess.run

    def watched(command: list[str], **options: Any) -> "subprocess.CompletedProcess[str]":
        seen.append((command, options["env"]))
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", watched)
    repository.at("HEAD")
    code_note("HEAD", repository.root)

    words = {word for command, _ in seen for word in command}
    assert {environment["GIT_TERMINAL_PROMPT"] for _, environment in seen} == {"0"}
    assert not words & {"fetch", "pull", "clone", "checkout"}
    assert "cat-file" in words


@pytest.mark.parametrize("name", ["components/any.py", "controllers/any.py", "tools/locks/dev.txt"])
def test_other_code_is_noted(repository: Repository, name: str) -> None:
    code = repository.root / name
    code.parent.mkdir(parents=True)
    code.write_text("ONE = 1\n")
    repository.commit()

    assert code_note("HEAD", repository.root) == ""
    code.write_text("ONE = 2\n")
    assert code_note("HEAD", repository.root).startswith("the code differs from HEAD too")


def test_every_package_of_this_repository_that_a_preview_imports_counts_as_code() -> None:
    imported = "import sys, ebbtide.preview.page, ebbtide.lab.advice.change; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", imported], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()

    packages = {name.partition(".")[0] for name in modules}

    assert {name for name in packages if (ROOT / name / "__init__.py").exists()} <= {*sides._CODE}
