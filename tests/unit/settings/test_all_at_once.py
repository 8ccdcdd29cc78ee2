"""All faults of a section are reported together, without those that follow from an invalid section."""

from collections import Counter
from pathlib import Path

import pytest

from tests.builders.settings import problem_of, problems_of, shortest

MANY_FAULTS = """\
config:
  aws:region: the moon
  ebbtide:customer: Acme Corp
  ebbtide:customers: [acme]
  ebbtide:businessHours:
    timezone: America/NewYork
    week: { mon-thu: "19:00-08:00", wed: "09:00-10:00, 8-9", fri: "08:00-12:00, 11:00-17:00", saturday: "8-9" }
    holidays: { country: US, subdivision: XX, closed: ["2026-12-24"], open: ["2026-12-24"], colour: blue }
    overnight: [{ pool: trian, at: "25:00", for: 30h, workers: 0 }, { pool: huge, at: "02:00", for: 2, workers: 9 }]
  ebbtide:cluster: { version: 1.35, zones: [a, a, i], color: blue }
  ebbtide:nodeGroups:
    fixed: { instanceTypes: [m7i.2xlarg, g5.2xlarge], min: 5, max: 2 }
    flexible: { instanceTypes: [m7i.4xlarge, m7i.4xlarge, 12], max: 1, size: 3 }
    spot: { max: many }
    Cheap: { kind: spott, instanceTypes: [m7i.4xlarge], min: 4, max: 3 }
  ebbtide:redis: { kind: elasticsearch, url: "http://redis", password: clear }
  ebbtide:controller: { image: "", closingGuard: 0s, nodeStartup: 5 }
  ebbtide:workloads:
    api: { category: flexible, image: "a:1", cpu: 40, memory: lots, replicas: 0 }
    head: { category: fixed, image: "", replicasOwner: hpa, cpu: 1, memory: 2Gi, gpu: "1" }
  ebbtide:workers:
    train:
      { source: { queues: [a, "b c"] }, image: i, max: 4, min: 5, cpu: 4, memory: 9Gi, nodeGroup: spot, longestJob: 2h }
    huge: { source: { kind: huey, queues: [x, a] }, image: "a:1", max: 4, cpu: 400, memory: 16Gi, longestJob: -1h }
    lost:
      { source: { queues: [x] }, image: i, max: 4, cpu: 4, memory: 99Ti, longestJob: 1h, nodeGroup: big, colour: blue }
  ebbtide:costs:
    tags: { "owner!": ml, aws:team: ml, ebbtide.dev/customer: other }
    pricingAssumption: spot
    expectedNodeHours: { flexibel: many }
"""

EVERY_PATH = {
    "aws:region": 1,
    "ebbtide:customer": 1,
    "ebbtide:customers": 1,
    "ebbtide:businessHours.timezone": 1,
    "ebbtide:businessHours.week": 2,  # wed twice, friday's overlap
    "ebbtide:businessHours.week.mon-thu": 1,
    "ebbtide:businessHours.week.wed": 1,
    "ebbtide:businessHours.week.saturday": 2,  # no day, and no interval
    "ebbtide:businessHours.holidays.subdivision": 1,
    "ebbtide:businessHours.holidays.open": 1,
    "ebbtide:businessHours.holidays.colour": 1,
    "ebbtide:businessHours.overnight[0].at": 1,
    "ebbtide:businessHours.overnight[0].for": 1,
    "ebbtide:businessHours.overnight[0].workers": 1,
    "ebbtide:businessHours.overnight[1].for": 1,
    "ebbtide:cluster.version": 1,
    "ebbtide:cluster.zones": 1,
    "ebbtide:cluster.zones[2]": 1,
    "ebbtide:cluster.color": 1,
    "ebbtide:nodeGroups.fixed.instanceTypes[0]": 1,
    "ebbtide:nodeGroups.fixed.min": 1,
    "ebbtide:nodeGroups.flexible.instanceTypes": 1,
    "ebbtide:nodeGroups.flexible.instanceTypes[2]": 1,
    "ebbtide:nodeGroups.flexible.size": 1,
    "ebbtide:nodeGroups.spot.max": 1,
    "ebbtide:nodeGroups.Cheap": 1,
    "ebbtide:nodeGroups.Cheap.kind": 1,
    "ebbtide:nodeGroups.Cheap.min": 1,
    "ebbtide:redis.kind": 1,
    "ebbtide:redis.url": 1,
    "ebbtide:redis.password": 1,
    "ebbtide:controller.image": 1,
    "ebbtide:controller.closingGuard": 1,
    "ebbtide:controller.nodeStartup": 1,
    "ebbtide:workloads.api.memory": 1,
    "ebbtide:workloads.api.replicas": 1,
    "ebbtide:workloads.head.image": 1,
    "ebbtide:workloads.head.replicasOwner": 1,
    "ebbtide:workloads.head.gpu": 1,
    "ebbtide:workers.train.source.queues[1]": 1,
    "ebbtide:workers.train.min": 1,
    "ebbtide:workers.huge.source.kind": 1,
    "ebbtide:workers.huge.longestJob": 1,
    "ebbtide:workers.lost.colour": 1,
    "ebbtide:costs.tags.owner!": 1,
    "ebbtide:costs.tags.aws:team": 1,
    "ebbtide:costs.tags.ebbtide.dev/customer": 1,
    "ebbtide:costs.pricingAssumption": 1,
    "ebbtide:costs.expectedNodeHours.flexibel": 1,
}


def test_a_file_full_of_faults_is_told_every_one_and_each_once(tmp_path: Path) -> None:
    paths = Counter(problem.path for problem in problems_of(MANY_FAULTS, tmp_path))

    assert paths == EVERY_PATH


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        (shortest(train="min: 9, maxx: 3"), ["train.maxx", "train.min"]),
        # its size, its queue and its group are looked at once all pools could be read
        (shortest(train="nodeGroup: 7").replace("cpu: 4,", "cpu: 400,"), ["train.nodeGroup"]),
        (shortest(train="gpu: two, nodeGroup: gpu"), ["train.gpu"]),
        (
            shortest()
            + "    eval: { source: { kind: huey, queues: [train] }, image: a, max: 1, cpu: 1, memory: 1Gi }\n",
            ["eval.longestJob", "eval.source.kind"],
        ),
    ],
)
def test_a_section_that_could_not_be_read_has_no_consequences(text: str, paths: list[str], tmp_path: Path) -> None:
    assert [problem.path.removeprefix("ebbtide:workers.") for problem in problems_of(text, tmp_path)] == paths


def test_a_fault_of_one_section_hides_none_of_another(tmp_path: Path) -> None:
    text = shortest(train="cpus: 3", more="ebbtide:nodeGroups: { flexible: { max: 1 } }\nebbtide:costs: { x: 1 }")

    assert [problem.path for problem in problems_of(text, tmp_path)] == [
        "ebbtide:workers.train.cpus",
        "ebbtide:nodeGroups.flexible.max",
        "ebbtide:costs.x",
    ]


@pytest.mark.parametrize(
    ("group", "paths"),
    [
        ("fixed: { instanceTypes: [m7i.2xlarg], min: 5, max: 2 }", ["fixed.instanceTypes[0]", "fixed.min"]),
        ("fixed: { max: true }", ["fixed.max"]),  # the default of min follows from max, and must not be blamed
        ("fixed: { max: 0 }", ["fixed.max"]),
        ("fixed: { min: 0, max: many }", ["fixed.max", "fixed.min"]),
        ("big: { max: 1, instanceTypes: [m7i.large] }", ["big.kind"]),
    ],
)
def test_a_group_is_checked_by_what_can_be_read_of_it(group: str, paths: list[str], tmp_path: Path) -> None:
    problems = problems_of(shortest(more=f"ebbtide:nodeGroups: {{ {group} }}"), tmp_path)

    assert [problem.path.removeprefix("ebbtide:nodeGroups.") for problem in problems] == paths


@pytest.mark.parametrize("groups", ["flexible: { kind: flexibel }", "flexible: { instanceTypes: [m7i.4xlrge] }"])
def test_a_pod_is_not_blamed_while_its_group_is_unknown(groups: str, tmp_path: Path) -> None:
    text = shortest(more=f"ebbtide:nodeGroups: {{ {groups} }}").replace("cpu: 4,", "cpu: 40,")

    assert problem_of(text, tmp_path).startswith(":6: ebbtide:nodeGroups.flexible.")


def test_a_section_without_names_leaves_no_name_to_miss(tmp_path: Path) -> None:
    more = "ebbtide:nodeGroups: [big]\nebbtide:costs: { expectedNodeHours: { big: 3 } }"

    assert problem_of(shortest(train="nodeGroup: big", more=more), tmp_path).tells("type.mapping")


def test_a_pool_with_a_fault_may_still_need_the_gpu_group_that_others_name(tmp_path: Path) -> None:
    text = shortest(train="gpu: 1, safeStop: 3", more="ebbtide:costs: { expectedNodeHours: { gpu: 5 } }")

    assert "safeStop" in problem_of(text, tmp_path)
