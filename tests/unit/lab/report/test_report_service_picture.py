"""The picture of a service's day in the documents is the one that is drawn today."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ebbtide.cli.simulate import command as simulate
from ebbtide.lab.report import served_day_picture
from tests.builders.workloads.served import a_served_replay
from tests.paths import ROOT, STACK_FILES

KEPT = Path("docs") / "images" / "served-day.svg"
MADE_BY = (
    "simulate example-lisbon --service embedder --trace requests-servegen-m-small --queue m-small/client-005 --days 3"
)


def test_the_picture_stands_alone_and_says_what_was_replayed() -> None:
    picture = served_day_picture(a_served_replay(), 1)

    assert "var(" not in picture
    assert "embedder-small of acme on Mon 1 Jun." in picture
    assert "3 days of made-up" in picture


@pytest.mark.long
def test_the_picture_in_the_documents_is_the_one_that_is_drawn_today(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    drawn = tmp_path / "day.svg"
    replay = MADE_BY.replace("example-lisbon", str(STACK_FILES / "Pulumi.example-lisbon.yaml")).split()[1:]
    result = CliRunner().invoke(simulate, [*replay, "--report", str(drawn)], catch_exceptions=False)

    assert result.exit_code == 0, result.output
    words = " ".join(
        (ROOT / "docs" / "reference" / "report.md").read_text(encoding="utf-8").replace("\\\n", " ").split()
    )
    assert f"ebbtide {MADE_BY} --report {KEPT}" in words
    assert drawn.read_text() == (ROOT / KEPT).read_text(), f"out of date; run: ebbtide {MADE_BY} --report {KEPT}"
