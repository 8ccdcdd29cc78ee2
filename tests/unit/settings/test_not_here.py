"""A refused key or value that stands for something Ebbtide lacks names the page that says what to use instead."""

import re
from pathlib import Path

import pytest

from ebbtide.settings.file import not_here
from ebbtide.settings.file.not_here import PAGE
from ebbtide.text.pages import section as section_text
from tests.builders.existing import onprem
from tests.builders.settings import problem_of, shortest
from tests.paths import ROOT

API = 'image: "example.com/api:1", cpu: 1, memory: 2Gi'


def from_queue(kind: str) -> str:
    return shortest().replace("queues: [train]", f"kind: {kind}, queues: [train]")


@pytest.mark.parametrize(
    ("text", "path", "section"),
    [
        (from_queue("kafka"), "ebbtide:workers.train.source.kind", "queues"),
        (from_queue("RabbitMQ"), "ebbtide:workers.train.source.kind", "queues"),
        (from_queue("huey"), "ebbtide:workers.train.source.kind", "queues"),
        (from_queue("dramatiq"), "ebbtide:workers.train.source.kind", "queues"),
        (
            shortest(more=f"ebbtide:workloads: {{ api: {{ category: fixed, kind: daemon-set, {API} }} }}"),
            "ebbtide:workloads.api.kind",
            "daemonsets",
        ),
        (shortest(more="ebbtide:daemonSets: { logs: {} }"), "ebbtide:daemonSets", "daemonsets"),
        (onprem().replace("kind: existing", "kind: gke"), "ebbtide:cluster.kind", "clouds"),
        (shortest(more="aws:region: cn-north-1"), "aws:region", "clouds"),
        (shortest(more="ebbtide:karpenter: { enabled: true }"), "ebbtide:karpenter", "nodes"),
        (shortest(more="ebbtide:cluster: { karpenter: true }"), "ebbtide:cluster.karpenter", "nodes"),
        (
            shortest(more="ebbtide:nodeGroups: { gpu: { instanceTypes: [inf2.8xlarge], max: 2 } }"),
            "ebbtide:nodeGroups.gpu.instanceTypes",
            "nodes",
        ),
        (shortest(train="runtime: nodejs"), "ebbtide:workers.train.runtime", "languages"),
        (shortest(more="ebbtide:helmCharts: {}"), "ebbtide:helmCharts", "objects"),
        (shortest(train="pod: { hostNetwork: true }"), "ebbtide:workers.train.pod.hostNetwork", "pods"),
    ],
)
def test_the_message_ends_with_a_section_of_the_page(text: str, path: str, section: str, tmp_path: Path) -> None:
    problem = problem_of(text, tmp_path)

    assert f" {path}: " in problem
    assert problem.endswith(f"; ebbtide docs {PAGE}#{section} says what to use instead")


def test_a_typo_is_still_a_typo(tmp_path: Path) -> None:
    assert problem_of(shortest(train="langage: python"), tmp_path).tells("key.unknown", "known here:")
    assert "did you mean list?" in problem_of(from_queue("lists"), tmp_path)


def test_every_named_section_is_on_the_page() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "ebbtide" / "settings").rglob("*.py")]
    named = {*vars(not_here)["_NAMES"], *re.findall(r"page_section\([\"'](\w+)[\"']\)", "\n".join(sources))}
    headings = re.findall(r"^## (.*)$", section_text(PAGE), re.MULTILINE)

    assert named == {heading.lower() for heading in headings}
