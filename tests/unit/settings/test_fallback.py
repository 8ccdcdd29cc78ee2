"""The fallback of a pool on spot nodes: who may have one, and in which order its groups grow."""

from datetime import timedelta
from pathlib import Path

import pytest

from components.cluster.autoscaler_settings import autoscaler_flags
from components.cluster.karpenter.pools import weights
from ebbtide.settings import StackSettings, warnings_of
from ebbtide.settings.capacity.fallbacks import NOTICED_WITHIN, first_backoff
from ebbtide.settings.capacity.packing import nodes_at_maximum
from ebbtide.settings.capacity.shapes_of_group import parts_of
from tests.builders.settings import loaded, problem_of, problems_of, shortest

SAVES = "checkpoints: { store: s3://acme-checkpoints, required: true }"
ON_SPOT = f"nodeGroup: gpu-spot, fallback: gpu, gpu: 1, {SAVES}"
FEW, MANY = "g6e.2xlarge", "g6e.2xlarge, g6e.4xlarge, g5.2xlarge, g5.4xlarge, g6.4xlarge"


def stack(train: str = ON_SPOT, *, groups: str = "", types: str = FEW, cluster: str = "", spot: str = "") -> str:
    return shortest(
        train=train,
        more=f"""
            ebbtide:cluster: {{ zones: [a, b], {cluster} }}
            ebbtide:nodeGroups:
              gpu: {{ instanceTypes: [g6e.2xlarge], max: 8 }}
              gpu-spot: {{ kind: spot, instanceTypes: [{types}], max: 10, {spot} }}
              spot: {{ max: 8 }}
              {groups}
        """,
    )


def settings(folder: Path, **given: str) -> StackSettings:
    return loaded(stack(**given), folder)


@pytest.mark.parametrize(
    ("train", "groups", "code", "told"),
    [
        (f"nodeGroup: gpu-spot, fallback: gpus, gpu: 1, {SAVES}", "", "name.unknown", "did you mean gpu?"),
        (f"nodeGroup: gpu-spot, fallback: flexible, gpu: 1, {SAVES}", "flexible: {}", "fallback.kind", "kind gpu"),
        (f"nodeGroup: gpu-spot, fallback: spot, gpu: 1, {SAVES}", "", "fallback.kind", "kind gpu"),
        (f"nodeGroup: spot, fallback: gpu, {SAVES}", "", "fallback.kind", "kind flexible"),
        (f"nodeGroup: spot, fallback: fixed, {SAVES}", "fixed: {}", "fallback.kind", "kind flexible"),
        (f"nodeGroup: gpu, fallback: gpu, gpu: 1, {SAVES}", "", "fallback.not-on-spot", "kind gpu"),
        (
            f"nodeGroup: gpu-spot, fallback: cheap, gpu: {{ count: 1, memory: 40Gi }}, {SAVES}",
            "cheap: { kind: gpu, instanceTypes: [g5.2xlarge], max: 2 }",
            "fallback.unsuitable",
            "gpu.memory",
        ),
        (
            f"nodeGroup: gpu-spot, fallback: small, gpu: 1, ephemeralStorage: 60Gi, {SAVES}",
            "small: { kind: gpu, instanceTypes: [g6e.2xlarge], max: 2, diskSize: 50 }",
            "fallback.unsuitable",
            "ephemeralStorage",
        ),
        (
            f"nodeGroup: spot, fallback: arm, {SAVES}",
            "arm: { kind: flexible, instanceTypes: [m7g.2xlarge], max: 2 }",
            "fallback.architecture",
            "arm64",
        ),
        (
            f"nodeGroup: spot, fallback: small, {SAVES}",
            "small: { kind: flexible, instanceTypes: [m7i.xlarge], max: 2 }",
            "pod.too-large",
            "a node of group small too",
        ),
        (
            f"nodeGroup: spot, fallback: karp, {SAVES}",
            "karp: { kind: flexible, instanceTypes: [m7i.2xlarge], max: 2, provisioner: karpenter }",
            "fallback.provisioner",
            "cluster-autoscaler",
        ),
    ],
)
def test_a_fallback_that_cannot_take_the_workers_is_refused(
    train: str, groups: str, code: str, told: str, tmp_path: Path
) -> None:
    spot = "diskSize: 100"

    assert problem_of(stack(train, groups=groups, spot=spot), tmp_path).tells(code, "workers.train", told)


def test_a_spot_group_with_a_minimum_never_gives_up_and_so_has_no_fallback(tmp_path: Path) -> None:
    refused = problem_of(stack(spot="min: 2"), tmp_path)

    assert refused.tells("fallback.spot-min", "workers.train.fallback", "min: 0 of gpu-spot", "min: 2")


def test_an_image_for_both_processors_may_fall_back_to_the_other(tmp_path: Path) -> None:
    arm = "arm: { kind: flexible, instanceTypes: [m7g.2xlarge], max: 2 }"

    assert settings(tmp_path, train=f"nodeGroup: spot, fallback: arm, arch: any, {SAVES}", groups=arm)


def test_on_an_existing_cluster_there_is_no_fallback(tmp_path: Path) -> None:
    existing = """
        ebbtide:cluster:
          kind: existing
          context: onprem
          nodeSelectors: { fixed: { a: b }, flexible: { a: c }, spot: { a: d } }
    """
    text = shortest(train=f"nodeGroup: spot, fallback: flexible, {SAVES}", more=existing)

    assert [problem.code for problem in problems_of(text, tmp_path)] == ["fallback.existing-cluster"]


@pytest.mark.parametrize("priority", [0, 99])
def test_spot_grows_before_its_fallback_whatever_the_priorities_and_other_spot_groups_stay_last(
    priority: int, tmp_path: Path
) -> None:
    groups = settings(tmp_path, groups=f"also: {{ kind: gpu, max: 4, priority: {priority} }}").node_groups
    order = sorted(groups, key=lambda name: groups[name].growth_priority, reverse=True)

    assert (order[0], order[-1]) == ("gpu-spot", "spot")
    assert {part.growth_priority for part in parts_of("gpu-spot", groups["gpu-spot"]).values()} == {
        groups["gpu-spot"].growth_priority
    }


def test_karpenters_weights_have_the_same_order(tmp_path: Path) -> None:
    ordered = weights(settings(tmp_path, cluster="provisioner: karpenter").karpenter_groups)

    assert ordered["gpu-spot"] > ordered["gpu"] > ordered["spot"]


def test_pods_overflow_to_the_fallback_once_the_spot_group_is_full(tmp_path: Path) -> None:
    few = nodes_at_maximum(settings(tmp_path))
    many = nodes_at_maximum(loaded(stack().replace("max: 4, cpu: 4", "max: 15, cpu: 4"), tmp_path))

    assert (few["gpu-spot"], few["gpu"]) == (4, 0)
    assert (many["gpu-spot"], many["gpu"]) == (10, 5)


def test_the_first_pause_lasts_until_every_shape_and_zone_has_failed(tmp_path: Path) -> None:
    def flag(stack: StackSettings) -> str | None:
        return autoscaler_flags(stack).get("initial-node-group-backoff-duration")

    few, many = settings(tmp_path, types=FEW), settings(tmp_path, types=MANY)
    without = settings(tmp_path, types=MANY, train=f"nodeGroup: gpu-spot, gpu: 1, {SAVES}")

    assert (first_backoff(few), flag(few)) == (timedelta(minutes=5), None)
    assert first_backoff(many) == NOTICED_WITHIN * len(parts_of("gpu-spot", many.node_groups["gpu-spot"])) * 2
    assert flag(many) == "16m0s"
    assert (first_backoff(without), flag(without)) == (timedelta(minutes=5), None)
    assert first_backoff(settings(tmp_path, types=MANY, cluster="provisioner: karpenter")) == timedelta(minutes=5)


def in_three_zones(folder: Path, **given: str) -> StackSettings:
    return loaded(stack(**given).replace("zones: [a, b]", "zones: [a, b, c]").replace("max: 10", "max: 90"), folder)


FIVE_SIZES = "g5.2xlarge, g5.4xlarge, g5.8xlarge, g6e.2xlarge, g6e.4xlarge"


@pytest.mark.parametrize(
    ("types", "cluster", "minutes", "warned"),
    [
        (MANY, "", 24, False),
        (FIVE_SIZES, "", 30, False),
        (f"{FIVE_SIZES}, g6e.8xlarge", "", 30, True),
        (f"{FIVE_SIZES}, g6e.8xlarge", "provisioner: karpenter", 5, False),
    ],
)
def test_a_fallback_behind_more_groups_than_the_longest_pause_covers_is_told(
    types: str, cluster: str, minutes: int, warned: bool, tmp_path: Path
) -> None:
    stack = in_three_zones(tmp_path, types=types, cluster=cluster)
    told = [caution for caution in warnings_of(stack) if caution.code == "spot.late-fallback"]

    assert first_backoff(stack) == timedelta(minutes=minutes)
    assert [caution.place for caution in told] == (["nodeGroups.gpu-spot.instanceTypes"] if warned else [])
    assert all("18 Auto Scaling groups" in caution.text and "at most 15 sizes" in caution.text for caution in told)


@pytest.mark.parametrize(
    ("train", "warned"),
    [
        (f"nodeGroup: spot, fallback: flexible, {SAVES}", ["nodeGroups.spot"]),
        (f"nodeGroup: spot, {SAVES}", []),
        (ON_SPOT, []),
    ],
)
def test_a_spot_group_that_then_grows_first_for_all_pods_is_told(train: str, warned: list[str], tmp_path: Path) -> None:
    told = warnings_of(settings(tmp_path, train=train))

    assert [caution.place for caution in told if caution.code == "spot.grows-first"] == warned
