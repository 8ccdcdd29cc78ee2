"""Dangers of the demo customer with one changed key: sentence, impact and fix."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from ebbtide.findings import Severity
from ebbtide.preview.changes import changes_between
from ebbtide.preview.dangers import dangers_of
from ebbtide.preview.document import ChangeKind, Danger, FieldChange, ResourceChange
from ebbtide.preview.replacing import forcing_paths
from ebbtide.preview.sides import Side
from ebbtide.settings.file.problems import SECRET
from ebbtide.settings.sections.cluster import ClusterKind, ClusterSettings
from tests.builders.sides import (
    Change,
    coded,
    dangers,
    demo,
    demo_now,
    edited,
    kubernetes,
    put,
    whole,
    with_input,
    without,
)
from tests.builders.stack import stack_settings

pytestmark = pytest.mark.whole

ID = "3f1c2a9e-6b0d-4c57-9f5e-0a4d8c7b6e21"
BLOCKING, WARNING, NOTE = Severity.BLOCKING, Severity.WARNING, Severity.NOTE


def existing(context: str, cluster_id: str | None = None) -> Side:
    """A customer on an existing cluster, without a recording."""
    cluster = ClusterSettings(kind=ClusterKind.EXISTING, context=context, cluster_id=cluster_id)
    return Side(stack="acme", settings=stack_settings(cluster=cluster), resources=())


def test_a_stack_that_stays_as_it_is_has_no_dangers() -> None:
    assert dangers(demo_now(), demo_now()) == ()
    assert dangers(None, demo_now()) == ()


def test_another_instance_type_replaces_its_group_in_all_zones_and_names_what_runs_there() -> None:
    (danger,) = dangers(demo_now(), demo(put("nodeGroups", "flexible", instanceTypes=["m7i.8xlarge"])))

    assert coded([danger]) == [(WARNING, "node-group-lost", ("flexible",))]
    assert danger.text.startswith("replaces ")
    assert "instanceTypes" in danger.text
    who, protection = "7 services, 1 pool (49 pods at most)", "1 closed budget, 7 budgets that open at night"
    assert danger.impact == f"up to 40 nodes; {who}; {protection}"
    assert "closed budgets or not" in danger.remedy


def test_other_sizes_of_groups_say_how_to_apply_them() -> None:
    sizes = put("nodeGroups", "fixed", min=4), put("nodeGroups", "flexible", max=60), put("nodeGroups", "gpu", max=12)
    fixed, flexible, gpu = dangers(demo_now(), demo(*sizes))

    assert [(danger.code, *danger.subjects, danger.text.rsplit(": ", 1)[1]) for danger in (fixed, flexible, gpu)] == [
        ("group-resized", "fixed", "min 2 → 4"),
        ("group-resized", "flexible", "max 40 → 60"),
        ("group-resized", "gpu", "max 24 → 12"),
    ]
    assert all("up --refresh" in danger.remedy for danger in (fixed, flexible, gpu))
    assert ["two steps" in danger.remedy for danger in (fixed, flexible, gpu)] == [True, False, False]
    assert ["wait until they have left" in danger.remedy for danger in (fixed, flexible, gpu)] == [False, False, True]


def test_another_name_stops_at_the_protected_cluster_and_nothing_else_is_told() -> None:
    (danger,) = dangers(demo_now(), edited(demo_now(), with_input("cluster-control-plane", "name", "other")))

    assert coded([danger]) == [(BLOCKING, "protected-lost", ("cluster-control-plane",))]
    assert danger.text.startswith("replaces Cluster cluster-control-plane: name changes")
    assert danger.impact.startswith("everything: up to 80 nodes; ")


def test_another_region_is_another_stack() -> None:
    settings = demo_now().settings
    assert settings is not None
    (danger,) = dangers(demo_now(), replace(demo_now(), settings=settings.model_copy(update={"region": "us-west-2"})))

    assert coded([danger]) == [(BLOCKING, "stack-moves", ("demo",))]
    assert "from us-east-1 to us-west-2" in danger.text


def test_kubernetes_goes_up_by_one_and_never_back() -> None:
    older = demo(whole("cluster", version="1.34"))

    (up,) = dangers(older, demo_now())
    (back,) = dangers(demo_now(), older)

    assert coded([up, back]) == [
        (WARNING, "kubernetes-updated", ()),
        (BLOCKING, "kubernetes-refused", ()),
    ]
    assert "1.35 → 1.34" in back.text
    assert back.remedy == "stay on 1.35"


def test_two_versions_at_once_are_refused() -> None:
    oldest = edited(demo_now(), with_input("cluster-control-plane", "version", "1.33"))

    (danger,) = dangers(oldest, demo_now())

    assert coded([danger]) == [(BLOCKING, "kubernetes-refused", ())]
    assert "1.33 → 1.35" in danger.text
    assert danger.remedy.startswith("go to 1.34 first")


@cache
def everyday() -> Side:
    """Independent changes in one recording."""
    image = "registry.example.com/ml/new:1"
    return demo(
        put("workloads", "ray-head", category="flexible"),
        put("workloads", "metrics", image=image),
        put("workloads", "api", image=image),
        put("workers", "prep", longestJob="2h"),
        whole("businessHours", week={"mon-thu": "08:00-19:00", "fri": "10:00-15:00"}),
    )


def test_of_changes_of_every_day_those_that_interrupt_somebody_are_told() -> None:
    moved, restarted, jobs, *notes = dangers(demo_now(), everyday())
    api, prep, hours = notes

    assert coded([moved, restarted, jobs, *notes]) == [
        (WARNING, "workload-moved", ("ray-head",)),
        (WARNING, "workload-restarted", ("metrics",)),
        (WARNING, "longest-job-lowered", ("prep",)),
        (NOTE, "pods-rolled", ("api",)),
        (NOTE, "pods-rolled", ("prep",)),
        (NOTE, "business-hours-changed", ()),
    ]
    assert ": image changes" in api.text
    assert "terminationGracePeriodSeconds" in prep.text
    assert "from fixed to flexible" in moved.text
    assert moved.impact == "1 service (1 pod at most); 1 closed budget"
    assert ": image changes" in restarted.text
    assert "from 168h to 2h" in jobs.text
    assert hours.text.startswith("4 h a week")


def hidden_key(config: dict[str, object]) -> None:
    """The key of the digests, which the section `secrets` requires."""
    config["ebbtide:digestKey"] = SECRET


def test_a_service_that_loses_its_only_pod_during_a_release_is_named_before_those_that_only_roll() -> None:
    claim = {"data": {"claim": "data", "at": "/data"}}
    alone = put("workloads", "api", replicas=1, volumes=claim)
    images = [put("workloads", name, image="registry.example.com/ml/new:1") for name in ("api", "dashboards")]

    away, rolled = dangers(demo(alone), demo(alone, *images))

    assert coded([away, rolled]) == [
        (WARNING, "service-away", ("api",)),
        (NOTE, "pods-rolled", ("dashboards",)),
    ]
    assert "; image changes" in away.text
    assert away.impact == "1 service (1 pod at most); 1 budget that opens at night"


def test_what_a_restart_costs_is_said_of_each_part_of_ebbtide_and_of_nobody_else() -> None:
    mirrored, named = "registry.example.com/mirror", "registry.example.com/ml/new:1"
    bundled = (
        hidden_key,
        whole("secrets", oncall={"url": SECRET}),
        whole("monitoring", prometheus="bundled", alerts={"receiver": {"slack": {}, "secret": "oncall"}}),
    )
    after = demo(*bundled, whole("images", registry=mirrored), put("workloads", "metrics", image=named))
    told = {
        name: danger.remedy
        for danger in dangers(demo(*bundled), after)
        if danger.code == "workload-restarted"
        for name in danger.subjects
    }

    assert "about a minute of samples is missing" in told["ebbtide-prometheus"]
    assert "alerts come a little later" in told["ebbtide-alertmanager"]
    assert "jobs are on its disk" in told["ebbtide-redis"]
    assert told["ebbtide-exporter"].startswith("none needed")
    assert [name for name, fix in told.items() if "losing their state" in fix] == ["metrics"]


def test_longer_jobs_and_longer_hours_are_no_danger_and_a_service_becomes_fixed_by_day() -> None:
    moved, restarted, *rolled = dangers(everyday(), demo_now())

    assert [danger.code for danger in rolled] == ["pods-rolled"] * 2
    assert coded([moved, restarted]) == [
        (WARNING, "workload-moved", ("ray-head",)),
        (WARNING, "workload-restarted", ("metrics",)),
    ]
    assert "from flexible to fixed" in moved.text
    assert "business hours" in moved.remedy


def test_a_pool_that_goes_takes_its_workers_along_and_a_fixed_service_of_another_kind_loses_its_state() -> None:
    fewer = demo(without("workers", "prep"), put("workloads", "experiment-db", kind=None))

    database, pool = dangers(demo_now(), fewer)

    assert coded([database, pool]) == [
        (BLOCKING, "workload-lost", ("experiment-db-stateful-set",)),
        (WARNING, "workload-lost", ("prep-deployment",)),
    ]
    assert all(danger.text.startswith("deletes ") for danger in (database, pool))
    assert database.text.endswith("a Deployment takes its place")
    assert pool.impact == "1 pool (30 pods at most); 1 closed budget"
    assert [danger.text for danger in dangers(fewer, demo_now()) if "prep" in danger.text] == []


def test_protection_that_is_taken_away_is_told() -> None:
    bare = edited(demo_now(), lambda resource: replace(resource, protect=False))

    assert coded(dangers(demo_now(), bare)) == [
        (WARNING, "protection-removed", ("network-vpc", "cluster-secrets", "cluster-control-plane"))
    ]
    assert dangers(bare, demo_now()) == ()


def test_other_tags_of_nodes_replace_them_and_say_so_once() -> None:
    tagged = edited(
        demo_now(),
        lambda one: with_input(one.name, "tagSpecifications", [])(one) if one.name.endswith("-template") else one,
    )

    (danger,) = dangers(demo_now(), tagged)

    assert (danger.code, danger.subjects) == ("nodes-replaced", ("fixed", "flexible", "gpu", "gpu-large"))


REDIS: Change = lambda config: config.update(  # noqa: E731 - one change of many
    {"ebbtide:redis": {"kind": "elasticache"}, "ebbtide:redisPassword": "x" * 16}
)


def test_another_redis_leaves_the_waiting_jobs_behind() -> None:
    elsewhere = demo(REDIS)

    assert [danger.code for danger in dangers(demo_now(), elsewhere) if "redis-server" in danger.text] == [
        "queues-lost"
    ]


@pytest.mark.parametrize(
    ("name", "severity", "code"),
    [("prep-budget", BLOCKING, "budget-lost"), ("autoscaler-role", NOTE, "minor-losses")],
)
def test_what_is_left_out_of_the_program_is_told_by_its_weight(name: str, severity: Severity, code: str) -> None:
    without_it = edited(demo_now(), lambda resource: None if resource.name == name else resource)

    (danger,) = dangers(demo_now(), without_it)

    assert (danger.severity, danger.code) == (severity, code)
    assert name in danger.subjects


HTTP = {"ports": {"http": 8000}}


@pytest.mark.parametrize(
    ("before", "after", "who"),
    [
        ({}, {"public": True}, "the whole internet"),
        ({}, {"public": True, "sources": ["203.0.113.0/24"]}, "203.0.113.0/24"),
        ({"public": True, "sources": ["203.0.113.0/24"]}, {"public": True}, "the whole internet"),
        (None, {"public": True}, "the whole internet"),
    ],
    ids=["goes public", "to some", "from some to all", "new"],
)
def test_who_is_let_in_from_the_internet_is_told(
    before: dict[str, object] | None, after: dict[str, object], who: str
) -> None:
    was = demo(put("workloads", "api", expose=before, **HTTP)) if before is not None else demo_now()
    found = dangers(was, demo(put("workloads", "api", expose=after, **HTTP)))
    opened = [danger for danger in found if danger.code == "entrance-opened"]

    assert coded(opened) == [(WARNING, "entrance-opened", ("api",))]
    assert opened[0].text == f"opens port 8000 of api to {who}"
    assert opened[0].impact == "in the clear"


@pytest.mark.parametrize(
    ("before", "after"),
    [({}, {"listen": 80}), ({"public": True}, {"public": True, "sources": ["203.0.113.0/24"]}), ({"public": True}, {})],
    ids=["stays inside", "fewer", "goes inside"],
)
def test_an_entrance_that_lets_nobody_more_in_is_no_danger(before: dict[str, object], after: dict[str, object]) -> None:
    was, then = (demo(put("workloads", "api", expose=expose, **HTTP)) for expose in (before, after))

    assert [danger for danger in dangers(was, then) if danger.code == "entrance-opened"] == []


def test_a_file_that_goes_leaves_everything_standing() -> None:
    (danger,) = dangers(demo_now(), None)

    assert (danger.code, danger.subjects) == ("stack-file-removed", ("demo",))
    assert danger.impact.startswith("everything: up to 80 nodes")


def test_another_context_may_be_another_cluster_unless_its_id_says_that_it_is_the_same() -> None:
    (danger,) = dangers(existing("onprem"), existing("other"))

    assert (danger.code, danger.subjects) == ("context-changes", ("onprem", "other"))
    assert dangers(existing("onprem", ID), existing("other", ID)) == ()


def by_the_engine(kind: ChangeKind, type_: str, name: str, *fields: FieldChange, lost: bool = False) -> ResourceChange:
    """A change of a plan: only the state has the resource `lost`."""
    known = [resource.urn for resource in demo_now().resources if resource.name == name and resource.custom]
    urn = f"urn:pulumi:demo::ebbtide::aws:any:{type_}::{name}" if lost else known[0]
    component, why = name.removesuffix("-nodes"), ("amiType",)
    return ResourceChange(kind=kind, type=type_, name=name, component=component, urn=urn, fields=fields, reasons=why)


def test_what_only_the_engine_knows_is_told_too() -> None:
    size = FieldChange(path="scalingConfig.minSize", before="1", after="2")
    plan = [
        by_the_engine(ChangeKind.REPLACE, "NodeGroup", "gpu-a-nodes"),
        by_the_engine(ChangeKind.DELETE, "NodeGroup", "old-nodes", lost=True),
        by_the_engine(ChangeKind.DELETE, "Deployment", "old-api", lost=True),
        by_the_engine(ChangeKind.UPDATE, "NodeGroup", "fixed-a-nodes", size),
    ]

    found = dangers_of(None, demo_now(), plan)

    assert [(danger.code, *danger.subjects) for danger in found] == [
        ("workload-lost", "old-api"),
        ("node-group-lost", "gpu"),
        ("node-group-lost", "old-nodes"),
        ("group-resized", "fixed"),
    ]
    assert [danger.text.split()[0] for danger in found] == ["deletes", "replaces", "deletes", "changes"]
    assert ["amiType changes" in danger.text for danger in found] == [True, True, True, False]
    assert "gpu (gpu-a)" in found[1].text
    assert found[3].text.endswith("fixed-a-nodes minSize 1 → 2")
    assert found[0].impact == "pods that neither file has"


@pytest.mark.parametrize(
    ("name", "type_"),
    {
        "cluster-control-plane": "aws:eks/cluster:Cluster",
        "flexible-a-nodes": "aws:eks/nodeGroup:NodeGroup",
        "network-vpc": "aws:ec2/vpc:Vpc",
        "network-private-a": "aws:ec2/subnet:Subnet",
        "metrics-stateful-set": "kubernetes:apps/v1:StatefulSet",
        "api-deployment": "kubernetes:apps/v1:Deployment",
    }.items(),
)
def test_every_field_that_forces_a_replacement_is_told_unless_it_is_ignored(name: str, type_: str) -> None:
    (resource,) = [one for one in demo_now().resources if (one.name, one.type) == (name, type_)]

    for path in forcing_paths(type_):
        found = dangers(demo_now(), edited(demo_now(), with_input(name, path, "other")))
        told = [danger.text for danger in found if danger.text.startswith("replaces")]
        assert bool(told) is (path not in resource.ignore_changes), path


@pytest.mark.parametrize("path", ["tags.team", "metadata.labels.team", "metadata.annotations.team"])
def test_a_label_or_a_tag_more_blocks_nothing(path: str) -> None:
    part = path.split(".")[0]
    more = edited(
        demo_now(), lambda one: with_input(one.name, path, "ml")(one) if part in one.inputs and one.custom else one
    )

    assert [danger.text for danger in dangers(demo_now(), more) if danger.severity is BLOCKING] == []
    assert len(changes_between(demo_now().resources, more.resources)) > 30


SAVED = {"store": "s3://acme-checkpoints"}


@cache
def saving(**given: object) -> Side:
    return demo(put("workers", "prep", checkpoints={**SAVED, **given}))


def of_checkpoints(before: Side, after: Side) -> list[Danger]:
    others = ("pods-rolled", "minor-losses")  # the workers themselves, and the rights of the closer
    return [danger for danger in dangers(before, after) if danger.code not in others]


def test_checkpoints_make_jobs_interruptible_in_the_window_and_change_no_grace() -> None:
    (told,) = of_checkpoints(demo_now(), saving())

    assert coded([told]) == [(WARNING, "jobs-interruptible", ("prep",))]
    assert "in the disruption window" in told.text
    assert told.impact.startswith("1 pool (30 pods at most)")
    assert of_checkpoints(saving(), saving()) == []


def test_jobs_that_must_save_have_less_time_and_those_of_a_day_are_interrupted_by_day() -> None:
    grace, by_day = of_checkpoints(saving(), saving(required=True, interruptible="always"))

    assert coded([grace, by_day]) == [
        (WARNING, "grace-shortened", ("prep",)),
        (WARNING, "jobs-interruptible", ("prep",)),
    ]
    assert "240 s instead of 604920 s" in grace.text
    assert "within 10m" in grace.remedy
    assert "at any time" in by_day.text
    assert of_checkpoints(saving(required=True, interruptible="always"), saving()) == []


def test_a_shorter_longest_job_takes_nothing_from_workers_that_save() -> None:
    shorter = demo(put("workers", "prep", longestJob="2h", checkpoints={**SAVED, "required": True}))

    assert of_checkpoints(saving(required=True), shorter) == []


@pytest.mark.parametrize(("required", "told"), [(False, "without a notice"), (True, "two minutes after a notice")])
def test_a_pool_that_moves_to_spot_nodes_is_told(required: bool, told: str) -> None:
    def on(group: str) -> Side:
        saves = {**SAVED, "required": required}
        return demo(
            whole("nodeGroups", spot={"max": 4}),
            put("workers", "prep", longestJob="1h", cpu=4, memory="16Gi", checkpoints=saves, nodeGroup=group),
        )

    (moves,) = of_checkpoints(on("flexible"), on("spot"))
    assert coded([moves]) == [(WARNING, "pool-on-spot", ("prep",))]
    assert told in moves.text


def test_a_fallback_that_comes_or_goes_is_told_with_what_it_may_cost() -> None:
    def falling_back(**keys: str) -> Side:
        return demo(
            whole("nodeGroups", spot={"max": 4}, flexible={"max": 7}),
            put(
                "workers",
                "prep",
                cpu=4,
                memory="16Gi",
                checkpoints={**SAVED, "required": True},
                nodeGroup="spot",
                **keys,
            ),
        )

    (comes,) = of_checkpoints(falling_back(), falling_back(fallback="flexible"))
    (goes,) = of_checkpoints(falling_back(fallback="flexible"), falling_back())

    assert coded([comes, goes]) == [(WARNING, "fallback-changed", ("prep",))] * 2
    assert comes.impact.startswith("up to 7 nodes at on-demand prices")
    assert comes.impact.endswith("; spot grows first for every pod that names no nodes")
    assert "its jobs wait while spot group spot gets no nodes" in goes.text
    assert of_checkpoints(falling_back(fallback="flexible"), falling_back(fallback="flexible")) == []


@pytest.mark.parametrize(("before", "saves"), [({"checkpoints": SAVED}, True), ({}, False)])
def test_a_rolled_pool_saves_its_jobs_if_its_workers_have_checkpoints(before: Mapping[str, Any], saves: bool) -> None:
    after = demo(put("workers", "prep", image="example.com/prep:other", checkpoints=SAVED))
    found = dangers(demo(put("workers", "prep", **before)), after)
    (rolled,) = [danger for danger in found if danger.code == "pods-rolled"]

    assert ("in prep a job with a checkpoint saves" in rolled.remedy) is saves


def test_a_pool_that_loses_its_checkpoints_may_keep_an_open_budget() -> None:
    (left,) = of_checkpoints(saving(), demo_now())

    assert coded([left]) == [(WARNING, "budget-left-open", ("prep",))]
    assert "1 budget that opens at night" in left.impact


GROUPS = {"cpu": {"max": 20, "cpu": 15, "memory": "50Gi"}, "gpu": {"max": 4, "cpu": 7, "memory": "24Gi", "gpu": 1}}


@cache
def with_ray(version: str = "2.60.0", longest: str = "30m", most: int = 20, cores: int = 15, *groups: str) -> Side:
    sized = {"cpu": {**GROUPS["cpu"], "max": most, "cpu": cores}, **{name: GROUPS[name] for name in groups}}
    flow: dict[str, object] = {
        "version": version,
        "image": f"registry.example.com/ml/ray:{version}",
        "head": {"cpu": 2, "memory": "6Gi"},
        "groups": sized,
        "longestTask": longest,
    }
    return demo(whole("ray", flow=flow))


def of_ray(before: Side, after: Side) -> list[Danger]:
    return [danger for danger in dangers(before, after) if danger.code == "ray-change-waits"]


def test_a_changed_image_of_a_ray_cluster_waits_until_nothing_runs_there() -> None:
    (told,) = of_ray(with_ray(), with_ray("2.60.1"))

    assert coded([told]) == [(WARNING, "ray-change-waits", ("flow",))]
    assert "version, image of Ray cluster flow" in told.text
    assert "(21 pods at most); 2 closed budgets" in told.impact


def test_a_changed_size_of_a_group_waits_and_is_named() -> None:
    (told,) = of_ray(with_ray(), with_ray("2.60.0", "30m", 20, 14))

    assert "groups.cpu of Ray cluster flow" in told.text


def test_a_maximum_and_a_further_group_of_ray_wait_for_nothing() -> None:
    assert of_ray(with_ray(), with_ray("2.60.0", "30m", 25)) == []
    assert of_ray(with_ray(), with_ray("2.60.0", "30m", 20, 15, "gpu")) == []
    assert of_ray(demo_now(), with_ray()) == []


def stranded(before: Side, after: Side) -> list[Danger]:
    return [danger for danger in dangers(before, after) if danger.code == "ray-head-stranded"]


def test_redis_that_moves_under_a_head_which_keeps_its_state_there_is_told() -> None:
    flow: dict[str, object] = {
        "version": "2.60.0",
        "image": "registry.example.com/ml/ray:2.60.0",
        "head": {"cpu": 2, "memory": "6Gi", "faultTolerance": "redis"},
        "groups": {"cpu": GROUPS["cpu"]},
        "longestTask": "30m",
    }
    elsewhere = whole("redis", kind="url", url="redis://cache.example.com:6379/0")
    stays, moves = demo(whole("ray", flow=flow)), demo(whole("ray", flow=flow), elsewhere)

    (told,) = stranded(stays, moves)
    assert coded([told]) == [(WARNING, "ray-head-stranded", ("flow",))]
    assert "ebbtide maintenance --ray flow" in told.remedy
    assert stranded(stays, stays) == []
    assert stranded(with_ray(), demo(whole("ray", flow={**flow, "head": {"cpu": 2, "memory": "6Gi"}}), elsewhere)) == []


def test_the_last_ray_cluster_takes_its_namespace_along_and_is_told_how_to_end_what_runs_there() -> None:
    found = [danger for danger in dangers(with_ray(), demo_now()) if danger.code == "namespace-lost"]

    assert coded(found) == [(WARNING, "namespace-lost", ("ray-spaces-flow",))]
    assert "(21 pods at most)" in found[0].impact
    assert "ebbtide why ray flow" in found[0].remedy


@pytest.mark.parametrize(
    ("namespace", "severity"), [("keda", WARNING), ("ebbtide-gateway", WARNING), ("crm", BLOCKING)]
)
def test_a_namespace_that_goes_with_its_section_blocks_nothing(namespace: str, severity: Severity) -> None:
    gone = edited(demo_now(), lambda it: it, kubernetes("Namespace", namespace, ""))
    (danger,) = [one for one in dangers(gone, demo_now()) if one.code == "namespace-lost"]

    assert coded([danger]) == [(severity, "namespace-lost", (namespace,))]
