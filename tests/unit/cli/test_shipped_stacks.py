"""The stacks of `stacks/`, which a team replaces, and those that the demo and the tests read instead."""

from pathlib import Path
from typing import NoReturn

import pytest
from typer.testing import CliRunner

from ebbtide.cli.__main__ import app
from ebbtide.demo.live import LiveError
from tests.paths import ROOT, STACK_FILES


@pytest.mark.parametrize("name", [path.name for path in sorted(STACK_FILES.glob("*.yaml"))])
def test_a_shipped_stack_is_the_one_that_tests_read(name: str) -> None:
    shipped = ROOT / "stacks" / name
    if not shipped.exists():
        pytest.skip(f"{name} is not in stacks/")

    own, example = (path.read_text(encoding="utf-8").splitlines() for path in (STACK_FILES / name, shipped))

    assert own[1:] == example[1:]  # the first line leads to the schema


def test_the_demo_needs_no_stack_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(*_: object) -> NoReturn:
        raise LiveError("nothing more")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ebbtide.cli.demo.record", end)

    done = CliRunner().invoke(app, ["demo"])

    assert "customer demo, open" in done.stdout
    assert done.stderr == "nothing more\n"
