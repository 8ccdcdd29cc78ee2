"""A pod runs on nodes of its architecture: by a selector if node groups differ, and without one if not."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from ebbtide.policies.judging import judge
from ebbtide.recording.resources import Resource, kind_of, name_of
from ebbtide.recording.state import StackState
from ebbtide.settings import StackSettings
from tests.builders.existing import onprem
from tests.builders.recorded import record
from tests.builders.rights import RULES
from tests.builders.settings import loaded, shortest

pytestmark = pytest.mark.whole

ARCH = "kubernetes.io/arch"
BOTH = """\
ebbtide:nodeGroups:
  flexible: { instanceTypes: [m7i.2xlarge], max: 20 }
  graviton: { kind: flexible, instanceTypes: [m7g.2xlarge], max: 20 }
"""
PODS = """\
ebbtide:workloads:
  api: { category: flexible, image: 'example.com/a:1', cpu: 1, memory: 1Gi, replicas: 2ARCH }
  hub: { category: fixed, image: 'example.com/h:1', cpu: 1, memory: 1Gi }
ebbtide:jobs: { fit: { image: 'example.com/f:1', cpu: 1, memory: 1Gi, longestRun: 1hARCH } }
ebbtide:cronJobs:
  nightly: { image: 'example.com/f:1', cpu: 1, memory: 1Gi, longestRun: 1h, schedule: '0 2 * * *'ARCH }
"""


def stack(arch: str, groups: str, folder: Path) -> StackSettings:
    said = f", arch: {arch}" if arch else ""
    text = shortest(train=f"arch: {arch}" if arch else "", more=groups + PODS.replace("ARCH", said))
    return loaded(text, folder)


def selectors(resources: tuple[Resource, ...]) -> dict[str, Mapping[str, Any]]:
    """The selectors of the file's pods, by name."""
    ours = ("api", "hub", "fit", "nightly", "train")
    kinds = ("Deployment", "Job", "CronJob")
    found = [one for one in resources if kind_of(one) in kinds and name_of(one) in ours]
    return {name_of(one): _pod(one)["nodeSelector"] for one in found}


def _pod(resource: Resource) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = resource.inputs["spec"]
    return spec.get("jobTemplate", {}).get("spec", spec)["template"]["spec"]


def test_where_groups_differ_the_selector_says_the_processor(tmp_path: Path) -> None:
    """The group that a Job selects says it too, and a changed Job would run again; fixed groups do not differ."""
    found = selectors(record(stack("", BOTH, tmp_path)))

    assert {name: selector.get(ARCH) for name, selector in found.items()} == {
        **dict.fromkeys(("api", "train", "nightly"), "amd64"),
        **dict.fromkeys(("hub", "fit")),
    }
    assert {found[name]["ebbtide.dev/node-group"] for name in ("train", "nightly", "fit")} == {"flexible"}


@pytest.mark.parametrize(("arch", "said"), [("arm64", "arm64"), ("any", None)])
def test_what_the_file_says_is_selected(arch: str, said: str | None, tmp_path: Path) -> None:
    found = selectors(record(stack(arch, BOTH, tmp_path)))

    assert {found[name].get(ARCH) for name in ("api", "train", "nightly", "fit")} == {said}
    assert {found[name]["ebbtide.dev/node-group"] for name in ("train", "nightly", "fit")} == {"graviton"}


@pytest.mark.parametrize("types", ["m7i.2xlarge", "m7g.2xlarge"])
def test_groups_of_one_processor_change_nothing(types: str, tmp_path: Path) -> None:
    one = f"ebbtide:nodeGroups: {{ flexible: {{ instanceTypes: [{types}], max: 20 }} }}\n"
    two = one.replace("} }\n", f"}}, more: {{ kind: flexible, instanceTypes: [{types}], max: 9 }} }}\n")

    for groups in (one, two):
        assert not any(ARCH in selector for selector in selectors(record(stack("", groups, tmp_path))).values())


def test_a_ray_cluster_is_bound_in_its_own_spec(tmp_path: Path) -> None:
    ray = (
        "ebbtide:ray: { data: { version: '2.60.0', image: 'example.com/ray:2.60.0', head: { cpu: 1, memory: 4Gi }, "
        "groups: { cpu: { max: 4, cpu: 1, memory: 1Gi } }, longestTask: 1h } }\n"
    )
    (cluster,) = (one for one in record(loaded(shortest(more=BOTH + ray), tmp_path)) if kind_of(one) == "RayCluster")

    assert str(cluster.inputs).count(f'"{ARCH}"') == 1  # the workers', and not the head's
    assert f'"{ARCH}": "amd64"' in str(cluster.inputs).replace('":"', '": "')


def test_policies_find_the_nodes_of_such_pods(tmp_path: Path) -> None:
    settings = stack("", BOTH, tmp_path)
    resources = record(settings)
    state = StackState(settings, resources)

    homes = {pods.name: {group.name for group in state.groups_for(pods)} for pods in state.pods}
    assert (homes["api"], homes["train"]) == ({"flexible"}, {"flexible"})
    assert "EB013" not in {broken.code for broken in judge(settings, resources, date(2026, 11, 26))}


def test_a_pod_that_others_start_must_say_it_where_groups_differ(tmp_path: Path) -> None:
    hub = f"{{ category: fixed, image: 'example.com/h:1', cpu: 1, memory: 1Gi, kubernetes: {{ rules: {[*RULES]} }} }}"
    started: dict[str, str] = {}
    for groups in (BOTH, "ebbtide:nodeGroups: { flexible: { max: 4 } }\n"):
        found = record(loaded(shortest(more=f"{groups}ebbtide:workloads: {{ hub: {hub} }}"), tmp_path))
        (policy,) = (one for one in found if name_of(one) == "ebbtide-started-by-hub" and "Binding" not in one.type)
        started[groups] = next(
            it["message"] for it in policy.inputs["spec"]["validations"] if "nodeSelector" in it["message"]
        )

    both, one = started.values()
    assert "flexible, kubernetes.io/arch: amd64 or ebbtide.dev/node-kind: flexible, kubernetes.io/arch: arm64" in both
    assert "kubernetes.io/arch" not in one


def test_on_nodes_of_others_the_file_alone_says_it(tmp_path: Path) -> None:
    said = selectors(record(loaded(onprem(train="arch: arm64"), tmp_path)))["train"]
    (silent,) = (
        one for one in record(loaded(onprem(), tmp_path)) if name_of(one) == "train" and kind_of(one) == "Deployment"
    )

    assert said[ARCH] == "arm64"
    assert ARCH not in _pod(silent).get("nodeSelector", {})
