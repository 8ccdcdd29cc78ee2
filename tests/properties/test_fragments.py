"""With whatever fragment is accepted, placement, ownership and the promises to workers stay as they were."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from components.pods.worker_pool import WorkerPool, WorkerPoolArgs
from components.pods.workload import Workload, WorkloadArgs
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.placement import home_kind
from ebbtide.settings.fragment.findings import fragment_findings
from ebbtide.settings.fragment.promises import PodFacts
from ebbtide.settings.sections.pods.pod import Gpu
from ebbtide.settings.sections.workers import WORKER_CONTAINER
from ebbtide.vocabulary.labels import Category
from tests.builders.components import REDIS, STACK, recorded, the, worker_settings, workload_settings
from tests.builders.fragments import fragments
from tests.counts import examples

TERMS = ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution")
CALLED = {Category.FIXED: "api", Category.FLEXIBLE: "api", Category.WORKER: WORKER_CONTAINER}
SINGLE = (
    *("priorityClassName", "automountServiceAccountToken", "serviceAccountName"),
    *("nodeName", "schedulerName", "restartPolicy", "hostNetwork"),
)
"""Fields that are as Ebbtide says, or not there."""
OF_WORKERS = ("terminationGracePeriodSeconds", "shareProcessNamespace")
"""The same, of workers."""

ADDED_TO = ("securityContext", "volumeMounts")
"""Fields of the main container that a fragment may say more of."""


def deployment(category: Category, fragment: Mapping[str, Any], gpu: int) -> Mapping[str, Any]:
    if category is Category.WORKER:
        pool = WorkerPoolArgs(
            stack=STACK,
            name="train",
            settings=worker_settings(pod=fragment, gpu=Gpu(count=gpu)),
            redis=REDIS,
        )
        return the(recorded(lambda: WorkerPool("train", pool)), "Deployment").inputs
    workload = WorkloadArgs(
        name="api",
        namespace="ebbtide",
        stack=STACK,
        settings=workload_settings(category, pod=fragment, gpu=Gpu(count=gpu)),
        node_kind=NodeKind(home_kind(category, gpu)),
    )
    return the(recorded(lambda: Workload("api", workload)), "Deployment").inputs


@cache
def plain(category: Category, gpu: int) -> Mapping[str, Any]:
    return deployment(category, {}, gpu)


def without_pod(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Everything but the pod's spec: name, labels, selector, replicas, rollout."""
    template = {key: value for key, value in inputs["spec"]["template"].items() if key != "spec"}
    return {**inputs, "spec": {**inputs["spec"], "template": template}}


def terms(pod: Mapping[str, Any]) -> Sequence[Any]:
    return [(kind, how, term) for kind, side in pod["affinity"].items() for how in TERMS for term in side.get(how, ())]


@given(st.data(), st.sampled_from(list(Category)), st.sampled_from([0, 1]))
@settings(max_examples=examples(150), deadline=None)
def test_whatever_fragment_is_accepted_the_promises_hold(data: st.DataObject, category: Category, gpu: int) -> None:
    main = CALLED[category]
    fragment = data.draw(fragments(main))
    facts = PodFacts(main=main, category=category, minor="1.36")
    assume(not any(fragment_findings(fragment, (), facts)))

    own, whole = plain(category, gpu), deployment(category, fragment, gpu)
    ours, pod = own["spec"]["template"]["spec"], whole["spec"]["template"]["spec"]

    assert without_pod(whole) == without_pod(own)
    assert pod["nodeSelector"].items() >= ours["nodeSelector"].items()
    assert [one for one in ours["tolerations"] if one not in pod["tolerations"]] == []
    assert [one for one in terms(ours) if one not in terms(pod)] == []
    assert pod["topologySpreadConstraints"] == ours["topologySpreadConstraints"]
    single = (*SINGLE, *OF_WORKERS) if category is Category.WORKER else SINGLE
    assert {key: pod.get(key) for key in single} == {key: ours.get(key) for key in single}
    of_main, mains_own = pod["containers"][0], ours["containers"][0]
    assert {key: of_main[key] for key in mains_own if key not in ADDED_TO} == {
        key: value for key, value in mains_own.items() if key not in ADDED_TO
    }
    for container in (*pod["containers"], *pod.get("initContainers", ())):
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"].get("privileged", False) is False
        assert container["securityContext"]["capabilities"]["drop"][0] == "ALL"
        assert container["resources"]["limits"]["memory"] == container["resources"]["requests"]["memory"]
