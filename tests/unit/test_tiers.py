"""`.ci/run` holds the one list of tiers: the workflow, the Makefile and CONTRIBUTING.md say the same."""

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.paths import ROOT

pytestmark = pytest.mark.process

PART = "-part"  # of the tier of that name

STAND_INS = {
    "make": """
        echo "make $*" >> "$ASKED"
        [ "$1" != setup ] || exit 0
        [ "make $*" != "${FAILING:-}" ] || exit 5
    """,
    "python3.11": "[ $# -eq 1 ] || echo 3.11.2 $0",
    "python3.13": "[ $# -eq 1 ] || echo 3.13.0 $0",
    "apt-get": "exit 0",
    "dpkg": "exit 0",
    "id": "echo 0",
    "sudo": "exit 0",
    "redis-sentinel": "exit 0",
}


@dataclass(frozen=True)
class Tier:
    name: str
    seconds: int
    command: str

    @property
    def target(self) -> str:
        return f"make {self.command.partition('make ')[2].split()[0]}"


def tiers() -> list[Tier]:
    told = subprocess.run([".ci/run", "--list"], cwd=ROOT, capture_output=True, text=True, check=True)
    parts = [line.split(maxsplit=2) for line in told.stdout.splitlines()]
    return [Tier(name, int(seconds), command) for name, seconds, command in parts]


def table_rows() -> dict[str, tuple[set[str], int]]:
    """By command, the tiers that CONTRIBUTING.md gives it and their budget in seconds."""
    rows = re.findall(r"^\| `(make [a-z-]+)` \|.*\| ([^|]*) \|$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    parts = {command: re.fullmatch(r"((?:`[a-z-]+`(?:, )?)+): (\d+) min", cell) for command, cell in rows}
    return {
        command: (set(re.findall(r"`([a-z-]+)`", found[1])), 60 * int(found[2]))
        for command, found in parts.items()
        if found
    }


def help_targets() -> set[str]:
    told = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(re.findall(r"^  (make [a-z-]+) ", told.stdout, re.MULTILINE))


def test_the_workflow_has_one_job_for_each_tier_but_for_a_part_of_another() -> None:
    job = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["tier"]

    complete = [tier.name for tier in tiers() if not tier.name.endswith(PART)]
    assert job["strategy"] == {"fail-fast": False, "matrix": {"tier": complete}}
    assert job["env"]["TIER"] == "${{ matrix.tier }}"
    assert job["steps"][-1] == {"run": '.ci/run "$TIER"'}


def test_no_step_of_the_workflow_is_for_a_tier_that_does_not_exist() -> None:
    text = (ROOT / ".github/workflows/ci.yml").read_text()
    named = {name for found in re.findall(r"fromJSON\('\[(.*?)\]'\)", text) for name in re.findall(r'"(.*?)"', found)}

    assert named
    assert named <= {tier.name for tier in tiers()}


def test_a_job_has_time_for_the_set_up_and_the_longest_tier() -> None:
    job = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["tier"]
    set_ups = sum(map(int, re.findall(r"prepare \"[^\"]+\" (\d+) ", (ROOT / ".ci/run").read_text())))

    assert set_ups
    assert 60 * job["timeout-minutes"] > max(tier.seconds for tier in tiers()) + set_ups


def test_the_table_for_contributors_has_each_tier_with_its_budget() -> None:
    told: dict[str, tuple[set[str], int]] = {}
    for tier in tiers():
        names, _ = told.get(tier.target, (set[str](), 0))
        told[tier.target] = (names | {tier.name}, tier.seconds)

    assert table_rows() == told


def test_every_command_of_the_table_is_one_of_the_makefile() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()

    assert set(re.findall(r"^\| `(make [a-z-]+)` \|", text, re.MULTILINE)) <= help_targets()


PLAIN = {"process", "whole", "redis"}

# A marker of a test, and the target of the Makefile that runs those that have it.
TARGETS = {
    "process": "test-process",
    "whole": "test-whole",
    "redis": "test-process",
    "redis_server": "test-redis",
    "backends": "test-backends",
    "rabbitmq": "test-rabbitmq",
    "ray": "test-ray",
    "engine": "test-engine",
    "aws": "test-aws",
    "pulumi_cli": "test-aws-engine",
    "control_plane": "test-control-plane",
    "node": "test-node",
}


def test_every_marked_test_is_in_a_folder_that_its_tier_collects() -> None:
    texts = {file: file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("*.py")}
    marks = {file: set(re.findall(r"\bmark\.(\w+)", text)) & set(TARGETS) for file, text in texts.items()}
    for marker, target in TARGETS.items():
        line = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=True)
        folders = [ROOT / word for word in line.stdout.split() if word.startswith("tests/")]
        # A file that also has the marker of a tier of its own runs in that tier only.
        found = [file for file, its in marks.items() if marker in its and (marker not in PLAIN or its <= PLAIN)]

        assert found, marker
        assert [str(file) for file in found if not any(file.is_relative_to(folder) for folder in folders)] == []


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A project of `.ci` alone, whose programs are stand-ins: `make` writes down what it is asked."""
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    programs = {f"bin/{name}": script for name, script in STAND_INS.items()}
    programs[".venv/bin/python"] = '[ "$1" = -V ] && echo Python 3.11.2 || echo "python $*" >> "$ASKED"'
    for name, script in programs.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
    for name in (*("bash", "cut", "dirname", "env", "rm", "sed", "sort", "tail", "timeout", "true"),):
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    return tmp_path


WHEN_NAMED = ("rabbitmq", "aws-engine", "engine", "node", "serving", "long", "long-control-plane", "long-serving")


def run(tree: Path, names: Sequence[str] = (), **more: str) -> "tuple[subprocess.CompletedProcess[str], list[str]]":
    environment = {"PATH": str(tree / "bin"), "PYENV_ROOT": "/nowhere", "ASKED": str(tree / "asked"), **more}
    bash = str(shutil.which("bash"))
    done = subprocess.run([bash, str(tree / ".ci/run"), *names], env=environment, capture_output=True, text=True)
    asked = (tree / "asked").read_text().splitlines() if (tree / "asked").exists() else []
    return done, [line.replace(str(tree), "") for line in asked]


def test_without_a_name_what_a_landing_needs_runs_on_the_lowest_python_and_the_fast_tier_on_the_highest_too(
    tree: Path,
) -> None:
    done, asked = run(tree)

    assert done.returncode == 0, done.stderr
    nodes = ["python tools/control-plane/build.py --nodes --no-ray"] if Path("/sys/fs/cgroup/memory").is_dir() else []
    assert asked == [
        "make setup PYTHON=/bin/python3.11",
        "make check",
        "make docs",
        "make check-workflows",
        "make test",
        "make test-demo",
        "make test-whole",
        "make test-aws",
        "make setup VENV=.venv-highest PYTHON=/bin/python3.13",
        "make test-smoke VENV=.venv-highest",
        "make test-process",
        *nodes,
        "make --jobs=3 --output-sync=target test-redis test-backends test-node-part",
        "python tools/control-plane/build.py --ray --karpenter --monitoring",
        "make test-control-plane",
        "make test-engine-part",
        "make test-ray",
    ]
    assert done.stdout.splitlines()[-1].endswith(f" s; these run when named: {', '.join(WHEN_NAMED)}")


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("check", ["make setup PYTHON=/bin/python3.11", "make check"]),
        (
            "fast-highest",
            ["make setup VENV=.venv-highest PYTHON=/bin/python3.13", "make test-smoke VENV=.venv-highest"],
        ),
        ("workflows", ["make check-workflows"]),
        (
            "control-plane",
            [
                "make setup PYTHON=/bin/python3.11",
                "python tools/control-plane/build.py --ray --karpenter --monitoring",
                "make test-control-plane",
            ],
        ),
    ],
)
def test_a_tier_that_is_named_runs_alone_with_the_set_up_that_it_needs(tree: Path, name: str, asked: list[str]) -> None:
    done, told = run(tree, [name])

    assert (done.returncode, told) == (0, asked), done.stderr


def test_the_engines_tier_builds_the_control_plane_where_the_provider_for_it_is_installed(tree: Path) -> None:
    (tree / "bin" / "pulumi-resource-kubernetes").symlink_to(tree / "bin" / "true")

    _, asked = run(tree, ["engine"])

    assert asked[1:] == ["python tools/control-plane/build.py --ray --karpenter --monitoring", "make test-engine"]


def test_a_tier_that_does_not_exist_is_refused_before_anything_runs(tree: Path) -> None:
    done, asked = run(tree, ["fast", "slow"])

    assert (done.returncode, asked) == (2, [])
    assert done.stderr.startswith(".ci/run: no tier slow; there are: check docs workflows fast ")


def test_a_part_is_that_of_a_tier_which_runs_when_named() -> None:
    """The workflow has no job for a part, since the entire tier has one."""
    parts = {tier.name for tier in tiers() if tier.name.endswith(PART)}

    assert parts
    assert {part.removesuffix(PART) for part in parts} <= set(WHEN_NAMED)


def test_a_tier_that_fails_ends_the_run(tree: Path) -> None:
    done, asked = run(tree, ["check", "demo", "fast"], FAILING="make test")

    assert (done.returncode, asked) == (5, ["make setup PYTHON=/bin/python3.11", "make check", "make test"])
    assert done.stderr.splitlines()[-1] == "=== fast FAILED"


def test_with_one_python_the_fast_tier_runs_once(tree: Path) -> None:
    (tree / "bin" / "python3.13").unlink()

    done, asked = run(tree, ["fast", "fast-highest"])

    assert (done.returncode, asked) == (0, ["make setup PYTHON=/bin/python3.11", "make test"])


def test_on_github_one_python_is_too_few(tree: Path) -> None:
    (tree / "bin" / "python3.13").unlink()

    done, asked = run(tree, ["fast-highest"], GITHUB_ACTIONS="true")

    assert (done.returncode, asked) == (1, [])


@pytest.mark.parametrize("file", ["CONTRIBUTING.md", ".github/SECURITY.md"])
def test_a_link_leads_to_a_file_of_ours(file: str) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", (ROOT / file).read_text())

    assert links
    assert [link for link in links if not ((ROOT / file).parent / link).exists()] == []


def test_every_path_that_has_an_owner_exists() -> None:
    """The teams are for each clone to name."""
    lines = [line.split() for line in (ROOT / ".github/CODEOWNERS").read_text().splitlines()]
    paths = [words[0] for words in lines if words and words[0] not in ("#", "*")]

    assert paths
    assert [path for path in paths if not (ROOT / path.strip("/")).exists()] == []
