"""One fault hides no other: whatever else is wrong with an entry, its own and its neighbours' faults are told."""

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
    "ebbtide:businessHours.overnight[0].pool": 1,
    "ebbtide:businessHours.overnight[0].at": 1,
    "ebbtide:businessHours.overnight[0].for": 1,
    "ebbtide:businessHours.overnight[0].workers": 1,
    "ebbtide:businessHours.overnight[1].for": 1,
    "ebbtide:businessHours.overnight[1].workers": 1,
    "ebbtide:cluster.version": 1,
    "ebbtide:cluster.zones": 1,
    "ebbtide:cluster.zones[2]": 1,
    "ebbtide:cluster.color": 1,
    "ebbtide:nodeGroups.fixed.instanceTypes": 1,  # GPUs on fixed nodes
    "ebbtide:nodeGroups.fixed.instanceTypes[0]": 1,
    "ebbtide:nodeGroups.fixed.min": 1,
    "ebbtide:nodeGroups.flexible.instanceTypes": 1,
    "ebbtide:nodeGroups.flexible.instanceTypes[2]": 1,
    "ebbtide:nodeGroups.flexible.max": 1,
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
    "ebbtide:workloads.api": 1,  # too many CPUs for any node, however much memory it wants
    "ebbtide:workloads.api.memory": 1,
    "ebbtide:workloads.api.replicas": 1,
    "ebbtide:workloads.head.image": 1,
    "ebbtide:workloads.head.replicasOwner": 1,
    "ebbtide:workloads.head.gpu": 1,
    "ebbtide:workers.train.source.queues[1]": 1,
    "ebbtide:workers.train.min": 1,
    "ebbtide:workers.train.longestJob": 1,
    "ebbtide:workers.huge": 1,
    "ebbtide:workers.huge.source.kind": 1,
    "ebbtide:workers.huge.source.queues[1]": 1,
    "ebbtide:workers.huge.longestJob": 1,
    "ebbtide:workers.lost": 1,
    "ebbtide:workers.lost.source.queues[0]": 1,
    "ebbtide:workers.lost.nodeGroup": 1,
    "ebbtide:workers.lost.colour": 1,
    "ebbtide:costs.tags.owner!": 1,
    "ebbtide:costs.tags.aws:team": 1,
    "ebbtide:costs.tags.ebbtide.dev/customer": 1,
    "ebbtide:costs.pricingAssumption": 1,
    "ebbtide:costs.expectedNodeHours.flexibel": 2,  # no number, and no group
}


def test_a_file_full_of_faults_is_told_every_one_and_each_once(tmp_path: Path) -> None:
    paths = Counter(problem.path for problem in problems_of(MANY_FAULTS, tmp_path))

    assert paths == EVERY_PATH


SPOT = "ebbtide:nodeGroups: { spot: { max: 4 } }"


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        (shortest(train="min: 9, maxx: 3"), ["train.maxx", "train.min"]),
        (
            shortest(train="stabilizationWindow: soon").replace("cpu: 4,", "cpu: 400,"),
            ["train", "train.stabilizationWindow"],
        ),
        (shortest().replace("cpu: 4, memory: 16Gi", "cpu: 400, memory: lots"), ["train", "train.memory"]),
        (shortest(train="gpu: two").replace("cpu: 4,", "cpu: 400,"), ["train", "train.gpu"]),
        (shortest(train="nodeGroup: 7").replace("cpu: 4,", "cpu: 400,"), ["train", "train.nodeGroup"]),
        (shortest(train="nodeGroup: fixed").replace("cpu: 4,", "cpu: 400,"), ["train", "train.nodeGroup"]),
        # fits where it would go instead, so its size is not to blame
        (shortest(train="nodeGroup: fixed").replace("cpu: 4,", "cpu: 12,"), ["train.nodeGroup"]),
        # may want GPUs, so the default group for them is not missing
        (shortest(train="gpu: two, nodeGroup: gpu"), ["train.gpu"]),
        (
            shortest(train="nodeGroup: spot, stabilizationWindow: soon", more=SPOT),
            ["train.longestJob", "train.stabilizationWindow"],
        ),
    ],
)
def test_a_pool_is_checked_by_what_can_be_read_of_it(text: str, paths: list[str], tmp_path: Path) -> None:
    assert [problem.path.removeprefix("ebbtide:workers.") for problem in problems_of(text, tmp_path)] == paths


@pytest.mark.parametrize("source", ["kind: huey, queues: [train]", "queues: ['a b', train]", "queues: [train, train]"])
def test_a_shared_queue_is_told_though_its_source_is_bad(source: str, tmp_path: Path) -> None:
    text = shortest() + f"    eval: {{ source: {{ {source} }} }}\n"

    assert "queue.shared" in {problem.code for problem in problems_of(text, tmp_path)}


def test_what_could_not_be_read_is_left_out_of_the_size(tmp_path: Path) -> None:
    text = shortest().replace("cpu: 4, memory: 16Gi", "cpu: 4, memory: lots").replace("cpu: 4,", "cpu: 400,")

    assert problems_of(text, tmp_path)[0].found == "400 CPU"


@pytest.mark.parametrize(
    ("group", "paths"),
    [
        ("fixed: { instanceTypes: [m7i.2xlarg], min: 5, max: 2 }", ["fixed.instanceTypes[0]", "fixed.min"]),
        ("fixed: { max: true }", ["fixed.max"]),  # the default of min follows from max, and must not be blamed
        ("fixed: { max: 0 }", ["fixed.max"]),
        ("fixed: { min: 0, max: many }", ["fixed.max", "fixed.min"]),
        ("big: { max: 1, instanceTypes: [m7i.large] }", ["big.kind", "big.max"]),
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


def test_work_planned_for_a_bad_night_still_names_its_pool(tmp_path: Path) -> None:
    text = shortest(hours="overnight: [{ pool: tran, at: 2, for: 30h, workers: 2 }]").replace("Europe/", "Europa/")

    assert [problem.path.removeprefix("ebbtide:businessHours.") for problem in problems_of(text, tmp_path)] == [
        "overnight[0].at",
        "overnight[0].for",
        "overnight[0].pool",
        "timezone",
    ]
