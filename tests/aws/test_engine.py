"""The life of a stack on Pulumi's real engine: what HashiCorp's provider asks of AWS, and what the engine makes of it.

One stack for all, as an `up` takes most of a minute. Each test brings it to where it wants it; the last destroys it.
"""

from collections.abc import Iterator

import pytest
from pulumi.automation import CommandError

from tests.aws.support.engine import Running, running
from tests.aws.support.malformed import malformed
from tests.aws.support.service_models import Sent
from tests.aws.support.stacks import of_aws, recorded

pytestmark = [pytest.mark.aws, pytest.mark.imitation, pytest.mark.pulumi_cli, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("demo"), "demo", "us-east-1") as empty:
        empty.project.ship("demo")
        yield empty


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


def test_a_destroy_is_refused_while_the_cluster_is_protected(up: Running) -> None:
    before = len(up.sent())

    with pytest.raises(CommandError, match="protected"):
        up.project.destroy("demo", preview_only=True)

    assert [each.operation for each in up.sent()[before:] if each.operation.startswith("Delete")] == []


def test_a_destroy_that_was_allowed_leaves_nothing_and_goes_in_the_order_that_aws_wants(up: Running) -> None:
    up.project.let_go("demo")

    told = up.project.destroy("demo")

    assert set(told.touched.values()) == {"delete"}
    assert up.imitation.left(up.region) == {}
    order = [each.operation for each in up.sent() if each.operation.startswith(("Delete", "Detach"))]
    last = {name: len(order) - 1 - order[::-1].index(name) for name in order}
    assert last["DeleteNodegroup"] < order.index("DeleteLaunchTemplate")
    assert last["DeleteNodegroup"] < order.index("DeleteCluster") < order.index("DeleteSubnet")
    assert last["DeleteSubnet"] < order.index("DeleteVpc")


def test_no_request_of_the_engines_life_is_malformed(up: Running) -> None:
    sent = [Sent.of(line) for line in up.imitation.requests()]

    assert sorted({fault for each in sent for fault in malformed(each)}) == []
