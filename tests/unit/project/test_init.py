"""`ebbtide init`: all files of a team's repository, or one line and none of them."""

import hashlib
import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from ebbtide.cli.__main__ import app
from ebbtide.jobs import __version__
from ebbtide.project.files import repository_files, write_repository
from ebbtide.settings import load_stack
from tests.paths import ROOT

NAME = f"ebbtide-{__version__}-py3-none-any.whl"
WORKFLOWS = ("drift", "idle", "ledger", "preview", "up")


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "dist" / NAME
    path.parent.mkdir()
    path.write_bytes(b"a wheel")
    return path


def init(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["init", *map(str, arguments)])


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_the_repository_holds_a_project_a_program_a_stack_and_a_lock(tmp_path: Path, wheel: Path) -> None:
    folder = tmp_path / "platform"

    done = init(folder, "--wheel", wheel)

    assert done.exit_code == 0, done.output
    project = yaml.safe_load((folder / "Pulumi.yaml").read_text())
    ours = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
    assert {**project, "description": ""} == {**ours, "description": "", "main": "program/"}
    assert {"program/__main__.py", "policies/PulumiPolicy.yaml", "requirements.txt", "Makefile"} <= files_in(folder)
    assert {f"written: {folder / name}" for name in files_in(folder)} == set(done.output.splitlines()[:-1])
    assert load_stack("example", folder).customer == "example"
    for schema in ("docs/stack.schema.json", "docs/base.schema.json"):
        assert (folder / schema).read_bytes() == (ROOT / schema).read_bytes()


def test_its_workflows_are_ours_with_its_policy_pack(wheel: Path) -> None:
    files = repository_files(wheel)

    for name in WORKFLOWS:
        ours = (ROOT / ".github" / "workflows" / f"{name}.yml").read_text()
        theirs = files[f".github/workflows/{name}.yml"].decode()
        assert theirs.replace("--policy-pack policies", "--policy-pack ebbtide/policies/pack") == ours
    assert b"--policy-pack policies" in files[".github/workflows/up.yml"]
    assert all(b"ebbtide/policies" not in files[f".github/workflows/{name}.yml"] for name in WORKFLOWS)


def test_its_lock_has_a_hash_for_each_requirement_and_no_address(wheel: Path) -> None:
    lock = repository_files(wheel)["requirements.txt"].decode()

    requirements = re.findall(r"(?m)^([a-z].*?)==.*?((?: \\\n    --hash=sha256:[0-9a-f]{64})*)$", lock)
    assert {"pulumi", "pulumi-aws", "pulumi-kubernetes", "pulumi-policy", "pydantic"} <= {
        name for name, _ in requirements
    }
    assert [name for name, hashes in requirements if not hashes] == []
    assert len(requirements) == len(re.findall(r"(?m)^[^#\s-]", lock))
    name, hashes = requirements[-1]
    assert name == "ebbtide[aws,controller,policies,provision,simulate]"
    assert hashes.endswith(hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert "://" not in lock


def test_its_lock_pins_what_this_repository_is_tested_with() -> None:
    pins, tested = (
        set(re.findall(r"(?m)^\S+==[^\s;]+", (ROOT / "tools" / "locks" / f"{name}.txt").read_text()))
        for name in ("project", "dev")
    )

    assert pins
    assert pins <= tested


def test_an_empty_git_repository_is_an_empty_folder(tmp_path: Path, wheel: Path) -> None:
    (tmp_path / "platform" / ".git").mkdir(parents=True)

    assert init(tmp_path / "platform", "--wheel", wheel).exit_code == 0


@pytest.mark.parametrize("existing", ["stacks/Pulumi.acme.yaml", "infra/__init__.py", "README.md"])
def test_a_folder_with_files_stays_as_it_was(existing: str, tmp_path: Path, wheel: Path) -> None:
    folder = tmp_path / "platform"
    (folder / existing).parent.mkdir(parents=True)
    (folder / existing).touch()

    done = init(folder, "--wheel", wheel)

    assert done.exit_code == 1
    assert done.output == f"{folder}: wanted an empty folder, found a full one, with {existing.partition('/')[0]}\n"
    assert files_in(folder) == {existing}


def test_a_full_folder_is_refused_before_a_wheel_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "README.md").touch()

    done = init(tmp_path)

    assert (done.exit_code, done.output) == (
        1,
        f"{tmp_path}: wanted an empty folder, found a full one, with README.md\n",
    )


def test_a_file_is_no_folder(tmp_path: Path, wheel: Path) -> None:
    done = init(wheel, "--wheel", wheel)

    assert (done.exit_code, done.output) == (1, f"{wheel}: File exists\n")


@pytest.mark.parametrize("name", [".github", "program", "wheels"])
def test_a_failure_on_the_way_leaves_nothing(
    name: str, tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name == name:
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)

    done = init(tmp_path / "platform", "--wheel", wheel)

    assert (done.exit_code, done.output) == (1, f"{tmp_path / 'platform'}: No space left on device\n")
    assert list((tmp_path / "platform").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gone.whl", f"wanted the file {NAME}, found no such file (for example --wheel dist/{NAME})"),
        (
            "ebbtide-9.8.7-py3-none-any.whl",
            f"wanted {NAME}, which is the installed version, found ebbtide-9.8.7-py3-none-any.whl",
        ),
    ],
)
def test_another_wheel_is_refused_before_anything_is_written(
    name: str, words: str, tmp_path: Path, wheel: Path
) -> None:
    wheel.with_name("ebbtide-9.8.7-py3-none-any.whl").touch()

    done = init(tmp_path / "platform", "--wheel", wheel.with_name(name))

    assert (done.exit_code, done.output) == (2, f"--wheel: {words}\n")
    assert not (tmp_path / "platform").exists()


def test_an_editable_installation_has_no_wheel(tmp_path: Path) -> None:
    done = init(tmp_path / "platform")

    assert done.exit_code == 2
    assert done.output.startswith(f"--wheel: wanted the file {NAME}, found no record of the wheel that was installed")


def test_the_program_is_in_a_folder_where_nothing_hides_a_package(tmp_path: Path, wheel: Path) -> None:
    """Python looks for modules in the program's folder first, and never in the folder above it."""
    write_repository(tmp_path / "platform", repository_files(wheel))

    assert files_in(tmp_path / "platform" / "program") == {"__main__.py"}
