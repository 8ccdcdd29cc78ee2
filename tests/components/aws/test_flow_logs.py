"""Flow logs: kept for a while, written by one service into one group."""

import json
from typing import Any

from ebbtide.recording.answers import ACCOUNT
from tests.builders.network import network
from tests.builders.stack import Recorded

GROUP = "logGroup:LogGroup"


def statements(seen: Recorded, kind: str, document: str) -> list[dict[str, Any]]:
    return json.loads(seen.named("network-flow-logs", kind).inputs[document])["Statement"]


def test_flow_logs_are_off_unless_asked_for() -> None:
    assert [resource.name for resource in network("a", "b").all if "flow-logs" in resource.name] == []


def test_all_traffic_of_the_vpc_is_kept_as_long_as_the_file_says() -> None:
    seen = network("a", "b", flowLogs={"retentionDays": 30})
    log = seen.named("network-flow-logs", "FlowLog").inputs

    assert seen.named("network-flow-logs", GROUP).inputs["retentionInDays"] == 30
    assert seen.named("network-flow-logs", GROUP).inputs["name"] == "/aws/vpc/acme/flow-logs"
    assert (log["trafficType"], log["logDestinationType"]) == ("ALL", "cloud-watch-logs")


def test_only_this_accounts_flow_logs_may_take_the_role() -> None:
    (trust,) = statements(network("a", "b", flowLogs={}), "role:Role", "assumeRolePolicy")

    assert trust["Principal"] == {"Service": "vpc-flow-logs.amazonaws.com"}
    assert trust["Condition"]["StringEquals"] == {"aws:SourceAccount": ACCOUNT}
    assert trust["Condition"]["ArnLike"]["aws:SourceArn"].endswith(f":ec2:us-east-1:{ACCOUNT}:vpc-flow-log/*")


def test_the_role_can_make_no_group_so_that_none_comes_back_after_a_destroy() -> None:
    rights = statements(network("a", "b", flowLogs={}), "RolePolicy", "policy")
    actions = {action for statement in rights for action in statement["Action"]}
    anywhere = {action for statement in rights if "*" in statement["Resource"] for action in statement["Action"]}

    assert "logs:PutLogEvents" in actions
    assert "logs:CreateLogGroup" not in actions
    assert anywhere == {"logs:DescribeLogGroups"}


def test_the_log_starts_after_its_rights_and_stops_before_they_go() -> None:
    seen = network("a", "b", flowLogs={})
    log = seen.named("network-flow-logs", "FlowLog")
    before = {resource.type.split(":")[-1] for resource in seen.all if resource.urn in log.depends_on}

    assert {"RolePolicy", "Role", "LogGroup", "Vpc"} <= before
