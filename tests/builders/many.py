"""A repository of many customers: five bases, and for each customer a stack file of a few lines."""

import subprocess
from pathlib import Path

from tests.paths import STACK_FILES

_REGIONS = (
    ("europe", "eu-central-1", "Europe/Berlin"),
    ("america", "us-east-1", "America/New_York"),
    ("asia", "ap-northeast-1", "Asia/Tokyo"),
)
COMMON, PRODUCTION = "stacks/bases/common.yaml", "stacks/bases/production.yaml"
_AUTHOR = ("-c", "user.name=builder", "-c", "user.email=builder@example.com")


def write_customers(root: Path, number: int) -> list[str]:
    """Write and commit the stacks x000, x001, …; return their names."""
    demo = (STACK_FILES / "Pulumi.demo.yaml").read_text(encoding="utf-8")
    _write(root / COMMON, "config:\n" + demo[demo.index("  ebbtide:workloads:") : demo.index("  ebbtide:costs:")])
    nodes = demo[demo.index("  ebbtide:cluster:") : demo.index("  ebbtide:workloads:")]
    _write(root / PRODUCTION, f"config:\n  ebbtide:base: bases/common.yaml\n{nodes}")
    for name, _, timezone in _REGIONS:
        hours = f'{{ timezone: {timezone}, week: {{ mon-fri: "08:00-18:00" }} }}'
        _write(root / f"stacks/bases/{name}.yaml", f"config:\n  ebbtide:businessHours: {hours}\n")
    names = [f"x{each:03}" for each in range(number)]
    for each, customer in enumerate(names):
        name, region, _ = _REGIONS[each % len(_REGIONS)]
        _write(
            root / f"stacks/Pulumi.{customer}.yaml",
            f"config:\n  aws:region: {region}\n  ebbtide:base: [bases/production.yaml, bases/{name}.yaml]\n"
            f"  ebbtide:customer: {customer}\n  ebbtide:nodeGroups: {{ flexible: {{ max: {40 + each} }} }}\n",
        )
    _write(root / "Pulumi.yaml", "name: many\nruntime: python\n")
    for arguments in (("init", "--quiet"), ("add", "."), (*_AUTHOR, "commit", "--quiet", "--message", "before")):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    return names


def replace_in(root: Path, file: str, before: str, after: str) -> None:
    text = (root / file).read_text(encoding="utf-8")
    assert before in text
    _write(root / file, text.replace(before, after))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
