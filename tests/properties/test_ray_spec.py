"""Laws of what is written of an awake Ray cluster's spec: nothing that runs is interrupted, whatever is wanted."""

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from controllers.workloads.ray.documents import declared_part, groups_of, merge_patch
from controllers.workloads.ray.sleep import RayClusterState, decide_sleep
from controllers.workloads.ray.spec import Phase, decide_spec
from ebbtide.vocabulary.workloads import Sleep, SleepWhen, Wake
from tests.builders.workloads.specs import group, spec

NAMES = ("a", "b", "c", "d")
IMAGES = st.sampled_from(["ray:1", "ray:2"])
VERSIONS = st.sampled_from(["2.60.0", "2.61.0"])
STRATEGIES = st.sampled_from([{}, {"scaleStrategy": {}}, {"scaleStrategy": {"workersToDelete": ["a-1"]}}])
TIMEOUTS = st.sampled_from([{}, {"idleTimeoutSeconds": 60}, {"idleTimeoutSeconds": 600}])


@st.composite
def specs(draw: st.DrawFn, *, live: bool) -> dict[str, Any]:
    groups: list[dict[str, Any]] = []
    for name in draw(st.permutations(NAMES))[: draw(st.integers(0, 4))]:
        most = draw(st.integers(0, 8))
        least = draw(st.integers(0, most))
        values = {"replicas": draw(st.integers(least, most)), **draw(STRATEGIES)} if live else {"replicas": least}
        groups.append(group(name, most, least=least, image=draw(IMAGES), **draw(TIMEOUTS), **values))
    return spec(*groups, image=draw(IMAGES), rayVersion=draw(VERSIONS))


def others(group: dict[str, Any]) -> dict[str, Any]:
    return {key: it for key, it in group.items() if key not in ("minReplicas", "maxReplicas", "idleTimeoutSeconds")}


@given(specs(live=True), specs(live=False))
def test_an_awake_write_moves_no_group_and_changes_no_value_template_or_running_worker(
    live: dict[str, Any], wanted: dict[str, Any]
) -> None:
    after = decide_spec(live, wanted, Phase.AWAKE).spec or live

    assert {**after, "workerGroupSpecs": []} == {**live, "workerGroupSpecs": []}
    for before, now in zip(groups_of(live), groups_of(after), strict=False):
        assert others(now) == others(before)
        assert now["maxReplicas"] >= before["replicas"]
        assert now["minReplicas"] <= now["maxReplicas"]
    assert len(groups_of(after)) >= len(groups_of(live))


@given(specs(live=True), specs(live=False))
def test_what_was_written_is_not_written_again(live: dict[str, Any], wanted: dict[str, Any]) -> None:
    after = decide_spec(live, wanted, Phase.AWAKE).spec or live

    assert decide_spec(after, wanted, Phase.AWAKE).spec is None
    whole = decide_spec(live, wanted, Phase.ASLEEP).spec or live
    assert decide_spec(whole, wanted, Phase.ASLEEP).spec is None


@given(specs(live=True), specs(live=False))
def test_what_is_neither_pending_nor_for_later_is_as_wanted(live: dict[str, Any], wanted: dict[str, Any]) -> None:
    decision = decide_spec(live, wanted, Phase.AWAKE)

    if not decision.pending and not decision.later:
        assert declared_part(decision.spec or live) == declared_part(wanted)
    assert declared_part(decide_spec(live, wanted, Phase.ASLEEP).spec or live) == declared_part(wanted)


JSON = st.recursive(
    st.integers() | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)


def merged(before: Any, patch: Any) -> Any:
    """RFC 7386, section 2."""
    if not isinstance(patch, dict):
        return patch
    after = {**cast("dict[str, Any]", before)} if isinstance(before, dict) else dict[str, Any]()
    for key, value in cast("dict[str, Any]", patch).items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = merged(after.get(key), value)
    return after


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_makes_of_one_document_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert merged(before, merge_patch(before, after)) == after


SEEN = st.builds(
    RayClusterState,
    suspended=st.just(False),
    hours_open=st.booleans(),
    idle_for=st.none(),
    drivers=st.sampled_from([True, False, None]),
    wake_asked=st.booleans(),
    pending=st.booleans(),
    paused=st.booleans(),
    kept=st.booleans(),
    doubt=st.sampled_from(["", "clock skew"]),
)
SLEEPS = st.builds(
    Sleep,
    when=st.sampled_from(SleepWhen),
    after=st.timedeltas(min_value=Sleep().after * 0),
    wake=st.frozensets(st.sampled_from(Wake)),
)


@given(SEEN, SLEEPS)
def test_what_is_not_known_to_be_idle_is_never_suspended(seen: RayClusterState, sleep: Sleep) -> None:
    assert not decide_sleep(seen, sleep).suspend
