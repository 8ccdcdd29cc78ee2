"""`ebbtide idle` on made-up weeks in a real Prometheus: idle things, and things that only look so."""

import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from typer.testing import CliRunner, Result

from ebbtide.cli.__main__ import app
from ebbtide.prices import on_demand, spot_typical
from tests.builders.monitoring.day import needs_promtool
from tests.builders.monitoring.idle_weeks import (
    WORKERS,
    Node,
    Running,
    Weeks,
    When,
    always,
    days_before,
    never,
    pool_jobs,
    ray_cluster,
    requests,
    write,
)
from tests.builders.monitoring.servers import needs_prometheus, prometheus
from tests.builders.settings import shortest
from tests.paths import ROOT

pytestmark = [pytest.mark.process, needs_promtool, needs_prometheus]

NOW = datetime.now(UTC)
BERLIN = ZoneInfo("Europe/Berlin")
MONTH = 730
EXAMPLE = str(ROOT / "examples/labelling-platform/Pulumi.labelling.yaml")
STACK = """
aws:region: us-east-1
ebbtide:nodeGroups:
  fixed: { instanceTypes: [m7i.2xlarge], min: 3, max: 4 }
  flexible: { instanceTypes: [m7i.4xlarge], max: 24 }
  gpu: { instanceTypes: [g6.2xlarge], max: 6 }
ebbtide:monitoring: { prometheus: bundled }
ebbtide:workloads:
  dashboard: { category: flexible, image: "example.com/dashboard:1", replicas: 2, cpu: 2, memory: 8Gi }
  api: { category: flexible, image: "example.com/api:1", replicas: 2, cpu: 2, memory: 8Gi }
  moved: { category: flexible, image: "example.com/moved:1", cpu: 2, memory: 8Gi }
  leader: { category: flexible, image: "example.com/leader:1", replicas: 2, cpu: 2, memory: 8Gi }
  fresh: { category: flexible, image: "example.com/fresh:1", cpu: 2, memory: 8Gi }
  holey: { category: flexible, image: "example.com/holey:1", cpu: 2, memory: 8Gi }
  etl: { category: flexible, image: "example.com/etl:1", cpu: 2, memory: 8Gi }
  visited: { category: flexible, image: "example.com/visited:1", cpu: 2, memory: 8Gi }
  turns: { category: flexible, image: "example.com/turns:1", cpu: 2, memory: 8Gi }
  unseen: { category: flexible, image: "example.com/unseen:1", replicas: 2, cpu: 2, memory: 8Gi }
  board: { category: flexible, image: "a/board:1", cpu: 2, memory: 8Gi, sleep: { when: outsideBusinessHours } }
  hub:
    category: fixed
    image: "example.com/hub:1"
    cpu: 1
    memory: 2Gi
    kubernetes: { rules: [{ groups: [""], resources: [pods], verbs: [get, list, watch, create, delete] }] }
"""
POOLS = """
    warm: { source: { queues: [warm] }, image: "a/warm:1", min: 2, max: 4, cpu: 2, memory: 8Gi, longestJob: 1h }
    late: { source: { queues: [late] }, image: "a/late:1", min: 1, max: 4, cpu: 2, memory: 8Gi, longestJob: 1h }
"""

RAY = """
    version: 2.60.0
    image: registry.example.com/ml/ray:2.60.0
    head: { cpu: 1, memory: 4Gi }
    groups: { cpu: { cpu: 3, memory: 12Gi, max: 8 } }
    longestTask: 30m
"""
SERVICE = """
    image: registry.example.com/ml/model:1
    cpu: 1
    memory: 2Gi
    ports: { http: 8000 }
    port: http
    probes: { readiness: { tcp: http } }
    longestRequest: 60s
    startsWithin: 90s
    scale: { metrics: { inFlight: 4 }, min: 1, max: 4 }
"""


def by_night(at: datetime) -> bool:
    return at.hour in (0, 1)


def last_closed(at: datetime) -> datetime:
    """Return the last quarter of an hour outside the stack's business hours."""
    while (local := at.astimezone(BERLIN)).weekday() < 5 and 8 <= local.hour < 18:
        at -= timedelta(minutes=15)
    return at


def by_day(at: datetime) -> bool:
    return at.weekday() < 5 and 9 <= at.hour < 15


def between_steps(at: datetime) -> bool:
    """For eight minutes of each quarter of an hour, and gone, by Prometheus' five minutes, when it ends."""
    return 60 < (at - NOW).total_seconds() % 900 < 540


def a_day(number: int) -> When:
    """Begins and ends three and a half minutes before a step, with one sample until then."""
    return days_before(NOW - timedelta(minutes=3.5), number, number - 1)


def worker(name: str, pool: str, **rest: Any) -> Running:
    return Running(name=name, workload=pool, namespace=WORKERS, category="worker", **rest)


def notebook(user: str, **rest: Any) -> Running:
    return Running(name=f"jupyter-{user}", workload="hub-pods", namespace="ebbtide-hub", category="worker", **rest)


GPU, SPOT = "node-gpu", "node-spot"
ACME = Weeks(
    customer="acme",
    nodes=[Node(name="node-1"), Node(name=GPU, usd=2.0, gpus=2), Node(name=SPOT, usd=9.0, spot="m7i.4xlarge")],
    pods=[
        *(Running(name=f"dashboard-{n}", workload="dashboard", busy=days_before(NOW, 12, 11)) for n in (1, 2)),
        *(Running(name=f"api-{n}", workload="api", busy=always) for n in (1, 2)),
        *(Running(name=f"moved-{day}", workload="moved", there=a_day(day)) for day in range(18)),
        Running(name="leader-1", workload="leader", busy=always),
        Running(name="leader-2", workload="leader"),
        Running(name="fresh-1", workload="fresh", there=days_before(NOW, 3, -1)),
        Running(name="holey-1", workload="holey", measured=lambda at: not days_before(NOW, 2, 1.95)(at)),
        Running(name="etl-1", workload="etl"),
        Running(name="etl-job", workload="etl", there=between_steps, busy=always),
        Running(name="visited-1", workload="visited", visited=days_before(NOW, 3, 3 - 4 / (24 * 60))),
        Running(name="turns-1", workload="turns", by_turns=True),
        Running(name="unseen-1", workload="unseen"),
        Running(name="unseen-2", workload="unseen", measured=never),
        Running(name="board-1", workload="board", there=lambda at: by_day(at) or at > NOW - timedelta(hours=1)),
        Running(name="hub-0", workload="hub", namespace="ebbtide-hub", busy=always),
        notebook("user-7", there=days_before(NOW, 9, -1), busy=days_before(NOW, 9, 6), node=SPOT),
        notebook("ben", busy=days_before(NOW, 0.5, 0.48)),
        notebook("user-8", node=GPU, gpu=True, busy=always, gpu_busy=days_before(NOW, 6, 5)),
        notebook("user-9", node=GPU, gpu=True, busy=always, gpu_busy=days_before(NOW, 3, 2.9)),  # a weekend
        worker("train-1", "train", gpu=True, node=GPU, busy=always, gpu_busy=days_before(NOW, 2, 1.5)),
        worker("train-2", "train", gpu=True, node=GPU, busy=always, gpu_busy=days_before(NOW, 0.9, 0.89)),
        worker("train-3", "train", gpu=True, node=GPU, measured=never),  # a pod of this name is elsewhere, too
        worker("train-4", "train", gpu=True, node=GPU, mig=True, busy=always, gpu_busy=always),
        worker("train-5", "train", gpu=True, node=GPU, mig=True, busy=always),
        worker("train-6", "train", gpu=True, node=GPU, mig=True, busy=always, profiled=False),
        *(worker(f"warm-{n}", "warm") for n in (1, 2, 3)),
        worker("late-1", "late", gpu=True, node=GPU),
        Running(name="embedder-1", workload="embedder", busy=always),
        Running(name="chat-1", workload="chat"),
        *(
            Running(name=f"{name}-head", workload=f"{name}-head", namespace=f"ebbtide-ray-{name}", category="fixed")
            for name in ("flow", "tune", "held")
        ),
    ],
    gauges=[
        *requests("embedder", never),
        *requests("chat", days_before(NOW, 3, 2.99)),
        *pool_jobs("warm", by_day),
        *pool_jobs("late", by_night),
        *ray_cluster("flow", days_before(NOW, 15, 14), "never-sleeps"),
        *ray_cluster("tune", days_before(NOW, 1, 0.99)),
        *ray_cluster("held", always, "not-known-idle"),
    ],
)
BARE = Weeks(
    customer="bare",
    nodes=[Node(name="bare-1"), Node(name="virtual-1", cores=0)],
    pods=[
        Running(name="api-1", workload="api", node="virtual-1", gib=1),
        *(
            worker(f"train-{n}", "train", gpu=True, node="bare-1", gpu_busy=always if n < 3 else never)
            for n in (1, 2, 3)
        ),
    ],
    network=False,
)
FIXED, GPU_NODE = "m7i.2xlarge", "g6.2xlarge"
PLATFORM = Weeks(
    customer="labelling",
    nodes=[
        Node(name="fixed-1", cores=8, usd=on_demand("eu-central-1", FIXED)),
        *(Node(name=f"gpu-{n}", cores=8, gpus=1, usd=on_demand("eu-central-1", GPU_NODE)) for n in (1, 2)),
    ],
    pods=[
        Running(name="postgres-0", workload="postgres", category="fixed", node="fixed-1", busy=always),
        Running(
            name="orchestrator-1",
            workload="orchestrator",
            category="fixed",
            node="fixed-1",
            cores=0.5,
            gib=1,
            busy=days_before(NOW, 17, 10),
        ),
        Running(name="hub-0", workload="hub", namespace="ebbtide-hub", category="fixed", node="fixed-1", busy=always),
        notebook("user-7", node="fixed-1", cores=2, gib=8, busy=days_before(NOW, 7, 6)),
        notebook("ben", node="fixed-1", cores=2, gib=8, busy=by_day),
        worker("train-7c9d5-x2k4v", "train", gpu=True, node="gpu-1", busy=always, gpu_busy=days_before(NOW, 3, 2)),
        worker("train-7c9d5-q8w6z", "train", gpu=True, node="gpu-2", busy=always, gpu_busy=always),
    ],
)


def idle(folder: Path, *words: str, customer: str = "acme", ended: Sequence[str] = ()) -> Result:
    """Run the command; workloads in `ended` have an owner and a last day that is over."""
    file = folder / f"Pulumi.{customer}.yaml"
    rays = "".join(f"  {name}:{RAY}" for name in ("flow", "tune", "held"))
    services = "".join(
        f"  {name}:{SERVICE}    route: {{ host: m.internal, path: /{name} }}\n" for name in ("embedder", "chat")
    )
    more = f"{STACK}ebbtide:ray:\n{rays}ebbtide:services:\n{services}"
    text = shortest(more=more, train="gpu: 1").replace("ebbtide:customer: acme", f"ebbtide:customer: {customer}")
    head, workers, rest = text.partition("  ebbtide:workers:\n")
    text = head + workers + POOLS.strip("\n") + "\n" + rest
    for name in ended:
        text = text.replace(f'{name}:1", ', f'{name}:1", owner: team-{name}, expires: "2026-01-01", ')
    file.write_text(text)
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["idle", str(file), *words])


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("weeks")
    write(folder, datetime.now(UTC), [ACME, BARE, PLATFORM])
    with prometheus(folder, {}, retention="100d") as address:
        yield address


@pytest.mark.timeout(240)
def test_idle_things_are_named_with_their_dollars_and_what_only_looks_idle_is_not(url: str, tmp_path: Path) -> None:
    result = idle(tmp_path, "--prometheus", url, "--json", "-")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    found = {(entry["kind"], entry["name"]): entry for entry in document["findings"]}

    quarter = MONTH * 1.0 / 4  # of node-1
    dollars = {
        ("GPU worker", f"{WORKERS}/train-1"): MONTH * 2.0 / 2,
        ("GPU worker", f"{WORKERS}/train-5"): MONTH * 2.0 / 2,
        ("GPU pod", "ebbtide-hub/jupyter-user-8"): MONTH * 2.0 / 2,
        ("workload", "dashboard"): 2 * quarter,
        ("workload", "moved"): quarter,
        ("workload", "turns"): quarter,
        ("pool at night", "warm"): pytest.approx(
            2 * quarter * 118 / 168, rel=0.05
        ),  # two of three pods, 118 of 168 hours a week
        ("service", "embedder"): quarter,
        ("Ray cluster", "flow"): quarter,
        ("notebook", "ebbtide-hub/jupyter-user-7"): pytest.approx(MONTH * spot_typical("us-east-1", "m7i.4xlarge") / 4),
    }
    assert {key: entry["usd"] for key, entry in found.items()} == dollars
    last = {
        "dashboard": 11,
        "flow": 14,
        "ebbtide-hub/jupyter-user-7": 6,
        f"{WORKERS}/train-1": 1.5,
        "ebbtide-hub/jupyter-user-8": 5,
    }
    ages = {name: timedelta(days=days) for name, days in last.items()}
    begin = NOW - timedelta(days=17)
    ages["warm"] = NOW - last_closed(begin)  # of a pool at night the nights count alone
    for (_, name), entry in found.items():
        age = NOW - datetime.fromisoformat(entry["since"])
        assert age == pytest.approx(ages.get(name, NOW - begin), abs=timedelta(hours=1)), name
        assert ("nothing earlier" in entry["evidence"]) == (name not in last), name
    assert len(document["unread"]) == 2
    assert "board" not in " ".join(document["unread"])
    assert all(name in " ".join(document["unread"]) for name in ("fresh", "holey", "unseen", "train-3", "train-6"))


@pytest.mark.timeout(240)
def test_what_has_expired_comes_first_and_an_idle_workload_once(url: str, tmp_path: Path) -> None:
    result = idle(tmp_path, "--prometheus", url, "--json", "-", ended=("api", "dashboard", "warm"))
    assert result.exit_code == 0, result.output
    keys = ("kind", "name", "owner", "usd")
    found = [tuple(entry[key] for key in keys) for entry in json.loads(result.stdout)["findings"]]

    quarter = MONTH * 1.0 / 4  # of node-1
    assert found[:3] == [
        ("expired", "warm", "team-warm", 3 * quarter),  # by day and by night
        ("expired", "api", "team-api", 2 * quarter),
        ("workload", "dashboard", "team-dashboard", 2 * quarter),
    ]
    assert {owner for _, _, owner, _ in found[3:]} == {""}


@pytest.mark.timeout(240)
def test_the_page_shows_the_output_for_the_example_platform(url: str) -> None:
    shown = CliRunner(env={"COLUMNS": "120"}).invoke(app, ["idle", EXAMPLE, "--prometheus", url])
    assert shown.exit_code == 0, shown.output
    page = (ROOT / "docs/how-to/idle.md").read_text(encoding="utf-8")

    def lines(text: str) -> list[str]:
        return [re.sub(r"\d{4}-\d\d-\d\d", "DATE", line).strip() for line in text.splitlines() if line.strip()]

    block = page.partition("```text\n")[2].partition("```")[0]
    assert lines(block) == lines(shown.stdout)


@pytest.mark.timeout(240)
def test_without_network_series_no_workload_is_judged(url: str, tmp_path: Path) -> None:
    result = idle(tmp_path, "--prometheus", url, customer="bare")

    assert result.exit_code == 0, result.output
    line = next(line for line in result.stdout.splitlines() if "not known" in line)
    assert "api" not in result.stdout
    assert line.startswith("not known: workload: ")
    assert "has nothing for CPU" in line


def test_a_prometheus_without_the_exporters_series_is_one_line(tmp_path: Path) -> None:
    with prometheus(tmp_path, {}) as address:
        result = idle(tmp_path, "--prometheus", address)

    assert result.exit_code == 1
    assert "ebbtide_pod_info" in result.stderr
    assert len(result.stderr.splitlines()) == 1, result.stderr


def test_a_prometheus_that_is_away_is_one_line(tmp_path: Path) -> None:
    result = idle(tmp_path, "--prometheus", "http://127.0.0.1:9")

    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1, result.stderr


@pytest.mark.timeout(240)
def test_a_finding_reaches_back_as_far_as_prometheus_keeps(tmp_path: Path) -> None:
    write(tmp_path, datetime.now(UTC), [PLATFORM])
    with prometheus(tmp_path, {}, retention="7d") as address:
        shown = CliRunner().invoke(app, ["idle", EXAMPLE, "--prometheus", address, "--json", "-"])

    assert shown.exit_code == 0, shown.output
    (found,) = (entry for entry in json.loads(shown.stdout)["findings"] if entry["name"] == "orchestrator")
    assert "nothing earlier is recorded" in found["evidence"]  # it did something 10 days ago
    assert NOW - datetime.fromisoformat(found["since"]) == pytest.approx(timedelta(days=7), abs=timedelta(hours=1))
