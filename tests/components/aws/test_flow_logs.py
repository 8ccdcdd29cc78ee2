"""Flow logs: kept for a while, written by one service into one group."""

import json
from typing import Any

from ebbtide.recording.answers import ACCOUNT
from tests.builders.network import network
from tests.builders.stack import Recorded


def statements(seen: Recorded, kind: str, document: str) -> list[dict[str, Any]]:
    return json.loads(seen.named("network-flow-logs", kind).inputs[document])["Statement"]


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
