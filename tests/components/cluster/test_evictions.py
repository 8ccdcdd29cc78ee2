"""The evictions of workers that the policy's text allows; the control-plane tests evaluate it for real."""

import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.cluster.evictions import Evictions, EvictionsArgs, validations
from tests.builders.components import recorded, the
from tests.builders.stack import Recorded

NAMES = st.from_regex(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?", fullmatch=True)
GENERATED = "bcdfghjklmnpqrstvwxz2456789"
PART, LAST = (st.text(GENERATED, min_size=least, max_size=most) for least, most in ((5, 10), (5, 5)))


def least_grace(pod: str, graces: Mapping[str, int]) -> list[int]:
    """The minimum grace period of this pod's evictions, from the expressions."""
    found: list[int] = []
    for rule in validations(graces):
        parsed = re.fullmatch(r"\S+ >= (\d+) \|\| !request\.name\.matches\('(.*)'\)", str(rule["expression"]))
        assert parsed is not None
        if re.search(parsed[2], pod):
            found.append(int(parsed[1]))
    return found


@given(graces=st.dictionaries(NAMES, st.integers(60, 10**6), min_size=1), part=PART, last=LAST, data=st.data())
def test_every_worker_has_its_own_pools_grace(
    graces: dict[str, int], part: str, last: str, data: st.DataObject
) -> None:
    pool = data.draw(st.sampled_from(sorted(graces)))

    assert least_grace(f"{pool}-{part}-{last}", graces) == [graces[pool]]


@pytest.mark.parametrize("pod", ["other-6c54bd5869-x7k2p", "train", "train-large-6c54bd5869-x7k2p", "train-db-0"])
def test_a_pod_of_nobody_is_not_limited(pod: str) -> None:
    assert least_grace(pod, {"train": 600}) == []


def test_pools_with_one_grace_share_a_rule() -> None:
    assert len(validations({"prep": 600, "train": 600, "embed": 720})) == 2


def test_an_eviction_that_gives_no_grace_is_not_looked_at() -> None:
    policy = the(
        recorded(lambda: Evictions("e", EvictionsArgs(namespace="w", graces={"a": 60}))), "ValidatingAdmissionPolicy"
    ).inputs

    (condition,) = policy["spec"]["matchConditions"]
    assert "has(object.deleteOptions.gracePeriodSeconds)" in condition["expression"]


def test_the_policy_knows_the_grace_that_each_pools_pods_have(stack: Recorded) -> None:
    policy = stack.named("evictions-policy").inputs["spec"]
    pods = stack.named("train-deployment").inputs["spec"]["template"]["spec"]

    assert f">= {pods['terminationGracePeriodSeconds']} ||" in policy["validations"][0]["expression"]
    assert policy["matchConstraints"]["namespaceSelector"]["matchLabels"] == {
        "kubernetes.io/metadata.name": stack.named("train-deployment").inputs["metadata"]["namespace"]
    }
