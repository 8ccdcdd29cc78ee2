"""Laws of the advice on sizes."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.lab.advice.sizes.evidence import ContainerUsage, MeasuredAmount
from ebbtide.lab.advice.sizes.rules import ContainerRequests, ResourceName, decide
from tests.builders.evidence.of_sizes import EVIDENCE

AMOUNTS = st.integers(1, 500_000)
FIGURES = st.floats(0.1, 400_000).map(lambda amount: MeasuredAmount(amount, amount, amount))
USES = st.builds(
    ContainerUsage,
    days=st.integers(EVIDENCE.least, EVIDENCE.days),
    cpu=FIGURES,
    memory=FIGURES,
    growing=st.booleans(),
    kills=st.none() | st.integers(0, 5),
    killed_at=st.none() | AMOUNTS,
    throttled=st.none() | st.floats(0, 1),
    throttled_at=st.none() | AMOUNTS,
)
REQUESTS = st.builds(
    ContainerRequests,
    cpu=AMOUNTS,
    memory=AMOUNTS,
    careful=st.booleans(),
    whole_cores=st.booleans(),
    limits_cpu=st.booleans(),
    scaled_by=st.sets(st.sampled_from(ResourceName)).map(frozenset),
)
RESOURCES = st.sampled_from(ResourceName)


@given(RESOURCES, REQUESTS, USES)
def test_nothing_is_asked_for_below_what_was_seen(
    resource: ResourceName, asked: ContainerRequests, use: ContainerUsage
) -> None:
    verdict = decide(resource, asked, use, EVIDENCE)

    assert verdict.used is not None
    assert verdict.to >= verdict.used


@given(REQUESTS, USES)
def test_memory_is_never_lowered_after_a_kill_and_ends_above_what_was_too_little(
    asked: ContainerRequests, use: ContainerUsage
) -> None:
    verdict = decide(ResourceName.MEMORY, asked, use, EVIDENCE)

    if use.kills:
        assert verdict.to >= asked.memory
        assert verdict.to > (asked.memory if use.killed_at is None else use.killed_at)


@given(RESOURCES, REQUESTS, USES)
def test_advice_that_was_followed_is_nothing_to_do(
    resource: ResourceName, asked: ContainerRequests, use: ContainerUsage
) -> None:
    known = replace(use, killed_at=use.killed_at or 1, throttled_at=use.throttled_at or 1)
    to = decide(resource, asked, known, EVIDENCE).to
    followed = replace(asked, cpu=to) if resource is ResourceName.CPU else replace(asked, memory=to)

    assert not decide(resource, followed, known, EVIDENCE).changes


@given(RESOURCES, REQUESTS, USES, st.integers(0, EVIDENCE.least - 1))
def test_without_enough_evidence_nothing_changes(
    resource: ResourceName, asked: ContainerRequests, use: ContainerUsage, days: int
) -> None:
    assert not decide(resource, asked, replace(use, days=days), EVIDENCE).changes
