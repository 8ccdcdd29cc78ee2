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
