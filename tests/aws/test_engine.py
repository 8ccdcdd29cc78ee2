"""The life of a stack on Pulumi's real engine: what HashiCorp's provider asks of AWS, and what the engine makes of it.

One stack for all, as an `up` takes most of a minute. Each test brings it to where it wants it; the last destroys it.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pulumi.automation import CommandError

from tests.aws.support.engine import Running, running
from tests.aws.support.malformed import malformed
from tests.aws.support.service_models import Sent
from tests.aws.support.stacks import of_aws, recorded
from tests.engine.previewed import commit, previewed, told

Config = dict[str, Any]

pytestmark = [pytest.mark.aws, pytest.mark.imitation, pytest.mark.pulumi_cli, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("demo"), "demo", "us-east-1") as empty:
        empty.project.ship("demo")
        empty.project.edit("demo", begin)
        yield empty


def begin(config: Config) -> None:
    """One version back, as EKS never goes back, and with a disk of which snapshots are taken."""
    config["ebbtide:cluster"]["version"] = "1.34"
    store = config["ebbtide:workloads"]["experiment-db"]
    store["volumes"] = {"data": {"perPod": "100Gi", "at": "/data", "snapshots": {"every": "24h", "keep": 7}}}


@pytest.fixture(scope="module")
def up(empty: Running) -> Running:
    empty.project.up("demo")
    return empty


def test_a_first_preview_shows_all_of_it_and_asks_aws_for_nothing_but_what_is_there(empty: Running) -> None:
    told = empty.project.preview("demo")

    assert set(told.touched.values()) == {"create"}
    assert {each.name for each in of_aws(recorded("demo"))} <= told.named().keys()
    assert {each.operation for each in empty.sent()} <= {"GetCallerIdentity", "DescribeAccountAttributes"}


def test_after_an_up_a_preview_is_empty(up: Running) -> None:
    assert up.project.preview("demo").touched == {}


def test_after_an_up_a_refresh_is_empty(up: Running) -> None:
    assert up.project.up("demo", refresh=True).touched == {}


FLEXIBLE = ("flexible-a-", "flexible-b-")


def flexible(up: Running) -> dict[str, dict[str, int]]:
    """The sizes that AWS has."""
    groups = {name: each["scalingConfig"] for name, each in up.node_groups().items()}
    return {name: sizes for name, sizes in groups.items() if name.startswith(FLEXIBLE)}


def set_maximum(up: Running, nodes: int) -> None:
    up.project.edit("demo", lambda config: config["ebbtide:nodeGroups"]["flexible"].update(max=nodes))


def test_nodes_that_the_autoscaler_brought_stay_with_a_refresh(up: Running) -> None:
    up.autoscaler_sets(FLEXIBLE, 5)
    unchanged = up.project.up("demo", refresh=True)
    asked = len(up.sent())
    set_maximum(up, 60)

    told = up.project.up("demo", refresh=True)

    assert unchanged.touched == {}
    assert told.named().items() >= {"flexible-a-nodes": "update", "flexible-b-nodes": "update"}.items()
    sizes = [each.said["scalingConfig"] for each in up.since(asked, "UpdateNodegroupConfig")]
    assert sizes == [{"minSize": 0, "maxSize": 30, "desiredSize": 5}] * 2
    assert list(flexible(up).values()) == sizes


def test_without_a_refresh_the_number_of_the_last_look_is_sent(up: Running) -> None:
    """Why the page on a stack's life asks for `--refresh` each time."""
    up.project.up("demo", refresh=True)
    before = {each["desiredSize"] for each in flexible(up).values()}
    up.autoscaler_sets(FLEXIBLE, 9)
    set_maximum(up, 80)

    up.project.up("demo")

    assert {each["desiredSize"] for each in flexible(up).values()} == before != {9}


def in_place(config: Config) -> None:
    groups = config["ebbtide:nodeGroups"]
    groups["flexible"].update(max=100)
    groups["cpu"] = {"kind": "flexible", "instanceTypes": ["c7i.4xlarge"], "max": 9}
    config["ebbtide:cluster"]["zones"] = ["a", "b", "c"]
    groups["fixed"].update(min=3, max=9)


def new_tags(config: Config) -> None:
    config["ebbtide:costs"]["tags"] = {"cost-center": "other", "team": "ml"}


def new_version(config: Config) -> None:
    config["ebbtide:cluster"]["version"] = "1.35"


def no_protection(config: Config) -> None:
    config["ebbtide:cluster"]["deletionProtection"] = False


def other_snapshots(config: Config) -> None:
    config["ebbtide:workloads"]["experiment-db"]["volumes"]["data"]["snapshots"]["keep"] = 9


def other_machines(config: Config) -> None:
    config["ebbtide:nodeGroups"]["flexible"]["instanceTypes"] = ["m6i.4xlarge"]
    config["ebbtide:nodeGroups"]["gpu"]["instanceTypes"] = ["g5.2xlarge"]


def another_name(config: Config) -> None:
    groups = config["ebbtide:nodeGroups"]
    groups["gpu-huge"] = groups.pop("gpu-large")


def another_customer(config: Config) -> None:
    config["ebbtide:customer"] = "other"


GROUPS = {f"{name}-{zone}-nodes: instanceTypes" for name in ("flexible", "gpu") for zone in "ab"}
PAGE: dict[str, tuple[Callable[[Config], None], set[str], set[str]]] = {
    "min, max, a new group, a new zone": (in_place, set(), set()),
    "costs.tags": (new_tags, set(), set()),
    "another version": (new_version, set(), set()),
    "no deletion protection": (no_protection, set(), set()),
    "snapshots": (other_snapshots, set(), set()),
    "instanceTypes": (other_machines, GROUPS, set()),
    "the name of a group": (another_name, set(), {"gpu-large-a-nodes", "gpu-large-b-nodes"}),
    "customer": (another_customer, {"cluster-control-plane: name"}, set()),
}
"""What the page on a stack's life says of each change: what is replaced, the groups or the cluster, and what goes."""


@pytest.mark.parametrize("change", PAGE)
def test_the_provider_replaces_what_our_own_preview_says(
    change: str, up: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our own knows files and a list; the engine's is the provider's plan of what is there."""
    edit, replaced, gone = PAGE[change]
    project = up.project.copy(tmp_path / "copy")
    commit(project)
    monkeypatch.chdir(project.folder)
    project.edit("demo", edit)

    plan = project.plan("demo")
    offline, _ = previewed()
    planned, _ = previewed("--plan", str(plan))

    assert (offline["problems"], planned["problems"]) == ([], [])
    assert told(planned) == told(offline) != set()
    shown = {(each["kind"], each["name"]): each for each in planned["changes"]}
    reasons = {f"{name}: {each['reasons'][0]}" for (kind, name), each in shown.items() if kind == "replace"}
    large = {each for each in reasons if each.startswith("cluster-control-plane") or "-nodes: i" in each}
    assert large == replaced
    assert {name for kind, name in shown if kind == "delete" and name.endswith("-nodes")} == gone


def test_changes_in_place_are_updates_and_leave_nothing_to_change(up: Running) -> None:
    for edit in (new_version, new_tags, other_snapshots, in_place):
        up.project.edit("demo", edit)
    asked = len(up.sent())

    told = up.project.up("demo", refresh=True)

    assert set(told.touched.values()) == {"create", "update"}
    assert [each.said["version"] for each in up.since(asked, "UpdateClusterVersion")] == ["1.35"]
    assert {each.said["version"] for each in up.since(asked, "UpdateNodegroupVersion")} == {"1.35"}
    assert up.project.preview("demo").touched == {}


def test_of_a_group_that_is_replaced_the_new_one_is_there_before_the_old_one_goes(up: Running) -> None:
    before = flexible(up)
    up.project.edit("demo", other_machines)
    up.project.edit("demo", another_name)
    asked = len(up.sent())

    up.project.up("demo", refresh=True)

    order = [
        (each.operation, each.said["nodegroupName"]) for each in up.since(asked, "CreateNodegroup", "DeleteNodegroup")
    ]
    for group in FLEXIBLE:
        made, gone = (
            next(i for i, each in enumerate(order) if each[0] == kind and each[1].startswith(group))
            for kind in ("CreateNodegroup", "DeleteNodegroup")
        )
        assert made < gone
    assert flexible(up).keys().isdisjoint(before)
    assert not [name for name in up.node_groups() if name.startswith("gpu-large")]
    assert up.project.preview("demo").touched == {}


def test_a_destroy_is_refused_while_the_cluster_is_protected(up: Running) -> None:
    before = len(up.sent())

    with pytest.raises(CommandError, match="protected"):
        up.project.destroy("demo", preview_only=True)

    assert [each.operation for each in up.sent()[before:] if each.operation.startswith("Delete")] == []


def test_a_destroy_that_was_allowed_leaves_nothing_and_goes_in_the_order_that_aws_wants(up: Running) -> None:
    up.project.let_go("demo")
    asked = len(up.sent())

    told = up.project.destroy("demo")

    assert set(told.touched.values()) == {"delete"}
    # The tags of a group of machines go with it (`deletedWith`).
    assert "Tag" in {urn.split("::")[2].rsplit(":", 1)[1] for urn in told.touched}
    assert up.since(asked, "DeleteTags") == []
    assert up.imitation.left(up.region) == {}
    order = [each.operation for each in up.sent()[asked:] if each.operation.startswith(("Delete", "Detach"))]
    last = {name: len(order) - 1 - order[::-1].index(name) for name in order}
    assert last["DeleteNodegroup"] < order.index("DeleteLaunchTemplate")
    assert last["DeleteNodegroup"] < order.index("DeleteCluster") < order.index("DeleteSubnet")
    assert last["DeleteSubnet"] < order.index("DeleteVpc")


def test_no_request_of_the_engines_life_is_malformed(up: Running) -> None:
    sent = [Sent.of(line) for line in up.imitation.requests()]

    assert sorted({fault for each in sent for fault in malformed(each)}) == []
