"""The codes of problems and cautions are stable: this list makes a new one a decision."""

import re
from pathlib import Path

from tests.paths import DATA, ROOT

LISTED = DATA / "settings-codes.txt"
LIKE_A_CODE = re.compile(r'"([a-z-]+\.[a-z][a-z0-9-]*)"')
NO_CODES = {
    "cluster.version",
    "cluster.zones",
    "controller.image",
    "images.autoscaler",
    "network.cidr",
    "network.nat",
    "ecr.api",
    "ecr.dkr",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "ca.crt",
    "tls.crt",
    "tls.key",
    "pod-spec.json",
    "manage.py",
    "rq.cli",
    *("kubernetes.io", "amazonaws.com", "aws.com", "nvidia.com", "ebbtide.dev"),
    "argoproj.io",
    "kubeflow.org",
    "tekton.dev",
}


def codes_in(folder: Path) -> set[str]:
    texts = (path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))
    return {code for text in texts for code in LIKE_A_CODE.findall(text)} - NO_CODES


def test_every_code_is_listed_and_no_other() -> None:
    assert sorted(codes_in(ROOT / "ebbtide" / "settings")) == LISTED.read_text(encoding="utf-8").split()
