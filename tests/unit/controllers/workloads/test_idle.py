"""Whether a workload is idle: real answers of a Prometheus with generated samples, a hub's answers, and bad answers."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from controllers.adapters.kube_api import ApiError, KubeApi
from controllers.workloads.sleep.idle import Activity, Use, facts_of, pod_of, too_recent
from controllers.workloads.sleep.use import Prometheus, UseMeter
from ebbtide.vocabulary.workloads import SleepPolicy
from tests.builders.monitoring.day import PROMTOOL, needs_promtool
from tests.builders.monitoring.servers import needs_prometheus, prometheus
from tests.builders.workloads.hub import CONNECTED, STARTING, Hub

AFTER = timedelta(hours=2)
NOW = datetime(2026, 1, 5, 3, tzinfo=UTC)
POLICY = SleepPolicy(
    name="hub", namespace="ebbtide", kind="Deployment", replicas=1, asleep=0, lead=timedelta(), idle_after=AFTER
)


# --- pods -------------------------------------------------------------------------------------------------------------


HASH = "5d4c"


def item(
    name: str, since: datetime, *, containers: Sequence[str] = ("app",), uid: str = "", of: str = "hub"
) -> dict[str, Any]:
    """A pod of the Deployment `of`."""
    started = since.isoformat().replace("+00:00", "Z")
    return {
        "metadata": {
            "name": name,
            "uid": uid or f"0a1b-{name}",
            "labels": {"pod-template-hash": HASH},
            "ownerReferences": [owner("ReplicaSet", f"{of}-{HASH}")],
        },
        "spec": {"containers": [{"name": container} for container in containers]},
        "status": {
            "containerStatuses": [{"name": it, "state": {"running": {"startedAt": started}}} for it in containers]
        },
    }


def owner(kind: str, name: str, *, controller: bool = True, api: str = "apps/v1") -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "name": name, "controller": controller}


def test_a_pod_runs_since_its_last_container_started() -> None:
    pod = item("hub-0", NOW - 3 * AFTER, containers=("app", "log"))
    pod["status"]["containerStatuses"][1]["state"]["running"]["startedAt"] = "2026-01-05T02:30:00Z"
    assert pod_of(pod).since == NOW - timedelta(minutes=30)
    pod["status"]["containerStatuses"][1]["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
    assert pod_of(pod).since is None


def test_a_pod_that_is_ending_or_has_no_status_does_not_run() -> None:
    ending, new = item("hub-0", NOW - 3 * AFTER), item("hub-1", NOW)
    ending["metadata"]["deletionTimestamp"] = "2026-01-05T02:59:00Z"
    del new["status"]
    assert (pod_of(ending).since, pod_of(new).since) == (None, None)


def test_a_sidecar_that_does_not_run_counts_as_a_restart() -> None:
    pod = item("hub-0", NOW - 3 * AFTER)
    pod["spec"]["initContainers"] = [{"name": "migrate"}, {"name": "proxy", "restartPolicy": "Always"}]
    crashed = {"name": "proxy", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    pod["status"]["initContainerStatuses"] = [{"name": "migrate", "state": {"terminated": {}}}, crashed]
    assert pod_of(pod).since is None
    crashed["state"] = {"running": {"startedAt": "2026-01-05T02:30:00Z"}}
    assert pod_of(pod).since == NOW - timedelta(minutes=30)


@pytest.mark.parametrize(
    ("ages", "why"),
    [
        ([3.0, 3.0], ""),
        ([2.0, 2.0], ""),
        ([3.0, 1.99], "has not run for 2:00:00 without a restart: b"),
        ([3.0], "it has 1 of 2 pods"),
        ([3.0, 3.0, 3.0], "it has 3 of 2 pods"),
        ([], "it has 0 of 2 pods"),
    ],
)
def test_only_pods_that_all_ran_for_so_long_can_be_idle(ages: Sequence[float], why: str) -> None:
    pods = [pod_of(item(name, NOW - timedelta(hours=age))) for name, age in zip("abc", ages, strict=False)]
    assert too_recent(pods, 2, AFTER, NOW) == why


# --- bad answers ------------------------------------------------------------------------------------------------------


LINE = {"metric": {"fact": "cpu busiest", "pod": "hub-0"}, "value": [NOW.timestamp(), "0.1"]}


def answer(**changes: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"result": [LINE]}, **changes}


BAD_ANSWERS: Sequence[tuple[dict[str, Any], str]] = [
    ({"status": "error"}, "incomplete"),
    ({"warnings": ["a store did not answer"]}, "incomplete"),
    ({"isPartial": True}, "incomplete"),
    ({"data": {}}, "not Prometheus'"),
    ({"data": {"result": [{"metric": {"fact": "x"}, "value": [NOW.timestamp(), "1"]}]}}, "not Prometheus'"),
    ({"data": {"result": [LINE, LINE]}}, "two values.*cpu busiest, hub-0"),
    *(
        ({"data": {"result": [{**LINE, "value": [NOW.timestamp(), it]}]}}, "or (nan|.?inf):")
        for it in ("NaN", "+Inf", "-Inf")
    ),
    ({"data": {"result": [{"metric": {}, "value": [NOW.timestamp() - 61, "1"]}]}}, "more than a minute"),
    ({"data": {"result": [{"metric": {}, "value": [NOW.timestamp() + 61, "1"]}]}}, "more than a minute"),
]


@pytest.mark.parametrize(("changes", "why"), BAD_ANSWERS)
def test_an_answer_that_is_not_complete_and_of_this_clock_is_none(changes: dict[str, Any], why: str) -> None:
    assert facts_of(answer(), NOW) == {("cpu busiest", "hub-0", ""): 0.1}
    with pytest.raises(ValueError, match=why):
        facts_of(answer(**changes), NOW)


# --- a real Prometheus ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Course:
    """A pod's counters, every `every` seconds over the last three hours. `spell`: minutes ago, with other rates."""

    cores: float = 0.004
    bytes: float = 330
    spell: tuple[float, float] = (0, 0)
    busy_cores: float = 0.004
    busy_bytes: float = 330
    by_turns: tuple[float, float] = (0, 0)  # the spell of a second container, and of what is sent
    hole: tuple[float, float] = (0, 0)  # minutes ago: begin and end
    every: int = 30
    addresses: int = 1  # by which the kubelet is scraped
    left_out: str = ""  # metrics of this prefix
    uid: str = ""  # of another cluster's pod
    pods: int = 1
    containers: tuple[str, ...] = ("app",)
    recorded_pods: int | None = None

    def samples(self, workload: str, until: datetime) -> Iterator[tuple[str, str, float, float]]:
        """Yield metric, labels, time and value."""
        for number in range(self.pods if self.recorded_pods is None else self.recorded_pods):
            pod = f"{workload}-{number}"
            path = f"/kubepods.slice/kubepods-pod{(self.uid or uid_of(pod)).replace('-', '_')}.slice/cri"
            common = f'namespace="ebbtide",pod="{pod}",id="{path}'
            cpu, network = "container_cpu_usage_seconds_total", f'{common}-pause.scope",interface="eth0"'
            other = self.by_turns if any(self.by_turns) else self.spell
            series = [
                (cpu, f'{common}-app.scope",container="app"', self.spell),
                *([(cpu, f'{common}-log.scope",container="log"', other)] if any(self.by_turns) else []),
                ("container_network_receive_bytes_total", network, self.spell),
                ("container_network_transmit_bytes_total", network, other),
            ]
            for metric, labels, spell in series:
                if not (self.left_out and metric.startswith(self.left_out)):
                    value = 0.0
                    for second in range(-3 * 3600, 1, self.every):
                        busy = spell[1] * 60 <= -second < spell[0] * 60
                        rate = (
                            (self.busy_cores if busy else self.cores)
                            if metric == cpu
                            else (self.busy_bytes if busy else self.bytes) / 2
                        )
                        value += rate * self.every
                        if not self.hole[1] * 60 <= -second < self.hole[0] * 60:
                            for address in range(self.addresses):
                                yield metric, f'{labels},instance="{address}"', until.timestamp() + second, value


def uid_of(pod: str) -> str:
    return f"0a1b2c3d-{pod}"


TWO: Mapping[str, Any] = {
    "containers": ("app", "log"), "cores": 0.0005, "busy_cores": 0.007, "bytes": 80, "busy_bytes": 500
}  # fmt: skip
COURSES = {
    "untouched": Course(cores=0.009, bytes=500),
    "scraped-each-minute": Course(every=60),
    "scraped-by-two-addresses": Course(cores=0.009, bytes=500, addresses=2),
    "busy-before": Course(spell=(175, 130), busy_cores=1),
    "two-pods": Course(pods=2),
    "computed": Course(spell=(70, 68), busy_cores=0.02),
    "visited": Course(spell=(100, 99), busy_bytes=1_000),
    "by-turns": Course(spell=(100, 96), by_turns=(70, 66), **TWO),
    "at-once": Course(spell=(100, 96), by_turns=(99, 95), **TWO),
    "works-now": Course(spell=(3, -1), busy_cores=1),
    "hole": Course(hole=(60, 57)),
    "stale": Course(hole=(10, -1)),
    "half": Course(hole=(180, 60)),
    "no-network": Course(left_out="container_network"),
    "never-sent": Course(left_out="container_network_transmit"),
    "second-container": Course(containers=("app", "log")),
    "one-of-two": Course(pods=2, recorded_pods=1),
    "other-cluster": Course(uid="ffff-ffff"),
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder, until = tmp_path_factory.mktemp("idle"), datetime.now(UTC)
    lines: dict[str, list[str]] = {}
    for workload, course in COURSES.items():
        for metric, labels, second, value in course.samples(workload, until):
            lines.setdefault(metric, []).append(f"{metric}{{{labels}}} {value} {second:.3f}\n")
    text = "".join(f"# TYPE {name.removesuffix('_total')} counter\n{''.join(of)}" for name, of in lines.items())
    (folder / "samples.txt").write_text(f"{text}# EOF\n")
    command = [cast("str", PROMTOOL), "tsdb", "create-blocks-from", "openmetrics", "samples.txt", "data"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    with prometheus(folder, {}) as address:
        yield address


class Pods:
    """The API server: pods that have run for longer than is asked."""

    def __init__(self, course: Course, workload: str) -> None:
        names = [f"{workload}-{number}" for number in range(course.pods)]
        since = datetime.now(UTC) - timedelta(hours=9)
        self.items = [item(name, since, containers=course.containers, uid=uid_of(name), of=workload) for name in names]

    def get(self, path: str, labelSelector: str) -> dict[str, Any]:  # noqa: N803 - the API's word
        assert path == "/api/v1/namespaces/ebbtide/pods"
        assert labelSelector.startswith("ebbtide.dev/workload=")
        return {"items": self.items}


def measured(workload: str, url: str, **changes: Any) -> Activity:
    course = COURSES[workload]
    policy = replace(POLICY, name=workload, **changes)
    return UseMeter(cast("KubeApi", Pods(course, workload)), policy, Prometheus(url)).read(
        course.pods, datetime.now(UTC)
    )


@pytest.mark.parametrize(
    ("workload", "use", "why"),
    [
        ("untouched", Use.IDLE, "idle"),
        ("scraped-each-minute", Use.IDLE, "idle"),
        ("scraped-by-two-addresses", Use.IDLE, "idle"),
        ("busy-before", Use.IDLE, "idle"),
        ("two-pods", Use.IDLE, "idle"),
        ("computed", Use.BUSY, "cores"),
        ("visited", Use.BUSY, "bytes a second"),
        ("by-turns", Use.IDLE, "idle"),
        ("at-once", Use.BUSY, "0.0140 cores, 500 bytes"),
        ("works-now", Use.BUSY, "cores"),
        ("hole", Use.RECENT, "of the last 2:00:00"),
        ("stale", Use.RECENT, "of the last 2:00:00"),
        ("half", Use.RECENT, "of the last 2:00:00"),
        ("no-network", Use.UNKNOWN, "no container_network_receive_bytes_total of no-network-0"),
        ("never-sent", Use.UNKNOWN, "no container_network_transmit_bytes_total of never-sent-0"),
        ("second-container", Use.UNKNOWN, "no container_cpu_usage_seconds_total"),
        ("one-of-two", Use.UNKNOWN, "of one-of-two-1"),
        ("other-cluster", Use.UNKNOWN, "Prometheus has no"),
    ],
)
@pytest.mark.process
@needs_promtool
@needs_prometheus
def test_only_what_was_recorded_in_full_and_unused_is_idle(workload: str, use: Use, why: str, url: str) -> None:
    activity = measured(workload, url)
    assert (activity.use, why in activity.why) == (use, True), activity


@pytest.mark.process
@needs_promtool
@needs_prometheus
def test_a_longer_time_than_was_recorded_is_not_known(url: str) -> None:
    assert measured("untouched", url, idle_after=timedelta(hours=4)).use is Use.RECENT


# --- a hub ------------------------------------------------------------------------------------------------------------


REPLIES: Sequence[tuple[tuple[int, Any], str | None, Use, str]] = [
    ((200, []), "abc\n", Use.IDLE, "idle"),
    ((200, [STARTING]), "abc", Use.BUSY, "a user"),
    ((200, [CONNECTED]), "abc", Use.BUSY, "a user"),
    ((200, {"items": []}), "abc", Use.UNKNOWN, "not a list"),
    ((500, {}), "abc", Use.UNKNOWN, "the hub: HTTP 500"),
    ((200, []), "another", Use.UNKNOWN, "the hub: Forbidden"),
    ((200, []), "a b", Use.UNKNOWN, "holds no token"),
    ((200, []), None, Use.UNKNOWN, "No such file"),
]


@pytest.mark.parametrize(("reply", "token", "use", "why"), REPLIES)
@pytest.mark.process
@needs_promtool
@needs_prometheus
def test_a_hub_is_idle_only_without_a_user_who_has_a_server(
    reply: tuple[int, object], token: str | None, use: Use, why: str, url: str, tmp_path: Path
) -> None:
    hub, file = Hub(), tmp_path / "token"
    hub.answer = reply
    if token is not None:
        file.write_text(token)
    try:
        activity = measured("untouched", url, hub=hub.url, hub_token_file=str(file))
    finally:
        hub.end()
    assert (activity.use, why in activity.why) == (use, True), activity
    assert "a b" not in activity.why


# --- what is asked, and when ------------------------------------------------------------------------------------------


class Counted:
    def __init__(self, items: Sequence[dict[str, Any]]) -> None:
        self.items, self.asked = items, 0

    def get(self, path: str, **query: str) -> dict[str, Any]:  # noqa: ARG002 - as the API
        self.asked += 1
        if not self.items:
            raise ApiError(0, "the server is away")
        return {"items": self.items}


def test_a_prometheus_that_is_away_is_asked_once_a_minute_for_all_workloads(monkeypatch: pytest.MonkeyPatch) -> None:
    away = Prometheus("http://127.0.0.1:9")
    server = Counted(())
    monkeypatch.setattr(away, "_server", server)
    meters = [UseMeter(cast("KubeApi", Counted([item("hub-0", NOW - 2 * AFTER)])), POLICY, away) for _ in range(3)]

    for second in (0, 10, 59):
        uses = {meter.read(1, NOW + timedelta(seconds=second)) for meter in meters}
        assert uses == {Activity(Use.UNKNOWN, "Prometheus: the server is away")}
    assert server.asked == 1
    meters[0].read(1, NOW + timedelta(seconds=60))
    assert server.asked == 2


def test_pods_that_cannot_be_read_are_not_known_to_be_idle() -> None:
    meter = UseMeter(cast("KubeApi", Counted(())), POLICY, Prometheus("http://127.0.0.1:9"))
    assert meter.read(1, NOW) == Activity(Use.UNKNOWN, "the server is away")


@pytest.mark.parametrize(
    ("kind", "owners", "known"),
    [
        ("Deployment", [owner("ReplicaSet", f"hub-{HASH}")], True),
        ("Deployment", [owner("ReplicaSet", f"hub-proxy-{HASH}")], False),
        ("Deployment", [owner("ReplicaSet", "hub-proxy")], False),
        ("Deployment", [owner("StatefulSet", "hub")], False),
        ("Deployment", [owner("ReplicaSet", f"hub-{HASH}", controller=False)], False),
        ("Deployment", [owner("Rollout", "hub", api="argoproj.io/v1alpha1")], False),
        ("Deployment", [], False),
        ("StatefulSet", [owner("StatefulSet", "hub")], True),
        ("StatefulSet", [owner("StatefulSet", "hub"), owner("Team", "a", controller=False)], True),
        ("StatefulSet", [owner("StatefulSet", "database")], False),
        ("StatefulSet", [owner("StatefulSet", "hub", api="apps.kruise.io/v1beta1")], False),
        ("StatefulSet", [owner("ReplicaSet", f"hub-{HASH}")], False),
    ],
)
def test_only_pods_that_the_object_created_can_be_known_to_be_idle(
    kind: str, owners: Sequence[dict[str, Any]], known: bool
) -> None:
    pod = item("hub-0", NOW)
    pod["metadata"]["ownerReferences"] = owners
    meter = UseMeter(cast("KubeApi", Counted([pod])), replace(POLICY, kind=kind), Prometheus("http://127.0.0.1:9"))

    foreign = Activity(Use.UNKNOWN, f"{kind.lower()} ebbtide/hub did not create the selected pod hub-0")
    recent = Activity(Use.RECENT, "has not run for 2:00:00 without a restart: hub-0")
    assert meter.read(1, NOW) == (recent if known else foreign)


@pytest.mark.parametrize(
    ("policy", "query"),
    [
        (POLICY, ("/api/v1/namespaces/ebbtide/pods", "ebbtide.dev/workload=hub")),
        (
            replace(POLICY, namespace="jupyter", adopted=True, object_name="hub-0", selector="app in (hub)"),
            ("/api/v1/namespaces/jupyter/pods", "app in (hub)"),
        ),
    ],
    ids=["own", "chart"],
)
def test_the_pods_of_a_chart_are_those_that_its_rule_selects(policy: SleepPolicy, query: tuple[str, str]) -> None:
    class Api:
        def __init__(self) -> None:
            self.queries = list[tuple[str, str]]()

        def get(self, path: str, labelSelector: str) -> dict[str, Any]:  # noqa: N803 - the API's word
            self.queries.append((path, labelSelector))
            return {"items": []}

    api = Api()
    assert UseMeter(cast("KubeApi", api), policy, Prometheus("http://127.0.0.1:9")).read(1, NOW).use is Use.RECENT
    assert api.queries == [query]


def test_idleness_is_measured_again_at_once_because_pods_may_have_been_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = [
        {"metric": {"fact": f"{name} {fact}", "pod": "hub-0", **of}, "value": [NOW.timestamp(), value]}
        for name, fact, value, of in (
            ("cpu", "steps", "240", {"container": "app"}),
            ("received", "steps", "240", {}),
            ("sent", "steps", "240", {}),
            ("cpu", "busiest", "0", {}),
            ("network", "busiest", "0", {}),
        )
    ]
    server = Prometheus("http://127.0.0.1:9")
    monkeypatch.setattr(server, "_server", Answers({"status": "success", "data": {"result": lines}}))
    pods = Counted([item("hub-0", NOW - 2 * AFTER)])
    meter = UseMeter(cast("KubeApi", pods), POLICY, server)

    assert meter.read(1, NOW).use is Use.IDLE
    evicted = item("hub-1", NOW)
    evicted["status"]["phase"] = "Failed"
    pods.items = [*pods.items, evicted]
    assert meter.read(1, NOW).use is Use.IDLE, "an evicted pod, which is kept, runs nothing"
    pods.items = [item("hub-0", NOW)]
    assert meter.read(1, NOW + timedelta(seconds=1)).use is Use.RECENT


class Answers:
    def __init__(self, document: object) -> None:
        self._document = document

    def get(self, path: str, **query: str) -> object:  # noqa: ARG002 - as the API
        return self._document
