"""The script of docs/how-to/debugging.md, run unchanged."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT, STACK_FILES

pytestmark = pytest.mark.process


def test_the_script_prints_each_event_of_a_replay(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "debugging.md").read_text(encoding="utf-8")
    script = tmp_path / "events.py"
    script.write_text(page.split("```python\n", 1)[1].split("```", 1)[0])
    shown = page.split("grep -A6 ' 9345'\n", 1)[1].split("```", 1)[0]

    demo = str(STACK_FILES / "Pulumi.demo.yaml")
    replay = ["simulate", demo, "--trace", "openb2023-a", "--days", "1", "--strategy", "fixed-flexible"]
    printed = subprocess.run(
        [sys.executable, script, *replay], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout

    assert shown in printed
