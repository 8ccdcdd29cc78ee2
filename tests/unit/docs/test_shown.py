"""The demo's output in the documents is compared with what it prints."""

from pathlib import Path

import pytest

from tests.paths import ROOT
from tools.docs.shown import DOCUMENTS, differences, main

PRINTED = """\
── 2/6 render ─────────────
191 resources of 42 types; `ebbtide render demo` lists them
── 3/6 live ───────────────
job enqueued, workers requested: 21 ms (median of 5)
jobs interrupted: 0
── 5/6 replay ─────────────
keda-defaults        2,540   $3,533     29 %*     48s  7m 53s     304     0/0
"""


def shown(*lines: str) -> str:
    return "Text.\n\n```text\n" + "\n".join(lines) + "\n```\n"


@pytest.mark.parametrize(
    ("step", "line", "same"),
    [
        ("2/6 render", "191 resources of 42 types; `ebbtide render demo` lists them", True),
        ("2/6 render", "190 resources of 42 types; `ebbtide render demo` lists them", False),
        ("3/6 live", "job enqueued, workers requested: 16 ms (median of 5)", True),
        ("3/6 live", "job enqueued, workers started: 16 ms (median of 5)", False),
        ("3/6 live", "jobs interrupted: 0", True),
        ("3/6 live", "jobs interrupted: 2", False),
        ("5/6 replay", "keda-defaults        2,540   $3,533     29 %*     48s  7m 53s     304     0/0", True),
        ("5/6 replay", "keda-defaults        2,539   $3,551     29 %*     48s  7m 53s     304     0/0", False),
        ("2/6 render", "jobs interrupted: 0", False),
    ],
)
def test_a_line_is_held_to_its_step_and_to_the_figures_that_every_run_has(step: str, line: str, same: bool) -> None:
    assert differences(shown(step, "…", line), PRINTED) == ([] if same else [f"{step[4:]}: {_masked(step, line)}"])


def _masked(step: str, line: str) -> str:
    return line.replace("16", "N").replace(" 5)", " N)").replace(": 2", ": N") if step == "3/6 live" else line


def test_a_document_without_the_demo_is_a_fault_of_the_comparison() -> None:
    with pytest.raises(ValueError, match="2/6 render"):
        differences("no block", PRINTED)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_document_shows_steps_of_the_demo(name: str) -> None:
    assert differences((ROOT / name).read_text(encoding="utf-8"), "")


def test_the_command_names_document_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = tmp_path / "printed"
    printed.write_text(PRINTED)

    assert main([str(printed)]) == 1
    assert "README.md: the demo does not print this line of the step " in capsys.readouterr().err
