"""From recorded use to changes of a stack file, and the advice that remains once they are made."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ebbtide.lab.advice.sizes.advice import SizeRow, SizesAdvice, advise
from ebbtide.lab.advice.sizes.containers import Container, containers
from ebbtide.lab.advice.sizes.evidence import ContainerUsage
from ebbtide.lab.advice.sizes.reading import RecordedPod, RecordedUsage
from ebbtide.prices import on_demand
from ebbtide.settings.file.document import read_document
from ebbtide.settings.patch import patched
from tests.builders.evidence.of_sizes import EVIDENCE, steady, use
from tests.builders.settings import loaded, shortest

HOURS = 336.0
FILE = "Pulumi.acme.yaml"
UNSEEN = ContainerUsage(days=0)
Uses = Mapping[str, ContainerUsage]


class Case:
    """A stack file and the use of its workloads; each ran in `pods` pods all the time, on the named group."""

    def __init__(self, folder: Path, more: str, train: str = "") -> None:
        self.folder, self.text = folder, shortest(more=more, train=train)

    def advise(self, uses: Uses, pods: Mapping[str, tuple[str, int]] | None = None, **changes: Any) -> SizesAdvice:
        settings = loaded(self.text, self.folder)
        wanted = containers(settings)
        ran = [one for item in wanted for one in _recorded(item, (pods or {}).get(item.place.workload, ("", 0)))]
        recorded = RecordedUsage(
            uses={item.place: uses.get(item.place.workload, UNSEEN) for item in wanted},
            pods=ran,
            missing={},
            source="test",
        )
        return advise(settings, read_document(self.text, FILE).config, recorded, EVIDENCE, **changes)

    def follow(self, advice: SizesAdvice) -> None:
        self.text = patched(self.text, FILE, advice.changes)


def _recorded(item: Container, where: tuple[str, int]) -> Sequence[RecordedPod]:
    group, count = where
    place = item.place
    one = RecordedPod(
        namespace=place.namespace, workload=place.workload, group=group, start=HOURS, end=0, size=item.size
    )
    return [one] * count


def row(advice: SizesAdvice, workload: str) -> SizeRow:
    return next(item for item in advice.rows if item.container.place.workload == workload)


def changed(advice: SizesAdvice) -> dict[str, object]:
    return {change.path.partition(":")[2]: change.after for change in advice.changes}


def reasons(advice: SizesAdvice, workload: str) -> list[str]:
    return [item.reason for item in row(advice, workload).verdicts.values()]


API = """\
ebbtide:workloads:
  api: { category: flexible, image: "api:1", replicas: 3, cpu: 2, memory: 8Gi } # the front
"""


def test_a_workload_that_was_seen_is_lowered_and_the_rest_of_the_file_stays(tmp_path: Path) -> None:
    case = Case(tmp_path, API)

    advice = case.advise({"api": use(cpu=500, memory=1000)})
    case.follow(advice)

    assert changed(advice) == {"workloads.api.cpu": "600m", "workloads.api.memory": "1152Mi"}
    assert "replicas: 3, cpu: 600m, memory: 1152Mi } # the front" in case.text
    assert reasons(advice, "train") == ["not enough evidence yet: 0 days of 7"] * 2


def test_advice_that_was_followed_is_nothing_to_do_nodes_too(tmp_path: Path) -> None:
    case = Case(tmp_path, API)
    uses, pods = (
        {"api": use(cpu=500, memory=3000), "train": use(cpu=900, memory=14_000)},
        {
            "api": ("flexible", 9),
            "train": ("flexible", 4),
        },
    )
    first = case.advise(uses, pods)
    case.follow(first)

    assert any("instanceTypes" in path for path in changed(first))
    assert changed(case.advise(uses, pods)) == {}


def test_a_lowering_that_frees_no_room_for_a_pod_is_shown_and_not_made(tmp_path: Path) -> None:
    """Its memory determines its share of a node: no pod can use the CPU that it gives back."""
    case = Case(tmp_path, 'ebbtide:workloads:\n  api: { category: fixed, image: "api:1", cpu: 1, memory: 20Gi }')

    advice = case.advise({"api": use(cpu=500, memory=15_800)}, {"api": ("fixed", 1)})

    assert changed(advice) == {}
    assert reasons(advice, "api") == [
        "0.65 would suffice, but save nothing on nodes of fixed",
        "fits: 15.5Gi used at most",
    ]


def test_saved_is_the_share_of_a_node_that_further_pods_may_have(tmp_path: Path) -> None:
    case = Case(tmp_path, API)

    advice = row(case.advise({"api": use(cpu=1000, memory=3200)}, {"api": ("flexible", 3)}), "api")
    raised = row(case.advise({"api": use(cpu=2500, memory=9000)}, {"api": ("flexible", 3)}), "api")

    usd = max(on_demand("us-east-1", name) for name in ("m7i.4xlarge", "m6i.4xlarge"))
    assert advice.pods == 3
    assert advice.saves == pytest.approx(usd * (1 / 7 - 1 / 13) * 3 * 730)
    assert raised.saves == pytest.approx(usd * (1 / 7 - 1 / 5) * 3 * 730)


def test_a_variant_gets_its_own_key_where_its_service_has_it_for_all(tmp_path: Path) -> None:
    case = Case(tmp_path, SERVICE)

    advice = case.advise({"ranker-base": use(cpu=500, memory=9000), "ranker-large": use(cpu=3900, memory=3800)})
    case.follow(advice)
    variants = loaded(case.text, tmp_path).services["ranker"].variants

    assert changed(advice) == {
        "services.ranker.variants.base.cpu": "600m",
        "services.ranker.variants.base.memory": "10.25Gi",
        "services.ranker.variants.base.limits": {"memory": "10.25Gi"},
        "services.ranker.variants.large.cpu": "4500m",
    }
    assert [(item.cpu, item.memory) for item in variants.values()] == [(600, 10496), (4500, 4096)]


SERVICE = """\
ebbtide:monitoring: { prometheus: bundled }
ebbtide:services:
  ranker:
    image: "ranker:1"
    cpu: 2
    memory: 4Gi
    limits: { memory: 6Gi }
    ports: { http: 8000 }
    port: http
    probes: { readiness: { http: /healthz, port: http } }
    longestRequest: 10s
    route: { host: models.acme.internal }
    variants:
      base: { scale: { metrics: { inFlight: 3 }, max: 4 } }
      large: { cpu: 3, when: { header: "x-size: large" } }
"""


def test_a_limit_goes_up_with_the_request_that_it_held_down(tmp_path: Path) -> None:
    limited = API.replace("replicas: 3, cpu: 2, memory: 8Gi", "cpu: 1, memory: 4Gi, limits: { cpu: 2, memory: 8Gi }")
    case = Case(tmp_path, limited)
    short = use(cpu=900, memory=3000, throttled=0.5, throttled_at=1000, kills=1, killed_at=4096)

    advice = case.advise({"api": short})
    case.follow(advice)

    assert changed(advice) == {
        "workloads.api.cpu": "1300m",
        "workloads.api.memory": "5Gi",
        "workloads.api.limits.cpu": "2600m",
        "workloads.api.limits.memory": "10Gi",
    }
    assert changed(case.advise({"api": short})) == {}


def test_a_size_that_fits_no_node_of_its_groups_is_shown_and_not_advised(tmp_path: Path) -> None:
    case = Case(tmp_path, 'ebbtide:workloads:\n  db: { category: fixed, image: "db:1", cpu: 1, memory: 24Gi }')

    advice = case.advise({"db": use(cpu=900, memory=20_000, kills=1, killed_at=24_576)}, {"db": ("fixed", 1)})

    assert "workloads.db.memory" not in changed(advice)
    assert "28.8Gi" not in changed(advice).values()
    assert "fits no node of its groups" in reasons(advice, "db")[1]


def test_fixed_nodes_are_mentioned_and_not_changed(tmp_path: Path) -> None:
    case = Case(tmp_path, 'ebbtide:workloads:\n  db: { category: fixed, image: "db:1", cpu: 1, memory: 4Gi }')

    advice = case.advise({"db": use(cpu=900, memory=3500)}, {"db": ("fixed", 1)})
    (group,) = advice.groups

    assert group.other is not None
    assert not group.in_patch
    assert not any("instanceTypes" in path for path in changed(advice))


def test_no_other_nodes_while_something_that_always_runs_was_not_seen(tmp_path: Path) -> None:
    other = '  hub: { category: flexible, image: "hub:1", cpu: 2, memory: 8Gi }\n'
    case = Case(tmp_path, API + other)

    advice = case.advise({"api": use(cpu=500, memory=3000)}, {"api": ("flexible", 3)})
    (group,) = advice.groups

    assert (group.other, group.why) == (None, "not enough evidence yet of workloads.hub")


def test_no_other_nodes_where_no_pod_of_the_group_was_seen_for_long_enough(tmp_path: Path) -> None:
    case = Case(tmp_path, "")

    (group,) = case.advise({"train": use(cpu=900, memory=3000, days=6)}, {"train": ("flexible", 2)}).groups

    assert (group.other, group.why) == (None, "not enough evidence yet")


def test_gpu_memory_follows_what_was_seen_and_the_count_stays(tmp_path: Path) -> None:
    case = Case(
        tmp_path,
        "ebbtide:nodeGroups: { gpu: { instanceTypes: [g6e.2xlarge], max: 4 } }",
        "gpu: { count: 1, memory: 40Gi }",
    )
    of_gpu = use(cpu=3900, memory=15_000, gpu_memory=steady(18_000), gpu_busy=steady(40))

    advice = case.advise({"train": of_gpu}, {"train": ("gpu", 1)})
    case.follow(advice)

    assert changed(advice)["workers.train.gpu.memory"] == "21Gi"
    assert "workers.train.gpu.memory" not in changed(case.advise({"train": of_gpu}, {"train": ("gpu", 1)}))


def test_gpu_memory_asks_for_no_more_than_the_gpus_have_that_held_it(tmp_path: Path) -> None:
    gpus = "ebbtide:nodeGroups: { gpu: { instanceTypes: [g6e.2xlarge], max: 4 } }"
    case = Case(tmp_path, gpus, "gpu: { count: 1, memory: 40Gi }")

    advice = case.advise({"train": use(cpu=3900, memory=15_000, gpu_memory=steady(44_000))}, {"train": ("gpu", 1)})

    assert changed(advice)["workers.train.gpu.memory"] == "45776Mi"


def test_several_pods_of_one_workload_keep_two_nodes(tmp_path: Path) -> None:
    case = Case(tmp_path, API)

    one, several = (
        case.advise({"api": use(cpu=500, memory=1000)}, {"api": ("flexible", 3)}).groups[0].sized
        for case in (Case(tmp_path, API.replace("replicas: 3", "replicas: 1")), case)
    )

    assert one is not None
    assert several is not None
    assert several.node_hours == 2 * HOURS > one.node_hours


@pytest.mark.parametrize("vertical", ["initial", "inPlace"])
def test_requests_that_the_vertical_autoscaler_sets_are_left_to_it(tmp_path: Path, vertical: str) -> None:
    case = Case(tmp_path, API.replace("replicas: 3", f"replicas: 3, vertical: {vertical}"))

    advice = case.advise({"api": use(cpu=9000, memory=100)})

    assert changed(advice) == {}
    assert reasons(advice, "api") == ["the Vertical Pod Autoscaler sets it"] * 2
