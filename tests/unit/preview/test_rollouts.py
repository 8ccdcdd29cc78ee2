"""Changes of a pod section, and the pods that they roll."""

from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from typing import Any

import pytest

from ebbtide.findings import Severity
from ebbtide.preview.changes import changes_between
from ebbtide.preview.document import ChangeKind, Danger
from ebbtide.preview.sides import Side
from ebbtide.settings import parse_stack
from tests.builders.recorded import record
from tests.builders.sides import dangers, edited, with_input

pytestmark = pytest.mark.whole

POD: Mapping[str, Any] = {
    "image": "registry.example.com/a:1",
    "cpu": 1,
    "memory": "1Gi",
    "ports": {"http": 8080},
    "env": {"LOG_LEVEL": "info"},
    "volumes": {
        "conf": {"files": {"app.toml": "debug = true"}, "at": "/etc/app"},
        "cache": {"scratch": "1Gi", "at": "/scratch"},
    },
}
DISK = {"perPod": "10Gi", "at": "/data"}
STACK: Mapping[str, Any] = {
    "ebbtide:customer": "acme",
    "ebbtide:businessHours": {"timezone": "Europe/Berlin", "week": {"mon-fri": "08:00-18:00"}},
    "ebbtide:workloads": {
        "api": {"category": "flexible", "replicas": 2, **POD},
        "other": {"category": "flexible", **POD},
        "db": {"category": "fixed", "kind": "stateful-set", **POD, "volumes": {"data": DISK}},
    },
    "ebbtide:workers": {
        "train": {"source": {"queues": ["train"]}, "max": 4, "longestJob": "12h", "safeStop": True, **POD},
    },
}

FIELDS: Mapping[str, Mapping[str, Any]] = {
    "a variable": {"env": {"LOG_LEVEL": "debug"}},
    "a variable more": {"env": {"LOG_LEVEL": "info", "FLAG": {"configMap": "flags", "key": "a"}}},
    "all of a Secret": {"envFrom": [{"secret": "login"}]},
    "a port": {"ports": {"http": 8081}},
    "a probe": {"probes": {"liveness": {"tcp": "http"}}},
    "a file's text": {"volumes": {**POD["volumes"], "conf": {"files": {"app.toml": "x = 2"}, "at": "/etc/app"}}},
    "a volume's path": {"volumes": {**POD["volumes"], "cache": {"scratch": "1Gi", "at": "/elsewhere"}}},
    "a volume's size": {"volumes": {**POD["volumes"], "cache": {"scratch": "2Gi", "at": "/scratch"}}},
    "a volume more": {"volumes": {**POD["volumes"], "tls": {"secret": "tls", "at": "/etc/tls"}}},
    "shared memory": {"shm": "512Mi"},
    "a limit": {"limits": {"cpu": 2}},
    "room on the disk": {"ephemeralStorage": "5Gi"},
    "a size": {"cpu": 2},
    "a priority": {"priority": 100},
    "a label": {"labels": {"team": "search"}},
    "an annotation": {"annotations": {"team": "search"}},
    "a user": {"user": 999},
    "a root that is read-only": {"writableRoot": False},
    "arguments": {"args": ["--verbose"]},
}


def stack(section: str = "workloads", name: str = "api", **keys: Any) -> Side:
    config = deepcopy(dict(STACK))
    config[f"ebbtide:{section}"][name].update(keys)
    settings = parse_stack(config, stack="acme", file="any")
    return Side(stack="acme", settings=settings, resources=record(settings))


@cache
def before() -> Side:
    return stack()


def rolled(after: Side) -> list[tuple[Severity, tuple[str, ...]]]:
    codes = ("pods-rolled", "workload-restarted")
    return [(danger.severity, danger.subjects) for danger in dangers(before(), after) if danger.code in codes]


@pytest.mark.parametrize("keys", FIELDS.values(), ids=FIELDS.keys())
def test_a_changed_pod_rolls_the_pods_of_its_workload_and_of_no_other(keys: Mapping[str, Any]) -> None:
    assert rolled(stack(**keys)) == [(Severity.NOTE, ("api",))]


def test_a_fixed_service_is_warned_of_and_a_pool_noted() -> None:
    env = {"LOG_LEVEL": "debug"}

    assert rolled(stack(name="db", env=env)) == [(Severity.WARNING, ("db",))]
    assert rolled(stack("workers", "train", env=env)) == [(Severity.NOTE, ("train",))]


def test_a_pool_without_a_safe_stop_is_told_to_be_changed_while_it_is_idle() -> None:
    def fix(*, safe: bool) -> str:
        old, new = (stack("workers", "train", safeStop=safe, env={"LOG_LEVEL": level}) for level in ("info", "debug"))
        (danger,) = dangers(old, new)
        return danger.remedy

    assert fix(safe=False).startswith("update while train is idle (ebbtide status)")
    assert fix(safe=True).startswith("none needed")


@pytest.mark.parametrize("keys", [{"replicas": 3}, {"replicas": 1}])
def test_more_pods_or_fewer_roll_none(keys: Mapping[str, Any]) -> None:
    assert rolled(stack(**keys)) == []


def test_a_port_of_the_service_alone_rolls_none() -> None:
    assert rolled(edited(before(), with_input("api-service", "spec.ports", [{"name": "http", "port": 80}]))) == []


def claimed(**volumes: Any) -> Danger:
    (danger,) = dangers(before(), stack(name="db", volumes=volumes))
    assert danger.code == "workload-lost"
    return danger


def test_another_size_or_class_of_a_disk_replaces_the_set_and_says_that_the_disk_stays_as_it_is() -> None:
    for change in ({"perPod": "20Gi"}, {"class": "fast"}):
        danger = claimed(data={**DISK, **change})

        assert danger.severity is Severity.BLOCKING
        assert "replaces StatefulSet db-stateful-set: spec.volumeClaimTemplates changes" in danger.text
        assert "its disks stay; disks of data keep their size and class" in danger.impact
        assert "kubectl -n ebbtide delete statefulset db --cascade=orphan" in danger.remedy
        assert "data-db-0" in danger.remedy


@cache
def saved(every: str = "24h", keep: int = 7) -> Side:
    return stack(name="db", volumes={"data": {**DISK, "snapshots": {"every": every, "keep": keep}}})


@pytest.mark.parametrize(("every", "keep"), [("1h", 7), ("24h", 30), ("6h", 1)])
def test_snapshots_change_without_danger_to_a_pod_or_a_disk(every: str, keep: int) -> None:
    (change,) = changes_between(saved().resources, saved(every, keep).resources)

    assert (change.kind, change.type) == (ChangeKind.UPDATE, "LifecyclePolicy")
    assert list(dangers(saved(), saved(every, keep))) == []


def test_snapshots_begin_and_end_without_a_change_of_a_set_or_a_disk() -> None:
    for old, new in ((before(), saved()), (saved(), before())):
        changed = {change.type for change in changes_between(old.resources, new.resources)}
        assert changed & {"StatefulSet", "StorageClass"} == set()
        assert "LifecyclePolicy" in changed


def test_the_end_of_snapshots_warns_that_existing_ones_stay() -> None:
    (danger,) = [danger for danger in dangers(saved(), before()) if "LifecyclePolicy" in danger.text]

    assert "snapshots-db.data" in danger.text
    assert "existing ones are no longer deleted" in danger.impact


def test_another_name_of_a_disk_leaves_the_one_before_it_to_nobody() -> None:
    impact = claimed(store=DISK).impact

    assert "disks of data (data-db-0 …) are unused and still billed" in impact
    assert "disks of store are new and empty" in impact


def test_another_path_of_a_disk_rolls_its_pods_and_replaces_nothing() -> None:
    assert rolled(stack(name="db", volumes={"data": {**DISK, "at": "/elsewhere"}})) == [(Severity.WARNING, ("db",))]


def test_a_set_that_is_replaced_for_another_reason_is_not_made_again_under_its_pods() -> None:
    renamed = with_input("db-stateful-set", "spec.serviceName", "other")
    larger = stack(name="db", volumes={"data": {**DISK, "perPod": "20Gi"}})
    (service,), (both,) = dangers(before(), edited(before(), renamed)), dangers(before(), edited(larger, renamed))

    assert "disks" not in service.impact
    assert "its disks stay" in both.impact
    assert "another name" in service.remedy
    assert "--cascade=orphan" not in both.remedy


def test_a_zone_that_goes_may_hold_a_disk_which_its_pod_then_waits_for() -> None:
    three = whole_stack(zones=["a", "b", "c"])
    found = [danger for danger in dangers(three, before()) if danger.code == "disks-out-of-reach"]

    (danger,) = found
    assert "zone c" in danger.text
    assert danger.subjects == ("ebbtide-redis", "db")
    assert "disks-out-of-reach" not in {danger.code for danger in dangers(before(), three)}


@pytest.mark.parametrize(
    ("old", "new", "kept"), [("a", "use1-az1", "letters"), ("use1-az1", "a", "ids")], ids=["to ids", "to letters"]
)
def test_zones_that_are_named_another_way_are_refused(old: str, new: str, kept: str) -> None:
    zones = {"a": ["a", "b"], "use1-az1": ["use1-az1", "use1-az2"]}
    found = dangers(whole_stack(zones=zones[old]), whole_stack(zones=zones[new]))

    (danger,) = [danger for danger in found if danger.code == "zones-renamed"]
    assert danger.severity is Severity.BLOCKING
    assert danger.remedy.startswith(f"keep the {kept}: zones: [{', '.join(zones[old])}]")
    assert "disks-out-of-reach" not in {it.code for it in found}


def whole_stack(**cluster: Any) -> Side:
    config = {**deepcopy(dict(STACK)), "ebbtide:cluster": cluster}
    settings = parse_stack(config, stack="acme", file="any")
    return Side(stack="acme", settings=settings, resources=record(settings))


def test_pods_that_all_end_first_are_told_however_many_there_are() -> None:
    """With this strategy a release creates the next pods when the last old one has ended."""
    recreate = with_input("api-deployment", "spec.strategy", {"type": "Recreate"})
    found = dangers(edited(before(), recreate), edited(stack(env={"LOG_LEVEL": "debug"}), recreate))

    assert [(it.code, it.subjects) for it in found] == [("service-away", ("api",))]
    assert "all of its pods end first" in found[0].text
