"""Customers on shared bases, by the commands: all checked, in one table, and one page with the common change once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.many import COMMON, replace_in, write_customers

CUSTOMERS = 5


def _ebbtide(root: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "ebbtide.cli", *arguments]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


@pytest.mark.process
def test_many_customers_are_checked_listed_and_previewed(tmp_path: Path) -> None:
    names = write_customers(tmp_path, CUSTOMERS)
    replace_in(tmp_path, COMMON, "api:1.4.2", "api:1.5.0")
    replace_in(tmp_path, "stacks/Pulumi.x003.yaml", "max: 43", "max: 50")
    replace_in(tmp_path, "stacks/Pulumi.x004.yaml", "customer: x004", "customer: x001")

    checked, listed = _ebbtide(tmp_path, "check"), _ebbtide(tmp_path, "stacks", "--json", "-")
    previewed = _ebbtide(tmp_path, "preview", "--all", "--against", "HEAD", "--format", "markdown")

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "got x001 in x001, x004" in checked.stdout
    assert [row["stack"] for row in json.loads(listed.stdout)["stacks"]] == names
    assert previewed.returncode == 1  # another customer in the file replaces the cluster
    assert "group 1: 3 stacks, the same change" in previewed.stdout
    assert all(f"<b>{name}</b>" in previewed.stdout for name in ("x003", "x004"))
