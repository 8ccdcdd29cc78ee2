"""Which pods a taint keeps off, as in Kubernetes' `ToleratesTaint`."""

import pytest

from ebbtide.kube.taints import GPU_TAINT, Taint, Toleration, gpu_tolerations, taint_of, toleration_of

DEDICATED = Taint("dedicated", "ml")


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        ({"key": "dedicated", "operator": "Equal", "value": "ml", "effect": "NoSchedule"}, True),
        ({"key": "dedicated", "value": "ml"}, True),
        ({"key": "dedicated", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "dedicated"}, False),
        ({"key": "dedicated", "value": "web"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_a_toleration_matches_by_key_value_and_effect(toleration: dict[str, str], *, tolerates: bool) -> None:
    assert toleration_of(toleration).tolerates(DEDICATED) is tolerates


def test_a_preference_keeps_no_pod_off() -> None:
    assert not Taint("dedicated", effect="PreferNoSchedule").repels
    assert not taint_of({"key": "dedicated", "effect": "PREFER_NO_SCHEDULE"}).repels
    assert taint_of({"key": "dedicated", "effect": "NO_EXECUTE"}).repels


@pytest.mark.parametrize("effect", ["NO_SCHEDULE", "NO_EXECUTE", "PREFER_NO_SCHEDULE"])
def test_the_taint_of_a_managed_group_keeps_its_notation(effect: str) -> None:
    assert taint_of({"key": "a", "value": "b", "effect": effect}).eks_effect == effect


@pytest.mark.parametrize("toleration", [Toleration("a"), Toleration("a", ""), Toleration(), Toleration("a", "b", "c")])
def test_a_toleration_survives_the_api(toleration: Toleration) -> None:
    assert toleration_of(toleration.document) == toleration


@pytest.mark.parametrize(
    ("resource", "tolerated"),
    [
        ("nvidia.com/gpu", {GPU_TAINT}),
        ("nvidia.com/mig-1g.10gb", {GPU_TAINT, Taint("nvidia.com/mig-1g.10gb", "any")}),
        ("amd.com/gpu", {Taint("amd.com/gpu")}),
    ],
)
def test_a_pod_with_gpus_tolerates_the_taints_of_its_devices(resource: str, tolerated: set[Taint]) -> None:
    others = {Taint("nvidia.com/gpu", "present"), Taint("dedicated"), Taint("nvidia.com/gpu", "true", "NoExecute")}
    asked = {GPU_TAINT, Taint("nvidia.com/mig-1g.10gb", "any"), Taint("amd.com/gpu"), *others}

    assert {taint for taint in asked if taint.tolerated_by(gpu_tolerations(resource))} == tolerated
