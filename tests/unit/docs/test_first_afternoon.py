"""The tutorial's commands run in their order in an empty folder, and print what the page shows."""

from pathlib import Path

import pytest

from tests.builders import afternoon
from tests.builders.shown_commands import PAGE, printed_by, shows, steps_of


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
def test_the_page_leads_from_an_empty_folder_to_three_reports(tmp_path: Path) -> None:
    steps = steps_of(PAGE.read_text(encoding="utf-8"))

    outputs = list(printed_by(steps, tmp_path))

    different = [
        f"$ {step.script}\n{printed}"
        for step, printed in zip(steps, outputs, strict=True)
        if step.shown is not None and not shows(step.shown, printed)
    ]
    assert not different, "\n".join([*different, "python -m tests.builders.shown_commands rewrites the page"])
    reports = sorted(path.name for path in (tmp_path / "afternoon").glob("*.html"))
    assert reports == ["mumbai.html", "onprem.html", "saopaulo.html"]
