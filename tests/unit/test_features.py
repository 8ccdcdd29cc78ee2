"""The price of a usual change in files: each patch of `tools/features` still applies, works, and has not grown."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.features import apply, copy_to, features, stated


def test_no_usual_change_touches_more_files_than_the_readme_states() -> None:
    assert {feature.name: len(feature.files) for feature in features()} == stated()


@pytest.mark.process
def test_every_patch_applies_to_one_tree_and_its_tests_pass(tmp_path: Path) -> None:
    copy_to(tmp_path)
    for feature in features():
        apply(feature, tmp_path)
    tests = [test for feature in features() for test in feature.tests]

    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
