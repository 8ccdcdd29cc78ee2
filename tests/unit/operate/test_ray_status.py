"""What `ebbtide status` shows of a Ray cluster: the chain from the queue to the pods, and nothing unknown as known."""

import ast
import json
import re
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from controllers.adapters.kube_api import ApiError
from ebbtide.operate.objects import rfc3339
from ebbtide.operate.ray.facts import ray_facts as read_facts
from ebbtide.operate.ray.text import ray_lines, ray_parts, ray_warnings
from ebbtide.operate.ray.view import RayView, ray_view
from ebbtide.operate.wording import RAY_REASONS
from ebbtide.vocabulary.documents import encoded
from ebbtide.vocabulary.labels import APPLY_UNTIL, KEEP_UNTIL, PAUSED, SLEEP, WAKE_UNTIL
from ebbtide.vocabulary.workloads import WorkloadsConfig
from tests.builders.operation import ALWAYS_NIGHT
from tests.paths import ROOT
from tests.unit.operate.raw_objects import NOW
from tests.unit.operate.ray_objects import (
    POLICY,
    asleep,
    config,
    group,
    priced_node,
    ray_cluster,
    ray_facts,
    ray_pod,
    report,
    view,
)


def shown(seen: RayView, columns: int = 160) -> str:
    out = StringIO()
    ray_parts([seen], "UTC", Console(file=out, width=columns, highlight=False).print)
    return out.getvalue()


def line(seen: RayView, begin: str) -> str:
    return "\n".join(text.removeprefix(begin).strip() for text in ray_lines(seen, "UTC") if text.startswith(begin))


def row(seen: RayView, name: str) -> list[str]:
    """Cells of a group's row."""
    (found,) = [text for text in shown(seen).splitlines() if re.match(rf"{name}  ", text)]
    return re.split(r"\s{2,}", found.strip())


def test_the_chain_goes_from_the_queue_to_the_pods() -> None:
    seen = view()

    assert line(seen, "queue") == "preprocess: 7 waiting, 2 running, oldest 1 min"
    assert line(seen, "drivers") == "preprocess: 3 wanted, 2 ready, at most 3"
    assert line(seen, "demand") == "3 workers wanted by Ray, 2 ready, 3 available"
    assert row(seen, "head") == ["head", "1 running", "0.40"]
    assert row(seen, "cpu") == ["cpu", "2", "0", "20", "2 running", "0.81"]
    assert row(seen, "gpu") == ["gpu", "1", "0", "8", "1 running", "1.21"]


def test_a_reading_shows_why_it_is_awake_and_since_when() -> None:
    assert line(view(), "state") == (
        "awake since Fri 2026-11-20 14:00 UTC (14:00 UTC): it is not known to be idle; there is driver: 1 job"
    )


def test_a_head_that_does_not_answer_is_reported_and_is_no_activity() -> None:
    said = line(view(report=report(reading="unreadable", activity="http://head:8265: HTTP 401 for actors")), "state")

    assert said.endswith("it is not known to be idle; the head gives no answer: http://head:8265: HTTP 401 for actors")


def test_an_idle_cluster_shows_for_how_long_and_when_it_sleeps() -> None:
    idle = report(why="idle-but-recent", reading="idle", activity="idle", idleFor=720.0)

    assert line(view(report=idle), "state").endswith("nothing has run for 12 min, sleeps after 2h")


@pytest.mark.parametrize(
    ("cluster", "why", "said"),
    [
        (asleep(), "asleep", "asleep since Fri 2026-11-20 14:00 UTC (14:00 UTC): nothing asks for it"),
        (asleep("spec"), "spec-pending", "asleep, to take over a new spec since"),
        (asleep(""), "asleep", "asleep, suspended by another manager since"),
        (ray_cluster(suspend=True), "idle-for-long", "going to sleep: some of its pods are still there"),
        ({}, "no-such-raycluster", "does not exist since Fri 2026-11-20 14:00 UTC (14:00 UTC): it does not exist"),
    ],
)
def test_the_states_of_a_cluster(cluster: dict[str, Any], why: str, said: str) -> None:
    assert line(view(cluster=cluster, report=report(why=why, reading="none", activity="not read")), "state").startswith(
        said
    )


def test_a_pending_spec_is_shown_field_by_field_and_the_image_first() -> None:
    fields = ["headGroupSpec.template.spec.containers[0].env", "headGroupSpec.template.spec.containers[0].image"]
    many = [*fields, *(f"workerGroupSpecs[{number}]" for number in range(9))]

    assert line(view(report=report(pending=fields)), "pending") == (
        "headGroupSpec.template.spec.containers[0].image (old image)\nheadGroupSpec.template.spec.containers[0].env"
    )
    assert line(view(report=report(pending=many)), "pending").endswith("\nand 3 more fields")
    assert line(view(), "pending") == ""


def test_status_names_the_command_that_does_not_wait_for_a_cluster_to_be_idle() -> None:
    waits = report(pending=["headGroupSpec"], reading="unreadable", activity="no answer")

    assert line(view(report=waits), "sooner").startswith("ebbtide maintenance --ray flow")
    assert line(view(), "sooner") == ""


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        ({PAUSED: "by hand"}, "paused: by hand"),
        ({KEEP_UNTIL: rfc3339(NOW + timedelta(hours=1))}, "kept until 2026-11-20T16:00:00+00:00"),
        ({KEEP_UNTIL: rfc3339(NOW - timedelta(hours=1))}, ""),
        ({WAKE_UNTIL: rfc3339(NOW + timedelta(hours=1))}, "awake until Fri 2026-11-20 16:00 UTC (16:00 UTC)"),
        (
            {APPLY_UNTIL: rfc3339(NOW + timedelta(hours=1))},
            "a pending spec may interrupt what runs until Fri 2026-11-20 16:00 UTC (16:00 UTC)",
        ),
        ({APPLY_UNTIL: rfc3339(NOW - timedelta(hours=1))}, ""),
    ],
)
def test_an_operators_request_is_shown_while_it_holds(annotations: dict[str, str], said: str) -> None:
    assert line(view(cluster=ray_cluster(annotations=annotations)), "held") == said


def test_a_waiting_pod_has_a_reason_and_a_terminating_one_is_no_worker() -> None:
    pods = [ray_pod("gpu"), ray_pod("gpu", 2, node=None), ray_pod("gpu", 3, ending=True)]

    cells = row(view(pods=pods), "gpu")

    assert cells[4:] == ["1 running, 1 pending, 1 ending", "1.21", "0/3 nodes are available: 3 Insufficient gpu."]


def test_a_group_that_left_the_spec_is_shown_while_it_has_pods() -> None:
    seen = view(cluster=ray_cluster(group("cpu")))

    assert row(seen, "gpu")[:5] == ["gpu", "unknown", "unknown", "unknown", "1 running"]


def test_nothing_unknown_is_shown_as_zero() -> None:
    seen = ray_view(ray_facts(pods=None, pools={}, report=None, unread=["its pods: forbidden"]), config(), None)

    assert line(seen, "queue") == "preprocess: unknown"
    assert line(seen, "drivers") == "preprocess: unknown wanted, unknown ready, at most 3"
    assert line(seen, "state") == "awake; why is not known"
    assert line(seen, "pending") == "unknown"
    assert row(seen, "gpu") == ["gpu", "1", "0", "8", "unknown", "unknown", "its pods are not known"]
    assert ray_warnings([seen]) == ["ray flow: its pods: forbidden"]


def test_a_cluster_without_a_status_has_unknown_numbers_and_omitted_ones_are_zeros() -> None:
    left_out = {"observedGeneration": 1, "state": "ready"}

    assert line(view(cluster=ray_cluster(status={})), "demand") == (
        "unknown workers wanted by Ray, unknown ready, unknown available"
    )
    assert line(view(cluster=ray_cluster(status=left_out)), "demand") == "0 workers wanted by Ray, 0 ready, 0 available"


def test_a_cluster_that_may_not_be_read_is_unknown_and_not_absent() -> None:
    assert line(view(cluster=None, report=None), "state") == "unknown"


def test_a_missing_pool_of_drivers_is_reported() -> None:
    assert line(view(pools={"preprocess": {}}), "drivers") == "preprocess: its Deployment does not exist"


def test_the_nodes_of_a_group_are_paid_for_once_each_and_spot_at_the_price_of_spot() -> None:
    def usd(**nodes: dict[str, Any]) -> float:
        pods = [ray_pod("gpu", number, node=name) for number, name in enumerate([*nodes, *nodes])]
        return view(pods=pods, nodes=nodes).groups[1].usd_per_hour or 0.0

    seen, spot = usd(a=priced_node()), usd(a=priced_node(**{"eks.amazonaws.com/capacityType": "SPOT"}))

    assert seen == 1.212
    assert usd(a=priced_node(), b=priced_node()) == 2 * seen
    assert 0 < spot < seen


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ({}, "node gpu-1: its instance type and region are not known"),
        ({"gpu-1": priced_node(region="mars-1")}, "node gpu-1: no prices for region mars-1; ebbtide prices show"),
    ],
)
def test_what_a_node_costs_is_unknown_where_no_price_is_known(nodes: dict[str, Any], said: str) -> None:
    gpu = view(nodes=nodes).groups[1]

    assert (gpu.usd_per_hour, gpu.unpriced.startswith(said)) == (None, True)


def test_an_idle_worker_that_ray_keeps_is_shown_with_its_dollars() -> None:
    kept = report(
        reading="idle", activity="idle", idleFor=1500.0, workers=[{"group": "gpu", "workers": 1, "overdue": 1}]
    )

    assert row(view(report=kept), "gpu")[-1] == "1 idle and kept by Ray's autoscaler (kuberay#3738): 1.21 USD an hour"
    assert row(view(report=kept, nodes={}), "gpu")[-1].startswith(
        "1 idle and kept by Ray's autoscaler (kuberay#3738): unknown dollars an hour; node gpu-1:"
    )
    assert row(view(report=kept), "cpu")[-1] == "0.81"


def test_json_has_the_same_numbers_and_null_for_what_is_not_known() -> None:
    told = json.loads(json.dumps(encoded(view(pools={}))))

    assert (told["state"], told["drivers"][0]["wanted"], told["groups"][1]["usdPerHour"]) == ("awake", None, 1.212)
    assert told["since"] == "2026-11-20T14:00:00+00:00"
    assert told["sleep"]["after"] == 7200


def test_a_sleep_policy_that_cannot_be_read_is_a_warning() -> None:
    seen = view(cluster=ray_cluster(annotations={SLEEP: "{"}))

    assert ray_warnings([seen])[0].startswith(f"ray flow: {SLEEP} is '{{'")


class ForbiddenApi:
    """An API server that refuses everything."""

    def get(self, path: str, **query: str) -> dict[str, Any]:
        del path, query
        raise ApiError(403, "forbidden")


def test_an_operator_who_may_read_nothing_gets_a_line_for_each() -> None:
    known = WorkloadsConfig(namespace="ebbtide", hours=ALWAYS_NIGHT, ray=(POLICY,))

    (facts,) = read_facts(ForbiddenApi(), known, NOW)  # pyright: ignore[reportArgumentType] - all of the API that is used

    assert facts.unread == [
        "the workload controller does not answer: forbidden",
        "the RayCluster: forbidden",
        "its pods: forbidden",
        "pool preprocess: forbidden",
    ]
    assert line(ray_view(facts, config(), None), "state") == "unknown"


def test_every_reason_that_the_workload_controller_can_give_has_words() -> None:
    folder = ROOT / "controllers" / "workloads"
    texts = {
        node.value
        for file in (*(folder / "ray").glob("s*.py"), folder / "ray" / "clusters.py", folder / "loop.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"[a-z]+(-[a-z]+)+", node.value)
    }

    assert len(texts) > 20
    assert (texts | {"applied", "asleep", "paused", "settling"}) - RAY_REASONS.keys() == set()
