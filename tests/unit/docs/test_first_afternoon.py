"""The tutorial's commands run in their order in an empty folder, and print what the page shows."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.builders import afternoon
from tests.paths import ROOT

PAGE = ROOT / "docs" / "tutorial" / "first-afternoon.md"
_BLOCK = re.compile(
    r"^```(?P<kind>yaml|text)\n(?P<fenced>.*?)^```$|(?P<commands>(?:^ {4}[^\n]*\n)+)", re.MULTILINE | re.DOTALL
)
_OMITTED = "…"


@dataclass(frozen=True, slots=True)
class Step:
    """Commands or a file of the page, and the output that the page shows for it, or None."""

    script: str
    shown: str | None = None


def steps_of(page: str) -> list[Step]:
    steps: list[Step] = []
    for block in _BLOCK.finditer(page):
        match block["kind"]:
            case "text":
                steps[-1] = Step(steps[-1].script, block["fenced"])
            case "yaml":
                name = block["fenced"].splitlines()[0].removeprefix("# ")
                steps.append(Step(f"cat > {shlex.quote(name)} <<'END'\n{block['fenced']}END"))
            case _:
                steps.append(Step("\n".join(line.removeprefix("    ") for line in block["commands"].splitlines())))
    return steps


def printed_by(steps: list[Step], home: Path) -> Iterator[str]:
    """Run all steps in one shell; yield what each printed."""
    mark = "── end of a step ──"
    script = "\n".join(["set -euo pipefail", *(f"{step.script}\necho {shlex.quote(mark)}" for step in steps)])
    variables = {"HOME": str(home), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "COLUMNS": "80"}
    run = subprocess.run(
        ["bash"],
        input=script,
        env=variables,
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-3000:]
    yield from run.stdout.split(f"{mark}\n")[:-1]


def shows(shown: str, printed: str) -> bool:
    """True if the page shows all lines; one with `…` stands for any number of them."""
    lines = (r"(?:.*\n)*?" if line == _OMITTED else re.escape(line.rstrip()) + r"[ ]*\n" for line in shown.splitlines())
    return re.fullmatch("".join(lines), printed) is not None


def test_the_exports_are_what_their_builder_writes() -> None:
    written = {path.name: path.read_text(encoding="utf-8") for path in afternoon.FOLDER.iterdir()}

    assert written == {name: text() for name, text in afternoon.EXPORTS.items()}


@pytest.mark.parametrize(
    ("shown", "same"),
    [("a\nb\nc\n", True), ("a\n…\nc\n", True), ("…\n", True), ("a\n…\n", True), ("a\nc\n", False), ("a\nb\n", False)],
)
def test_omitted_lines_are_marked(shown: str, same: bool) -> None:
    assert shows(shown, "a\nb  \nc\n") is same


@pytest.mark.process
@pytest.mark.timeout(400)
def test_the_page_leads_from_an_empty_folder_to_three_reports(tmp_path: Path) -> None:
    clone = tmp_path / "ebbtide"
    clone.mkdir()
    (clone / "docs").symlink_to(ROOT / "docs")
    (clone / ".venv").symlink_to(sys.prefix)
    steps = steps_of(PAGE.read_text(encoding="utf-8"))

    outputs = list(printed_by(steps, tmp_path))

    different = [
        f"$ {step.script}\n{printed}"
        for step, printed in zip(steps, outputs, strict=True)
        if step.shown is not None and not shows(step.shown, printed)
    ]
    assert not different, "\n".join(different)
    reports = sorted(path.name for path in (tmp_path / "afternoon").glob("*.html"))
    assert reports == ["mumbai.html", "onprem.html", "saopaulo.html"]
