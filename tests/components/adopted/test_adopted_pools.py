"""What a stack renders for its adopted pools: rights in the team's namespace and policies for their Deployments."""

import re
from pathlib import Path
from typing import Any

from tests.builders.recorded import record
from tests.builders.settings import loaded, shortest

POOL = "source: { queues: [QUEUE] }, max: 3, longestJob: 1h, safeStop: true"


def rule(name: str, more: str = "") -> str:
    pool = POOL.replace("QUEUE", name) + more
    return f"  {name}: {{ namespace: etl, selector: {{ app: {name} }}, cpu: 1, memory: 1Gi, pool: {{ {pool} }} }}"


def objects(folder: Path, *rules: str) -> dict[str, dict[str, Any]]:
    """The objects of the stack by kind and name, of the team's namespace and of none."""
    lines = ['ebbtide:cluster: { version: "1.36" }', "ebbtide:adopted:", *rules]
    found = [dict(resource.inputs) for resource in record(loaded(shortest(more="\n".join(lines)), folder))]
    named = [item for item in found if item.get("metadata", {}).get("namespace", "etl") == "etl" and "kind" in item]
    return {f"{item['kind']} {item['metadata']['name']}": item for item in named}


def granted(item: dict[str, Any]) -> dict[str, list[str]]:
    """Verbs by resource, with the names to which they are limited."""
    return {"/".join([*rule["resources"], *rule.get("resourceNames", ())]): rule["verbs"] for rule in item["rules"]}


def test_the_controller_sizes_the_named_deployments_and_marks_pods_there(tmp_path: Path) -> None:
    found = objects(tmp_path, rule("loader", ", deployment: etl-loader"), rule("mail"))
    rights = granted(found["Role ebbtide-controller"])

    assert rights["deployments/scale/etl-loader/mail"] == ["get", "patch"]
    assert rights["deployments"] == rights["replicasets"] == ["get", "list", "watch"]
    assert rights["pods"] == ["get", "list", "watch", "patch"]
    assert "poddisruptionbudgets" not in rights


def test_where_no_pool_is_pods_are_only_read(tmp_path: Path) -> None:
    api = "  api: { namespace: etl, selector: { app: api }, category: flexible, replicas: 2, cpu: 1, memory: 1Gi }"
    rights = granted(objects(tmp_path, api)["Role ebbtide-controller"])

    assert rights["pods"] == ["get", "list", "watch"]
    assert not [resource for resource in rights if resource.startswith("deployments")]


def test_only_rules_that_ask_for_it_keep_their_replicas(tmp_path: Path) -> None:
    kept = "MutatingAdmissionPolicy ebbtide-kept-replicas"
    spec = objects(tmp_path, rule("loader", ", deployment: etl-loader, replicas: kept"), rule("mail"))[kept]["spec"]

    assert spec["failurePolicy"] == "Ignore"
    resource, named = 'request.resource.resource == "deployments"', 'request.namespace + "/" + object.metadata.name'
    assert spec["matchConditions"][0]["expression"] == f'({resource} && {named} == "etl/etl-loader")'
    (resources,) = spec["matchConstraints"]["resourceRules"]
    assert (resources["resources"], resources["operations"]) == (["deployments"], ["UPDATE"])
    assert kept not in objects(tmp_path, rule("mail"))


def sleeper(name: str, scale: str, when: str = "outsideBusinessHours") -> str:
    keys = f"namespace: etl, selector: {{ app: {name} }}, category: fixed, replicas: 1, cpu: 1, memory: 1Gi"
    return f"  {name}: {{ {keys}, sleep: {{ when: {when}, scale: {{ {scale} }} }} }}"


def test_the_number_of_a_chart_is_kept_unless_an_operator_owns_it(tmp_path: Path) -> None:
    kept, sets = "MutatingAdmissionPolicy ebbtide-kept-replicas", "kind: StatefulSet, name: labels, replicas: kept"
    hub = sleeper("hub", "kind: Deployment, name: hub")
    spec = objects(tmp_path, hub, sleeper("board", sets), rule("loader", ", replicas: kept"))[kept]["spec"]

    pool, chart = spec["matchConditions"][0]["expression"].split(" || ")
    assert '"etl/loader"' in pool
    assert "ownerReferences" not in pool
    assert chart.startswith('(request.resource.resource == "statefulsets" && ')
    assert '"etl/labels" && !(object.metadata.?ownerReferences' in chart
    assert "etl/hub" not in str(spec)
    (resources,) = spec["matchConstraints"]["resourceRules"]
    assert resources["resources"] == ["deployments", "statefulsets"]
    alone = objects(tmp_path, sleeper("board", sets, "never"))[kept]["spec"]
    assert alone["matchConstraints"]["resourceRules"][0]["resources"] == ["statefulsets"], "until the key goes"
    assert kept not in objects(tmp_path, hub)


def test_the_workload_controller_writes_the_scale_of_charts_by_name_in_the_teams_namespace(tmp_path: Path) -> None:
    found = objects(tmp_path, sleeper("hub", "kind: Deployment, name: hub-0"))
    rights = granted(found["Role ebbtide-workloads"])

    assert rights == {
        "deployments": ["get", "list", "watch"],
        "deployments/scale/hub-0": ["get", "patch"],
        "horizontalpodautoscalers": ["get", "list", "watch"],
        "events": ["create", "patch"],
    }
    assert [subject["namespace"] for subject in found["RoleBinding ebbtide-workloads"]["subjects"]] == ["ebbtide"]


def test_an_eviction_may_not_shorten_the_time_of_their_jobs(tmp_path: Path) -> None:
    found = objects(tmp_path, rule("loader", ", deployment: etl-loader"), rule("mail").replace("1h", "90s"))
    spec = found["ValidatingAdmissionPolicy ebbtide-evictions-of-team-etl"]["spec"]

    asked, generated = "object.deleteOptions.gracePeriodSeconds", "[bcdfghjklmnpqrstvwxz2456789]"
    pattern = f"-{generated}+-{generated}{{5}}$"
    assert not re.match(f"^(mail){pattern}", "mail-db-0")  # a pod of the team's StatefulSet
    assert re.match(f"^(mail){pattern}", "mail-6d4f9c7b8f-x2x5k")
    assert [validation["expression"] for validation in spec["validations"]] == [
        f"{asked} >= {seconds} || !request.name.matches('^({name}){pattern}')"
        for seconds, name in ((90, "mail"), (3600, "etl-loader"))
    ]
