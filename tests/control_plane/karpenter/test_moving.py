"""A live stack moves to Karpenter by day, its nodes drift, and it moves back, with the steps of karpenter-own.md.

Karpenter, kube-scheduler and Ebbtide's processes are real. The NodePools are the stack's own, with a KWOKNodeClass in
place of the EC2NodeClass. The cluster autoscaler is the simulator's model of it, with real objects and in faster time.
It knows no node affinity, so on the way back `web` does not exclude Karpenter's nodes, as the page says, but selects a
label that the model knows for a group without nodes and the real one does not. A worker is a process that ends after
SIGTERM when its job has ended. `-s` prints the nodes at each step (docs/evidence/karpenter.md).
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from control_plane.night.autoscaler import RealAutoscaler
from control_plane.night.scaled import ScaledClock
from control_plane.plane.binaries import OF_KARPENTER, how_to_get, missing
from control_plane.plane.driver import ControlPlane
from control_plane.plane.karpenter import DISRUPTED, NODE_CLAIMS, NODE_POOLS, POOL_LABEL, Karpenter, of_kwok, slow_ends
from control_plane.plane.kubelet import Happening, Kubelet, What
from control_plane.plane.stack import APPLY

from controllers.adapters.kube_api import ApiError, Json
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.lab.simulator.cluster.model import GroupModel
from ebbtide.prices import on_demand, spot_typical, usable
from ebbtide.provisioning_labels import CAPACITY_TYPE, INSTANCE_TYPE, WORKER_NAMESPACE
from ebbtide.recording.output import output_files
from ebbtide.recording.record import record
from ebbtide.settings import StackSettings
from ebbtide.settings.capacity.process_documents import workloads_config
from ebbtide.text.files import write_directory
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import load
from ebbtide.vocabulary.labels import (
    CATEGORY,
    CONTROLLER,
    NAMESPACE,
    NODE_GROUP,
    NODE_KIND,
    WORKLOAD,
    WORKLOADS,
    Category,
)
from ebbtide.vocabulary.node_pools import CLOSED, budgets_for
from ebbtide.vocabulary.windows import BusinessHours
from tests.builders.cluster import quick
from tests.builders.control_plane import eventually
from tests.builders.operation import ALWAYS_NIGHT
from tests.builders.redis import endpoint
from tests.builders.settings import loaded
from tests.control_plane.support.applying import NEW_KIND, objects_in
from tests.control_plane.support.controllers import Controllers
from tests.control_plane.support.karpenter import SLOW, Watched, is_live, looked_again, told
from tests.control_plane.support.nodes import ALWAYS_DAY

pytestmark = [pytest.mark.control_plane, pytest.mark.redis, pytest.mark.timeout(900)]

REGION, SPEED = "us-east-1", 20.0
TYPES = ("m7i.xlarge", "m6i.xlarge", "m6a.xlarge", "m7i-flex.xlarge", "g5.xlarge")
STACK = """\
config:
  aws:region: us-east-1
  ebbtide:customer: acme
  ebbtide:businessHours: {{ timezone: Europe/Berlin, week: {{ mon-fri: "08:00-18:00" }} }}
  ebbtide:cluster: {{ zones: [a, b], parallelDrains: 1 }}
  ebbtide:network:
    vpc: {{ id: vpc-0a1b2c3d, privateSubnets: {{ a: subnet-0a1b2c3d, b: subnet-4e5f6071 }} }}
  ebbtide:redis: {{ kind: url, url: "redis://redis.example.com:6379/0" }}
  ebbtide:nodeGroups:
    fixed: {{ min: 1, max: 3 }}
    flexible: {{ instanceTypes: [m7i.xlarge], max: 6 }}
    gpu: {{ instanceTypes: [g5.xlarge], max: 2, provisioner: {provisioner} }}
    spot: {{ instanceTypes: [m7i.xlarge, m6i.xlarge, m6a.xlarge, m7i-flex.xlarge], max: 2, provisioner: {provisioner} }}
    {beside}
  ebbtide:workloads:
    hub: {{ category: fixed, image: "example.com/hub:1", cpu: 1, memory: 1Gi }}
    web: {{ category: flexible, image: "example.com/web:1", replicas: 4, cpu: 1500m, memory: 2Gi, {selector} }}
  ebbtide:workers:
    prep: {{ source: {{ queues: [prep] }}, max: 2, cpu: 3, memory: 4Gi, longestJob: 12h, {image}, nodeGroup: {group} }}
    short: {{ source: {{ queues: [short] }}, max: 2, cpu: 3, memory: 4Gi, longestJob: 30m, {image}, nodeGroup: spot }}
    train: {{ source: {{ queues: [train] }}, max: 2, cpu: 2, memory: 4Gi, gpu: 1, longestJob: 12h, {image} }}
"""
BESIDE = "general: { kind: flexible, instanceTypes: [m7i.xlarge], max: 6, provisioner: karpenter }"
IMAGE = 'image: "example.com/work:1"'
BEFORE = STACK.format(image=IMAGE, provisioner="cluster-autoscaler", beside="", group="flexible", selector="")
MOVED = STACK.format(
    image=IMAGE,
    provisioner="karpenter",
    beside=BESIDE,
    group="general",
    selector="pod: { nodeSelector: { karpenter.sh/capacity-type: on-demand } }",
)
BACK = STACK.format(
    image=IMAGE,
    provisioner="karpenter",
    beside=BESIDE,
    group="flexible",
    selector="pod: { nodeSelector: { eks.amazonaws.com/capacityType: ON_DEMAND } }",
)
OPEN = budgets_for(1)
DRIFT = {"spec": {"template": {"metadata": {"annotations": {"image": "newer"}}}}}
Placed = Mapping[str, tuple[str, str]]  # by uid: workload and node


@dataclass(frozen=True, kw_only=True)
class Course:
    groups: Mapping[str, set[str]]  # by workload: groups of its nodes, before the move
    moved: Mapping[str, set[str]]
    untouched: bool  # the old node of the busy worker was there, and so was the worker, when all else had moved
    emptied: set[str]  # groups with nodes after the move
    least_by_day: int | None
    fewer_by_day: Sequence[str]
    fixed: set[str]  # uids of fixed pods, at all points
    opened: Sequence[Mapping[str, Any]]
    closer: str
    drifted: set[str]  # nodes, while the NodePool was closed
    before_window: Placed
    closed_drift: Placed
    window: Placed
    replaced: set[str]  # drifted nodes that the window ended
    at_a_time: int
    least_at_night: int | None
    back: Mapping[str, set[str]]
    at_end: set[str]  # groups with nodes
    workers: tuple[Happening, ...]


class Live:
    """The stack on its cluster, at one of its files."""

    def __init__(self, plane: ControlPlane, redis: EmbeddedRedis, folder: Path) -> None:
        self.plane, self._redis, self._folder = plane, redis, folder
        self.controllers = Controllers(plane, folder)
        self.job_ends = folder / "ended"
        self.rows: list[str] = []

    def up(self, text: str, hours: BusinessHours) -> StackSettings:
        """As Pulumi applies what is rendered, but for AWS' part."""
        settings, out = loaded(text, self._folder), self._folder / "stack"
        write_directory(out, output_files(record(settings)))
        objects = [of_kwok(each) for each in objects_in(out) if each["kind"] not in ("EC2NodeClass", NEW_KIND)]
        self.plane.kubectl(
            *APPLY, "--filename=-", stdin=json.dumps({"kind": "List", "apiVersion": "v1", "items": objects})
        )
        scaler = load(ControllerConfig, (out / "controller-config.json").read_text(encoding="utf-8"))
        workloads = workloads_config(settings, lambda _: "")

        self.controllers.follow(replace(scaler, redis=endpoint(self._redis)), workloads, hours)
        return settings

    def work(self, *queues: str) -> None:
        with self._redis.client() as client:
            for queue in queues:
                client.rpush(f"rq:queue:{queue}", "a job that nobody takes")

    def command(self, _: Json) -> Sequence[str]:
        script = f"trap 'told=1' TERM; until [ \"$told\" ] && [ -e {self.job_ends} ]; do sleep 0.1; done"
        return ("/bin/sh", "-c", script)

    def placed(self) -> Placed:
        """The stack's ready pods with a category."""
        pods = self.plane.api.get("/api/v1/pods", labelSelector=f"{CATEGORY},{WORKLOAD} in (hub,web,prep,short,train)")
        return {
            it["metadata"]["uid"]: (it["metadata"]["labels"][WORKLOAD], it["spec"]["nodeName"])
            for it in pods["items"]
            if is_live(it)
        }

    def nodes(self) -> Mapping[str, Json]:
        return {it["metadata"]["name"]: it for it in self.plane.api.get("/api/v1/nodes")["items"]}

    def groups(self) -> Mapping[str, set[str]]:
        nodes, found = self.nodes(), dict[str, set[str]]()
        for workload, node in self.placed().values():
            found.setdefault(workload, set()).add(nodes[node]["metadata"]["labels"][NODE_GROUP])
        return found

    def in_use(self) -> set[str]:
        return {it["metadata"]["labels"][NODE_GROUP] for it in self.nodes().values()}

    def waits_for(self, wanted: Mapping[str, str]) -> Mapping[str, set[str]]:
        """Until all pods are ready in these groups, and no pod of an older template is left there."""

        def there() -> Mapping[str, set[str]] | None:
            counts = Counter(workload for workload, _ in self.placed().values())
            all_there = counts == {**dict.fromkeys(wanted, 1), "web": 4}
            return groups if all_there and (groups := self.groups()) == {k: {v} for k, v in wanted.items()} else None

        return eventually(there, what=f"{wanted}", patience=SLOW)

    def note(self, step: str) -> None:
        """A row of the table: nodes of each owner with what runs there, ready or ending, and their price."""
        running: dict[str, list[str]] = {}
        for pod in self.plane.api.get("/api/v1/pods", labelSelector=f"{WORKLOAD} in (hub,web,prep,short,train)")[
            "items"
        ]:
            ends = " (ending)" if "deletionTimestamp" in pod["metadata"] else ""
            running.setdefault(pod["spec"].get("nodeName", ""), []).append(pod["metadata"]["labels"][WORKLOAD] + ends)
        owners: dict[bool, list[str]] = {False: [], True: []}
        dollars = 0.0
        for name, node in sorted(self.nodes().items()):
            its_labels = node["metadata"]["labels"]
            price = spot_typical if its_labels.get(CAPACITY_TYPE) == "spot" else on_demand
            dollars += price(REGION, its_labels[INSTANCE_TYPE])
            pods = ", ".join(f"{n} {it}" if n > 1 else it for it, n in sorted(Counter(running.get(name, [])).items()))
            owners[POOL_LABEL in its_labels].append(f"{its_labels[NODE_GROUP]}: {pods or 'empty'}")
        cells = ("<br>".join(f"{n} x {it}" if n > 1 else it for it, n in Counter(owners[by]).items()) for by in owners)
        self.rows.append(f"| {step} | {' | '.join(it or 'none' for it in cells)} | ${dollars:.2f} |")


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Course]:
    if lacking := [*missing(), *missing(OF_KARPENTER)]:
        pytest.skip(how_to_get(lacking))
    folder = tmp_path_factory.mktemp("moving")
    with ExitStack() as stack:
        workers = f"{CATEGORY}={Category.WORKER}"
        plane = stack.enter_context(ControlPlane(mode=slow_ends(folder), hands_off=workers))
        karpenter = stack.enter_context(Karpenter(plane, TYPES))
        live = Live(plane, stack.enter_context(EmbeddedRedis()), folder)
        begun = datetime.now(UTC)
        try:
            yield observed(live, karpenter, stack)
        except (ApiError, AssertionError) as error:
            error.add_note("\n".join((*live.rows, told(begun, karpenter.commands(), live.controllers.writes()))))
            raise
        finally:
            live.controllers.kill()
        print("\n".join(live.rows), told(begun, karpenter.commands(), live.controllers.writes()), sep="\n")


def managed(name: str, settings: StackSettings) -> GroupModel:
    """A managed group as its autoscaler knows it."""
    (kind,) = settings.node_groups[name].types
    room = usable(kind)
    labels = {
        NODE_GROUP: name,
        NODE_KIND: "flexible",
        "eks.amazonaws.com/capacityType": "ON_DEMAND",
        INSTANCE_TYPE: kind.name,
    }
    return GroupModel(name=name, min=0, max=6, cpu_m=room.cpu, memory_mib=room.memory, boot_s=20.0, labels=labels)


def observed(live: Live, karpenter: Karpenter, stack: ExitStack) -> Course:
    plane, controllers = live.plane, live.controllers
    fixed = {NODE_GROUP: "fixed", NODE_KIND: "fixed", INSTANCE_TYPE: "m7i.2xlarge"}
    plane.add_node("fixed-1", labels=fixed)
    group = managed("flexible", live.up(BEFORE, ALWAYS_DAY))
    plane.kubectl("--namespace", WORKER_NAMESPACE, "scale", "deployment", "--all", "--replicas=0")
    autoscaler = RealAutoscaler(plane.api, [group], quick(), ScaledClock(datetime(2026, 6, 2, 12, tzinfo=UTC), SPEED))
    stack.enter_context(autoscaler)
    kubelet = stack.enter_context(Kubelet(plane.api, WORKER_NAMESPACE, live.command))
    live.work("prep")
    controllers.start(CONTROLLER)
    before = live.waits_for({"hub": "fixed", "web": "flexible", "prep": "flexible"})
    hubs = [{uid for uid, (name, _) in live.placed().items() if name == "hub"}]
    live.note("before")

    watched = Watched(plane, NAMESPACE, f"{WORKLOAD}=web")
    watched.begin(4)
    live.up(MOVED, ALWAYS_DAY)
    controllers.start(WORKLOADS)
    live.work("short", "train")
    everywhere = {"hub": "fixed", "web": "general", "prep": "general", "short": "spot", "train": "gpu"}
    moved = live.waits_for(everywhere)
    old = eventually(lambda: alone(live, "flexible"), what="old nodes to go but for that of the busy worker")
    live.note("`up` by day; a job still runs on its old node")
    untouched = len(old) == 1 and kubelet_has(kubelet, 4)
    live.job_ends.touch()
    eventually(lambda: "flexible" not in live.in_use(), what="the last old node to go", patience=SLOW)
    live.job_ends.unlink()
    live.note("the job has ended")
    emptied, least_by_day, fewer_by_day = live.in_use(), watched.least, watched.fewer
    watched.stop()

    controllers.write(ALWAYS_NIGHT)
    eventually(lambda: karpenter.budgets("general") == OPEN, what="the NodePool to open")
    opened = karpenter.budgets("general")
    controllers.kill()
    controllers.write(controllers.soon())
    closer = controllers.close()
    before_window = live.placed()
    plane.api.patch(f"{NODE_POOLS}/general", DRIFT)
    old_nodes = set(karpenter.nodes("general"))
    eventually(lambda: drifted(plane) == old_nodes, what="the nodes to drift")
    looked_again(karpenter)
    closed_drift = live.placed()
    live.note("a newer image by day; controllers dead, closed by the closer")

    watched = Watched(plane, NAMESPACE, f"{WORKLOAD}=web")
    watched.begin(4)
    draining = Draining(plane)
    controllers.write(ALWAYS_NIGHT)
    controllers.start()
    busy = {node for name, node in before_window.values() if name == "prep"}
    eventually(lambda: old_nodes & set(karpenter.nodes("general")) == busy, what="drifted nodes to go", patience=SLOW)
    eventually(lambda: len(live.placed()) == len(before_window), what="their pods", patience=SLOW)
    window, at_a_time, least_at_night = live.placed(), draining.stop(), watched.least
    watched.stop()
    replaced = old_nodes - set(karpenter.nodes("general"))
    live.note("the window: drifted nodes are replaced one at a time")
    hubs.append({uid for uid, (name, _) in window.items() if name == "hub"})

    controllers.write(ALWAYS_DAY)
    eventually(lambda: karpenter.budgets("general") == CLOSED, what="the NodePool to close")
    watched = Watched(plane, NAMESPACE, f"{WORKLOAD}=web")
    watched.begin(4)
    live.job_ends.touch()
    live.up(BACK, ALWAYS_DAY)
    back = live.waits_for({**everywhere, "web": "flexible", "prep": "flexible"})
    live.note("`up` by day for the way back")
    eventually(lambda: "general" not in live.in_use(), what="Karpenter's empty nodes to go", patience=SLOW)
    live.note("Karpenter's empty nodes have gone")
    hubs.append({uid for uid, (name, _) in live.placed().items() if name == "hub"})
    least_by_day = min(least_by_day or 0, watched.least or 0)
    watched.stop()
    return Course(
        groups=before,
        moved=moved,
        untouched=untouched,
        emptied=emptied,
        least_by_day=least_by_day,
        fewer_by_day=[*fewer_by_day, *watched.fewer],
        fixed=set[str]().union(*hubs),
        opened=opened,
        closer=closer.stdout,
        drifted=old_nodes,
        before_window=before_window,
        closed_drift=closed_drift,
        window=window,
        replaced=replaced,
        at_a_time=at_a_time,
        least_at_night=least_at_night,
        back=back,
        at_end=live.in_use(),
        workers=kubelet.history(),
    )


def alone(live: Live, group: str) -> list[str] | None:
    """The nodes of a group, if there is one."""
    names = [name for name, it in live.nodes().items() if it["metadata"]["labels"][NODE_GROUP] == group]
    return names if len(names) == 1 else None


def kubelet_has(kubelet: Kubelet, processes: int) -> bool:
    """Workers run, the one with the old template as well."""
    return len(kubelet.processes()) == processes


def drifted(plane: ControlPlane) -> set[str]:
    claims = plane.api.get(NODE_CLAIMS, labelSelector=f"{POOL_LABEL}=general")["items"]
    return {
        it["status"]["nodeName"]
        for it in claims
        if any((at["type"], at["status"]) == ("Drifted", "True") for at in it["status"]["conditions"])
    }


class Draining:
    """The largest number of nodes of the NodePool that Karpenter disrupted at a time, by a watch."""

    def __init__(self, plane: ControlPlane) -> None:
        self._watch = plane.api.watch("/api/v1/nodes", 600, labelSelector=f"{POOL_LABEL}=general")
        self._most, self._now = 0, set[str]()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        self._watch.stop()
        self._thread.join()
        return self._most

    def _run(self) -> None:
        with suppress(ApiError):  # the control plane ended first, after a failure
            for event in self._watch:
                node = event["object"]
                taints = {taint["key"] for taint in node["spec"].get("taints") or ()}
                is_there = event["type"] != "DELETED" and DISRUPTED in taints
                (self._now.add if is_there else self._now.discard)(node["metadata"]["name"])
                self._most = max(self._most, len(self._now))


def test_pods_of_each_category_run_on_nodes_of_the_stacks_own_node_pools(course: Course) -> None:
    assert course.groups == {"hub": {"fixed"}, "web": {"flexible"}, "prep": {"flexible"}}
    assert course.moved == {
        "hub": {"fixed"},
        "web": {"general"},
        "prep": {"general"},
        "short": {"spot"},
        "train": {"gpu"},
    }


def test_a_move_by_day_interrupts_nothing_there_and_back(course: Course) -> None:
    ends = Counter((it.what, it.code) for it in course.workers if it.what not in (What.STARTED, What.TOLD_TO_STOP))

    assert course.untouched
    assert course.emptied == {"fixed", "general", "spot", "gpu"}
    assert course.back == {**course.moved, "web": {"flexible"}, "prep": {"flexible"}}
    assert course.at_end == {"fixed", "flexible", "spot", "gpu"}
    assert course.least_by_day == 4, course.fewer_by_day
    assert len(course.fixed) == 1
    assert ends == {(What.EXITED, 0): 2}  # of prep's worker, on the way there and on the way back


def test_drifted_nodes_stay_while_the_closer_keeps_their_node_pool_closed(course: Course) -> None:
    assert course.opened == OPEN
    assert "closer: nodepool general closed" in course.closer
    assert len(course.drifted) >= 3
    assert course.closed_drift == course.before_window


def test_in_the_window_drifted_nodes_are_replaced_one_at_a_time_and_a_workers_node_stays(course: Course) -> None:
    stayed = {uid: at for uid, at in course.before_window.items() if at[0] != "web"}

    assert course.at_a_time == 1
    assert course.least_at_night == 3
    assert course.replaced == course.drifted - {node for name, node in stayed.values() if name == "prep"}
    assert {uid: course.window.get(uid) for uid in stayed} == stayed
