"""From what was recorded to changes of a stack file, and what following them leaves to say."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ebbtide.advice.sizes.advice import Row, SizesAdvice, advise
from ebbtide.advice.sizes.containers import Container, containers
from ebbtide.advice.sizes.evidence import Use
from ebbtide.advice.sizes.reading import Recorded, RecordedPod
from ebbtide.prices import on_demand
from ebbtide.settings.file.document import read_document
from ebbtide.settings.patch import patched
from tests.builders.evidence.of_sizes import EVIDENCE, steady, use
from tests.builders.settings import loaded, shortest

HOURS = 336.0
FILE = "Pulumi.acme.yaml"
UNSEEN = Use(days=0)
Uses = Mapping[str, Use]


class Case:
    """A stack file, and what its workloads used; each ran in `pods` pods all the time, on the group named."""

    def __init__(self, folder: Path, more: str, train: str = "") -> None:
        self.folder, self.text = folder, shortest(more=more, train=train)

    def advise(self, uses: Uses, pods: Mapping[str, tuple[str, int]] | None = None, **changes: Any) -> SizesAdvice:
        settings = loaded(self.text, self.folder)
        wanted = containers(settings)
        ran = [one for it in wanted for one in _ran(it, (pods or {}).get(it.place.workload, ("", 0)))]
        recorded = Recorded(
            uses={it.place: uses.get(it.place.workload, UNSEEN) for it in wanted}, pods=ran, missing={}, source="test"
        )
        return advise(settings, read_document(self.text, FILE).config, recorded, EVIDENCE, **changes)

    def follow(self, found: SizesAdvice) -> None:
        self.text = patched(self.text, FILE, found.changes)


def _ran(it: Container, where: tuple[str, int]) -> Sequence[RecordedPod]:
    group, count = where
    place = it.place
    one = RecordedPod(namespace=place.namespace, workload=place.workload, group=group, start=HOURS, end=0, size=it.size)
    return [one] * count


def row(found: SizesAdvice, workload: str) -> Row:
    return next(it for it in found.rows if it.container.place.workload == workload)


def told(found: SizesAdvice) -> dict[str, object]:
    return {change.path.partition(":")[2]: change.after for change in found.changes}


def reasons(found: SizesAdvice, workload: str) -> list[str]:
    return [it.reason for it in row(found, workload).verdicts.values()]


API = """\
ebbtide:workloads:
  api: { category: flexible, image: "api:1", replicas: 3, cpu: 2, memory: 8Gi } # the front
"""


def test_a_workload_that_was_seen_is_lowered_and_the_rest_of_the_file_stays(tmp_path: Path) -> None:
    case = Case(tmp_path, API)

    found = case.advise({"api": use(cpu=500, memory=1000)})
    case.follow(found)

    assert told(found) == {"workloads.api.cpu": "600m", "workloads.api.memory": "1152Mi"}
    assert "replicas: 3, cpu: 600m, memory: 1152Mi } # the front" in case.text
    assert reasons(found, "train") == ["not enough evidence yet: 0 days of 7"] * 2


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

    assert any("instanceTypes" in path for path in told(first))
    assert told(case.advise(uses, pods)) == {}


def test_a_lowering_that_lets_no_further_pod_onto_a_node_is_told_and_not_made(tmp_path: Path) -> None:
    """Its memory is what it takes of a node: CPU that it gives back nobody can use."""
    case = Case(tmp_path, 'ebbtide:workloads:\n  api: { category: fixed, image: "api:1", cpu: 1, memory: 20Gi }')

    found = case.advise({"api": use(cpu=500, memory=15_800)}, {"api": ("fixed", 1)})

    assert told(found) == {}
    assert reasons(found, "api") == ["0.65 would do, and save nothing on nodes of fixed", "fits: 15.5Gi used at most"]


def test_saved_is_the_share_of_a_node_that_further_pods_may_have(tmp_path: Path) -> None:
    case = Case(tmp_path, API)

    found = row(case.advise({"api": use(cpu=1000, memory=3200)}, {"api": ("flexible", 3)}), "api")
    raised = row(case.advise({"api": use(cpu=2500, memory=9000)}, {"api": ("flexible", 3)}), "api")

    usd = max(on_demand("us-east-1", name) for name in ("m7i.4xlarge", "m6i.4xlarge"))
    assert found.pods == 3
    assert found.saves == pytest.approx(usd * (1 / 7 - 1 / 13) * 3 * 730)
    assert raised.saves == pytest.approx(usd * (1 / 7 - 1 / 5) * 3 * 730)


def test_a_variant_gets_a_key_of_its_own_where_its_service_has_it_for_all(tmp_path: Path) -> None:
    case = Case(tmp_path, SERVICE)

    found = case.advise({"ranker-base": use(cpu=500, memory=9000), "ranker-large": use(cpu=3900, memory=3800)})
    case.follow(found)
    variants = loaded(case.text, tmp_path).services["ranker"].variants

    assert told(found) == {
        "services.ranker.variants.base.cpu": "600m",
        "services.ranker.variants.base.memory": "10.25Gi",
        "services.ranker.variants.base.limits": {"memory": "10.25Gi"},
        "services.ranker.variants.large.cpu": "4500m",
    }
    assert [(it.cpu, it.memory) for it in variants.values()] == [(600, 10496), (4500, 4096)]


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


def test_a_limit_goes_up_in_step_with_the_request_that_it_made_too_little(tmp_path: Path) -> None:
    limited = API.replace("replicas: 3, cpu: 2, memory: 8Gi", "cpu: 1, memory: 4Gi, limits: { cpu: 2, memory: 8Gi }")
    case = Case(tmp_path, limited)
    short = use(cpu=900, memory=3000, throttled=0.5, throttled_at=1000, kills=1, killed_at=4096)

    found = case.advise({"api": short})
    case.follow(found)

    assert told(found) == {
        "workloads.api.cpu": "1300m",
        "workloads.api.memory": "5Gi",
        "workloads.api.limits.cpu": "2600m",
        "workloads.api.limits.memory": "10Gi",
    }
    assert told(case.advise({"api": short})) == {}


def test_what_fits_no_node_of_its_groups_is_told_and_not_asked_for(tmp_path: Path) -> None:
    case = Case(tmp_path, 'ebbtide:workloads:\n  db: { category: fixed, image: "db:1", cpu: 1, memory: 24Gi }')

    found = case.advise({"db": use(cpu=900, memory=20_000, kills=1, killed_at=24_576)}, {"db": ("fixed", 1)})

    assert "workloads.db.memory" not in told(found)
    assert "28.8Gi" not in told(found).values()
    assert "fits no node of its groups" in reasons(found, "db")[1]


def test_fixed_nodes_are_told_of_and_left_as_they_are(tmp_path: Path) -> None:
    case = Case(tmp_path, 'ebbtide:workloads:\n  db: { category: fixed, image: "db:1", cpu: 1, memory: 4Gi }')

    found = case.advise({"db": use(cpu=900, memory=3500)}, {"db": ("fixed", 1)})
    (group,) = found.groups

    assert group.other is not None
    assert not group.in_patch
    assert not any("instanceTypes" in path for path in told(found))


def test_no_other_nodes_while_something_that_always_runs_was_not_seen(tmp_path: Path) -> None:
    other = '  hub: { category: flexible, image: "hub:1", cpu: 2, memory: 8Gi }\n'
    case = Case(tmp_path, API + other)

    found = case.advise({"api": use(cpu=500, memory=3000)}, {"api": ("flexible", 3)})
    (group,) = found.groups

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

    found = case.advise({"train": of_gpu}, {"train": ("gpu", 1)})
    case.follow(found)

    assert told(found)["workers.train.gpu.memory"] == "21Gi"
    assert "workers.train.gpu.memory" not in told(case.advise({"train": of_gpu}, {"train": ("gpu", 1)}))


def test_gpu_memory_asks_for_no_more_than_the_gpus_have_that_held_it(tmp_path: Path) -> None:
    gpus = "ebbtide:nodeGroups: { gpu: { instanceTypes: [g6e.2xlarge], max: 4 } }"
    case = Case(tmp_path, gpus, "gpu: { count: 1, memory: 40Gi }")

    found = case.advise({"train": use(cpu=3900, memory=15_000, gpu_memory=steady(44_000))}, {"train": ("gpu", 1)})

    assert told(found)["workers.train.gpu.memory"] == "45776Mi"


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

    found = case.advise({"api": use(cpu=9000, memory=100)})

    assert told(found) == {}
    assert reasons(found, "api") == ["the Vertical Pod Autoscaler sets it"] * 2
