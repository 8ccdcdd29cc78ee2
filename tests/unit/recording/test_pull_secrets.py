"""The secrets of `images.pullSecrets` are needed in each namespace whose rendered pods pull images."""

from collections.abc import Mapping
from typing import Any, cast

import pytest

from ebbtide.operate.probe.wants import wants_of
from ebbtide.recording.resources import kind_of, namespace_of
from ebbtide.settings.capacity.pods import pull_secret_namespaces
from tests.builders.recorded import record
from tests.builders.workloads.services import services_stack
from tests.paths import ROOT

pytestmark = pytest.mark.whole

PULLS = "ebbtide:images: { pullSecrets: [regcred] }\n"
HUB = """\
ebbtide:workloads:
  hub:
    category: fixed
    image: hub:1
    cpu: 1
    memory: 1Gi
    kubernetes: { rules: [{ groups: [""], resources: [pods], verbs: [create, delete] }] }
"""
RAY = """\
ebbtide:ray:
  flow:
    version: "2.60.0"
    image: registry.example.com/ml/ray:2.60.0
    head: { cpu: 2, memory: 6Gi }
    groups: { cpu: { max: 20, cpu: 3, memory: 12Gi } }
    longestTask: 30m
"""
HERE = (
    "ebbtide:nodeGroups: { fixed: { max: 8 }, flexible: { max: 12 }, gpu: { max: 12 } }\n",
    "ebbtide:cluster: { kind: existing, context: here }\n",
)
SERVING = "ebbtide:serving: { gatewayClass: eg, keda: true }\n"
DEFINITIONS = ("CustomResourceDefinition",)  # which name the field and pull nothing
OWN = {"ebbtide", "ebbtide-workers", "ebbtide-hub", "ebbtide-ray-flow"}


def pulls(value: object) -> bool:
    """True if the inputs name a pull secret. The spec of a Ray cluster is a text."""
    if isinstance(value, Mapping):
        inner = cast("Mapping[str, Any]", value)
        return any(key == "imagePullSecrets" or pulls(it) for key, it in inner.items())
    if isinstance(value, list | tuple):
        return any(pulls(it) for it in cast("list[Any]", value))
    return isinstance(value, str) and "imagePullSecrets" in value


@pytest.mark.parametrize(
    ("changes", "more", "spaces"),
    [
        ((), "", OWN | {"kube-system", "keda", "ebbtide-gateway"}),
        ((HERE,), SERVING, OWN),
    ],
)
def test_whoever_pulls_is_in_a_namespace_that_is_named(
    changes: tuple[tuple[str, str], ...], more: str, spaces: set[str]
) -> None:
    settings = services_stack(*changes, more=PULLS + HUB + RAY + more)
    rendered = {namespace_of(it) for it in record(settings) if kind_of(it) not in DEFINITIONS and pulls(it.inputs)}

    assert rendered == {*pull_secret_namespaces(settings)} == spaces


def test_probe_looks_for_it_where_a_workload_starts_pods() -> None:
    settings = services_stack(HERE, more=PULLS + HUB + RAY + SERVING)

    assert {it.namespace for it in wants_of(settings, ()).objects if it.wanted_by == "images.pullSecrets"} == OWN


def test_the_page_names_all_of_them() -> None:
    text = (ROOT / "docs/reference/stack-file.md").read_text(encoding="utf-8")
    (row,) = [line for line in text.splitlines() if line.startswith("| `pullSecrets` |")]

    named = {"ebbtide", "ebbtide-workers", "kube-system", "keda", "ebbtide-gateway", "ebbtide-ray-NAME", "ebbtide-NAME"}
    assert [name for name in named if f"`{name}`" not in row] == []
