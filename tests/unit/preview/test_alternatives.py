"""Cheaper places by packing alone, with prices worked out by hand: US dollars an hour in us-east-1."""

from pathlib import Path

import pytest

from ebbtide.preview.cost.alternatives import Alternative, cheaper_places, hourly_usd
from ebbtide.settings.capacity.process_documents import sleepers_of
from tests.builders.existing import onprem
from tests.builders.settings import loaded, shortest

# An hour of g5.2xlarge costs 1.212, of g6.2xlarge 0.9776; both have one GPU, so three pods take three nodes.
# The two fixed nodes, m7i.xlarge, cost 2 * 0.2016.
GPUS = """\
ebbtide:nodeGroups:
  fixed: { instanceTypes: [m7i.xlarge], min: 2, max: 4 }
  flexible: { instanceTypes: [m7i.2xlarge], max: 20 }
  a10: { kind: gpu, instanceTypes: [g5.2xlarge], max: 8A10 }
  l4: { kind: gpu, instanceTypes: [g6.2xlarge], max: 8L4 }
ebbtide:workloads:
  triton: { category: flexible, image: 'example.com/triton:1', replicas: 3, cpu: 4, memory: 16Gi, gpu: 1 }
"""
FIXED = 2 * 0.2016
SLEEP = "sleep: { when: outsideBusinessHours }"
YEAR = 2026


def found(text: str, folder: Path) -> tuple[Alternative, ...]:
    return cheaper_places(loaded(shortest(more=text), folder), YEAR)


def awake_share(folder: Path) -> float:
    """Awake on the 261 working days of 2026, from the start of a node and a pod before 08:00 until 18:00."""
    (policy,) = sleepers_of(loaded(shortest(more=gpus().replace("gpu: 1 }", f"gpu: 1, {SLEEP} }}")), folder))
    return 261 * (10 + policy.lead.total_seconds() / 3600) / (365 * 24)


def gpus(a10: str = "", l4: str = "") -> str:
    return GPUS.replace("A10", a10).replace("L4", l4)


def test_a_priority_that_moves_a_service_to_the_cheap_group(tmp_path: Path) -> None:
    (only,) = found(gpus(), tmp_path)

    assert (only.key, only.line) == ("nodeGroups.l4", "priority: 10")
    assert only.before.always == pytest.approx(FIXED + 3 * 1.212)
    assert only.after.always == pytest.approx(FIXED + 3 * 0.9776)
    assert only.for_pods_that_always_run
    assert only.share == pytest.approx(3 * (1.212 - 0.9776) / (FIXED + 3 * 1.212))


def test_the_line_is_what_it_takes(tmp_path: Path) -> None:
    """The file with the line has the price that the alternative states, and nothing more to say."""
    (only,) = found(gpus(a10=", priority: 20"), tmp_path)
    written = loaded(shortest(more=gpus(a10=", priority: 20", l4=f", {only.line}")), tmp_path)

    assert only.line == "priority: 30"
    assert hourly_usd(written, YEAR) == only.after
    assert cheaper_places(written, YEAR) == ()


def test_a_cheap_group_that_holds_some_of_the_pods(tmp_path: Path) -> None:
    """Two pods go to the cheap group, the third stays on the dear one."""
    (only,) = found(gpus().replace("[g6.2xlarge], max: 8", "[g6.2xlarge], max: 2"), tmp_path)

    assert only.before.always - only.after.always == pytest.approx(2 * (1.212 - 0.9776))
    assert only.after.lacking == 0


@pytest.mark.parametrize(
    ("types", "line"),
    [
        ("m7a.4xlarge, m7i.4xlarge", "instanceTypes: [m7i.4xlarge, m7a.4xlarge]"),
        ("m7i.4xlarge, m7a.4xlarge", ""),
        ("m7i.4xlarge, m6i.4xlarge", ""),
    ],
    ids=["cheaper", "dearer", "cheaper, but an older generation"],
)
def test_the_cheapest_type_that_is_no_older_comes_first(types: str, line: str, tmp_path: Path) -> None:
    """An m7a.4xlarge costs 0.92736, an m7i.4xlarge 0.8064, an m6i.4xlarge 0.768. Four workers need two nodes."""
    text = f"ebbtide:nodeGroups:\n  flexible: {{ instanceTypes: [{types}], max: 20 }}\n"
    alternatives = found(text, tmp_path)

    assert [alternative.line for alternative in alternatives] == ([line] if line else [])
    for alternative in alternatives:
        assert alternative.before.at_most - alternative.after.at_most == pytest.approx(2 * (0.92736 - 0.8064))
        assert not alternative.for_pods_that_always_run


def test_a_pool_on_a_dear_group(tmp_path: Path) -> None:
    """Four workers need two nodes: m7i.4xlarge at 0.8064, or r7i.4xlarge at 1.0584."""
    text = """\
ebbtide:nodeGroups:
  flexible: { instanceTypes: [m7i.4xlarge], max: 20 }
  dear: { kind: flexible, instanceTypes: [r7i.4xlarge], max: 20 }
"""
    settings = loaded(shortest(train="nodeGroup: dear", more=text), tmp_path)
    (only,) = cheaper_places(settings, YEAR)

    assert (only.key, only.line) == ("workers.train", "nodeGroup: flexible")
    assert only.before.at_most - only.after.at_most == pytest.approx(2 * (1.0584 - 0.8064))
    assert hourly_usd(loaded(shortest(train=only.line, more=text), tmp_path), YEAR) == only.after


def test_without_prices_there_is_nothing_to_say(tmp_path: Path) -> None:
    assert hourly_usd(loaded(onprem(), tmp_path), YEAR) is None
    assert cheaper_places(loaded(onprem(), tmp_path), YEAR) == ()


def test_a_pool_is_not_sent_where_its_workers_have_no_room(tmp_path: Path) -> None:
    """Eight workers need three nodes, and the cheap group has two."""
    text = """\
ebbtide:nodeGroups:
  flexible: { instanceTypes: [m7i.4xlarge], max: MOST }
  dear: { kind: flexible, instanceTypes: [r7i.4xlarge], max: 20 }
"""
    stack = shortest(train="nodeGroup: dear", more=text).replace("max: 4, cpu: 4", "max: 8, cpu: 4")
    full, enough = (cheaper_places(loaded(stack.replace("MOST", most), tmp_path), YEAR) for most in ("2", "3"))

    assert (len(full), len(enough)) == (0, 1)


@pytest.mark.parametrize(
    "kind",
    ["kind: gpu, provisioner: karpenter", "kind: flexible, provisioner: karpenter", "kind: spot"],
    ids=["of Karpenter with GPUs", "of Karpenter", "on spot"],
)
def test_the_order_of_types_is_worth_nothing_where_the_provisioner_does_not_go_by_it(kind: str, tmp_path: Path) -> None:
    gpu = "gpu" in kind
    types = ["g5.2xlarge", "g6.2xlarge"] if gpu else ["m7a.4xlarge", "m7i.4xlarge", "m6i.4xlarge", "m6a.4xlarge"]
    text = f"""\
ebbtide:nodeGroups:
  fixed: {{ instanceTypes: [m7i.xlarge], min: 2, max: 4 }}
  flexible: {{ instanceTypes: [m7i.2xlarge], max: 20 }}
  one: {{ {kind}, instanceTypes: [{", ".join(types)}], max: 8, priority: 10 }}
  other: {{ {kind}, instanceTypes: [{", ".join(reversed(types))}], max: 8 }}
"""
    train = (
        "gpu: 1, nodeGroup: one, min: 1"
        if gpu
        else "nodeGroup: one, min: 1, checkpoints: { required: true, store: s3://a-b/c }"
    )
    settings = loaded(shortest(train=train, more=text), tmp_path)

    assert [place.written for place in cheaper_places(settings, YEAR)] == []


def test_another_first_type_replaces_nodes_and_is_not_proposed_for_fixed_ones(tmp_path: Path) -> None:
    text = """\
ebbtide:nodeGroups:
  fixed: { instanceTypes: [m7a.xlarge, m7i.xlarge], min: 2, max: 4 }
  flexible: { instanceTypes: [m7a.4xlarge, m7i.4xlarge], max: 20 }
"""
    line = "write instanceTypes: [m7i.4xlarge, m7a.4xlarge] at nodeGroups.flexible, which replaces its nodes"

    assert [place.written for place in found(text, tmp_path)] == [line]


def test_between_a_high_priority_and_the_highest_one_there_is_room(tmp_path: Path) -> None:
    (only,) = found(gpus(a10=", priority: 95"), tmp_path)

    assert only.line == "priority: 99"


def test_a_type_without_a_price_is_not_a_first_type(tmp_path: Path) -> None:
    """The tables have no price for m7a.2xlarge in sa-east-1."""
    text = shortest(more="ebbtide:nodeGroups: { flexible: { instanceTypes: [m6i.2xlarge, m7a.2xlarge], max: 20 } }")
    settings = loaded(text, tmp_path).model_copy(update={"region": "sa-east-1"})

    assert cheaper_places(settings, YEAR) == ()


def test_what_sleeps_saves_only_while_it_is_awake(tmp_path: Path) -> None:
    (awake,), (asleep,) = found(gpus(), tmp_path), found(gpus().replace("gpu: 1 }", f"gpu: 1, {SLEEP} }}"), tmp_path)

    assert (asleep.key, asleep.line) == (awake.key, awake.line)
    assert asleep.usd_per_hour == pytest.approx(awake.usd_per_hour * awake_share(tmp_path))


def test_an_adopted_pool_counts_with_its_minimum(tmp_path: Path) -> None:
    """Three workers to a node of 16 CPUs: four need two nodes."""
    pool = "pool: { source: { queues: [scan] }, min: 4, max: 4, longestJob: 1h }"
    rule = f"namespace: team, selector: {{ app: scan }}, category: worker, cpu: 5, memory: 2Gi, {pool}"
    text = """\
ebbtide:cluster: { version: "1.36" }
ebbtide:nodeGroups: { flexible: { instanceTypes: [m7i.4xlarge], max: 20 }, fixed: { min: 2, max: 4 } }
"""
    without, with_pool = (
        hourly_usd(loaded(shortest(more=text + more), tmp_path), YEAR)
        for more in ("", f"ebbtide:adopted: {{ scan: {{ {rule} }} }}")
    )

    assert without is not None
    assert with_pool is not None
    assert with_pool.always - without.always == pytest.approx(2 * 0.8064)
