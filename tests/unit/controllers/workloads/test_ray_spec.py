"""The parts of a Ray cluster's spec that may be written, and when."""

import json
from typing import Any

import pytest

from controllers.workloads.ray.documents import declared_spec, differences, merge_patch
from controllers.workloads.ray.spec import Phase, SpecDecision, decide_spec
from tests.builders.workloads.specs import group, pod, spec


def wanted(*groups: dict[str, Any], **more: Any) -> dict[str, Any]:
    return declared_spec(json.dumps(spec(*groups, **more)))


def live(*groups: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A spec that was written once, and whose groups were scaled since to `replicas`."""
    return spec(*({"replicas": 0, **each} for each in groups), **more)


def awake(before: dict[str, Any], after: dict[str, Any]) -> SpecDecision:
    return decide_spec(before, after, Phase.AWAKE)


def groups(decision: SpecDecision) -> list[tuple[str, int, int]]:
    """Name, replicas and maximum of each group that is to be written."""
    assert decision.spec is not None
    return [(it["groupName"], it["replicas"], it["maxReplicas"]) for it in decision.spec["workerGroupSpecs"]]


def test_an_empty_cluster_gets_the_entire_spec_with_its_groups_at_their_minimum() -> None:
    decision = decide_spec({}, wanted(group("a", least=2), group("b")), Phase.EMPTY)

    assert decision.reason == "spec-first"
    assert groups(decision) == [("a", 2, 5), ("b", 0, 5)]


def test_nothing_is_written_where_only_the_autoscaler_has_written() -> None:
    scaled = live(group("a", replicas=3, scaleStrategy={"workersToDelete": ["a-1"]}), suspend=False)

    assert awake(scaled, wanted(group("a"))) == SpecDecision()


def test_a_higher_maximum_is_written_at_once_and_what_the_autoscaler_wrote_is_carried_over() -> None:
    strategy = {"workersToDelete": ["a-1"]}
    decision = awake(live(group("a", 5, replicas=5, scaleStrategy=strategy)), wanted(group("a", 9)))

    assert groups(decision) == [("a", 5, 9)]
    assert decision.spec is not None
    assert decision.spec["workerGroupSpecs"][0]["scaleStrategy"] == strategy
    assert (decision.reason, decision.pending, decision.later) == ("spec-awake", (), ())


@pytest.mark.parametrize(("replicas", "applied"), [(5, 5), (4, 4), (2, 2), (1, 2)])
def test_a_lower_maximum_follows_the_workers_down(replicas: int, applied: int) -> None:
    decision = awake(live(group("a", 5, replicas=replicas), group("b", 1)), wanted(group("a", 2), group("b", 3)))

    assert groups(decision) == [("a", replicas, applied), ("b", 0, 3)]
    assert decision.later == (() if applied == 2 else ("group a: at most 2 when its workers have gone",))


def test_minimum_and_idle_timeouts_are_written_while_it_is_awake() -> None:
    before = live(group("a", idleTimeoutSeconds=300))
    after = wanted(group("a", least=1), autoscalerOptions={"version": "v2", "idleTimeoutSeconds": 600})
    decision = awake(before, after)

    assert decision.spec is not None
    (written,) = decision.spec["workerGroupSpecs"]
    assert (written["minReplicas"], "idleTimeoutSeconds" in written) == (1, False)
    assert decision.spec["autoscalerOptions"]["idleTimeoutSeconds"] == 600
    assert decision.pending == ()


def test_an_added_group_comes_last_whatever_its_wanted_place() -> None:
    decision = awake(live(group("a", replicas=2)), wanted(group("new"), group("a")))

    assert groups(decision) == [("a", 2, 5), ("new", 0, 5)]
    settled = awake(live(group("a"), group("new")), wanted(group("new"), group("a")))
    assert (settled.spec, settled.reason) == (None, "settling")
    assert settled.later == ("groups take their wanted order when the cluster sleeps",)


@pytest.mark.parametrize(
    ("after", "pending"),
    [
        (wanted(group("a"), group("new", image="ray:2")), ("workerGroupSpecs[new]",)),
        (wanted(group("a"), group("new"), rayVersion="2.61.0"), ("rayVersion", "workerGroupSpecs[new]")),
    ],
)
def test_a_group_of_another_ray_than_the_heads_waits(after: dict[str, Any], pending: tuple[str, ...]) -> None:
    decision = awake(live(group("a")), after)

    assert (decision.spec, decision.pending) == (None, pending)


def test_a_removed_group_gets_no_more_workers_and_keeps_its_place() -> None:
    decision = awake(live(group("gone", least=2, replicas=3), group("b", replicas=1)), wanted(group("b")))

    assert groups(decision) == [("gone", 3, 3), ("b", 1, 5)]
    assert decision.spec is not None
    assert decision.spec["workerGroupSpecs"][0]["minReplicas"] == 0
    assert (decision.pending, decision.later) == ((), ("group gone goes when the cluster sleeps",))


def test_a_changed_image_is_pending_and_says_where() -> None:
    decision = awake(live(group("a")), wanted(group("a", image="ray:2"), image="ray:2"))

    assert (decision.spec, decision.reason) == (None, "old-image")
    assert decision.pending == (
        "headGroupSpec.template.spec.containers[0].image",
        "workerGroupSpecs[a].template.spec.containers[0].image",
    )


@pytest.mark.parametrize(
    ("after", "path"),
    [
        (
            wanted(group("a", template=pod(cpu="2"))),
            "workerGroupSpecs[a].template.spec.containers[0].resources.requests.cpu",
        ),
        (wanted(group("a", rayStartParams={"num-gpus": "1"})), "workerGroupSpecs[a].rayStartParams.num-gpus"),
        (wanted(group("a"), authOptions={"mode": "token"}), "authOptions"),
        (wanted(group("a"), enableInTreeAutoscaling=False), "enableInTreeAutoscaling"),
    ],
)
def test_what_would_need_new_pods_is_pending(after: dict[str, Any], path: str) -> None:
    decision = awake(live(group("a")), after)

    assert (decision.spec, decision.reason, decision.pending) == (None, "old-spec", (path,))


def test_while_it_sleeps_everything_is_written() -> None:
    before = live(group("gone", replicas=3), group("b", replicas=1, scaleStrategy={"workersToDelete": ["b-1"]}))
    after = wanted(group("new"), group("b", least=1, image="ray:2"), image="ray:2")

    assert decide_spec({**before, "suspend": True}, after, Phase.ASLEEP) == SpecDecision(
        spec=after, reason="spec-whole"
    )
    assert decide_spec({**after, "suspend": True}, after, Phase.ASLEEP) == SpecDecision()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", r"wanted a JSON object, found '\[\]'"),
        ("{}", "headGroupSpec: wanted an object"),
        (json.dumps(spec(suspend=True)), "suspend: may not be in it"),
        (json.dumps(spec(upgradeStrategy={"type": "Recreate"})), "upgradeStrategy: may not be in it"),
        (json.dumps(spec(group("a", replicas=1))), r"workerGroupSpecs\[0\]: replicas: may not be in it"),
        (json.dumps(spec(group("a"), group("b", scaleStrategy={}))), r"\[1\]: scaleStrategy: may not be in it"),
        (json.dumps(spec(group("a"), group("a"))), "named twice: a"),
        (json.dumps(spec(group("a", 1, least=2))), "wanted 0 <= minReplicas <= maxReplicas, found 2 and 1"),
        (json.dumps(spec({"groupName": "a"})), "found 0 and None"),
        (json.dumps({**spec(), "workerGroupSpecs": {}}), "workerGroupSpecs: wanted a list"),
    ],
)
def test_what_no_cluster_can_be_is_refused_with_one_message(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        declared_spec(text)


def test_a_merge_patch_names_what_changes_and_nulls_what_goes() -> None:
    before = {"a": {"x": 1, "y": 2}, "gone": 1, "same": [1], "list": [{"n": 1}]}
    after = {"a": {"x": 1, "y": 3}, "same": [1], "list": [{"n": 2}], "new": {}}

    assert merge_patch(before, after) == {"a": {"y": 3}, "gone": None, "list": [{"n": 2}], "new": {}}
    assert merge_patch(after, after) == {}
    assert sorted(differences(before, after)) == ["a.y", "gone", "list[0].n", "new"]
