"""Where the provider is missing: the tier skips and says in one line how to get it, and fails on GitHub."""

import os
import subprocess
import sys

import pytest

from tests.aws.support.provider import HOW, NAMED
from tests.paths import ROOT

pytestmark = pytest.mark.process


def without_the_provider(**environment: str) -> tuple[int, str]:
    """What two tests of the tier end with and say."""
    environment = {"PATH": os.environ["PATH"], NAMED: "/nowhere", **environment}
    asked = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "aws", "tests/aws/test_inputs.py"]
    done = subprocess.run([*asked, "-k", "demo or berlin"], cwd=ROOT, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout


def test_without_the_provider_one_line_says_how_to_get_it() -> None:
    status, told = without_the_provider()

    assert (status, told.count(HOW)) == (0, 1)
    assert "2 skipped" in told


def test_on_github_the_provider_may_not_be_missing() -> None:
    status, told = without_the_provider(GITHUB_ACTIONS="true")

    assert status == 1
    assert HOW in told
