"""Commands of a page, and what they print: `python -m tests.builders.shown_commands` rewrites what the page shows.

Read the difference afterwards, and put `…` again where lines are to be left out.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

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
    """Run all steps in one shell, with this clone at `home`/ebbtide; yield what each printed."""
    clone = home / "ebbtide"
    clone.mkdir()
    (clone / "docs").symlink_to(ROOT / "docs")
    (clone / ".venv").symlink_to(sys.prefix)
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
    if run.returncode:
        raise RuntimeError(run.stdout[-3000:])
    yield from run.stdout.split(f"{mark}\n")[:-1]


def shows(shown: str, printed: str) -> bool:
    """True if the page shows all lines; one with `…` stands for any number of them."""
    lines = (r"(?:.*\n)*?" if line == _OMITTED else re.escape(line.rstrip()) + r"[ ]*\n" for line in shown.splitlines())
    return re.fullmatch("".join(lines), printed) is not None


def with_outputs(page: str, steps: list[Step], outputs: list[str]) -> str:
    """Return the page with what was printed, in the blocks that show something else."""
    for step, printed in zip(steps, outputs, strict=True):
        if step.shown is not None and not shows(step.shown, printed):
            lines = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
            page = page.replace(f"```text\n{step.shown}```", f"```text\n{lines}```")
    return page


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    with TemporaryDirectory() as folder:
        PAGE.write_text(
            with_outputs(text, steps_of(text), list(printed_by(steps_of(text), Path(folder)))), encoding="utf-8"
        )
