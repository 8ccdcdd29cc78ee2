"""Rules on a real Prometheus that scrapes what our process writes: they load, and alerts arrive at a receiver."""

from pathlib import Path

from ebbtide.monitoring.documents import rules_document
from tests.builders.control_plane import eventually
from tests.builders.monitoring.expositions import of_the_scaler
from tests.builders.monitoring.rule_files import at_once
from tests.builders.monitoring.servers import (
    Exposed,
    Receiver,
    alertmanager,
    asked,
    needs_alertmanager,
    needs_prometheus,
    prometheus,
)
from tests.builders.stack import stack_settings


@needs_prometheus
@needs_alertmanager
def test_alerts_arrive_with_their_sentence_and_their_page(tmp_path: Path) -> None:
    """The process in this test has no Lease, what it last reported lies months back, and two of its workers wait."""
    target, receiver = Exposed(of_the_scaler(tmp_path)), Receiver()
    rules = at_once(rules_document(stack_settings(), "https://docs.example"))
    with (
        alertmanager(tmp_path, receiver.url) as told,
        prometheus(tmp_path, {"ebbtide": target.address}, rules=rules, alertmanager=told) as url,
    ):
        expected = {"EbbtideDeadMan", "EbbtideNoLeader", "EbbtideControllerStuck", "EbbtideWorkersPending"}
        eventually(lambda: expected <= {it["labels"]["alertname"] for it in receiver.alerts}, what="the alerts")
        groups = asked(url, "rules")["groups"]
        (scraped,) = asked(url, "targets")["activeTargets"]

    (leaderless, *_) = [it for it in receiver.alerts if it["labels"]["alertname"] == "EbbtideNoLeader"]
    assert leaderless["labels"] == {"alertname": "EbbtideNoLeader", "severity": "critical", "customer": "acme"}
    assert leaderless["annotations"] == {
        "summary": "No controller is known to hold its Lease: queues are not scaled and budgets not flipped.",
        "runbook_url": "https://docs.example/runbooks/no-leader.html",
    }
    assert {it["labels"]["alertname"] for it in receiver.alerts} == expected
    assert scraped["health"] == "up"
    assert [rule for group in groups for rule in group["rules"] if rule["health"] != "ok"] == []
    assert sum(len(group["rules"]) for group in groups) == sum(len(group["rules"]) for group in rules["groups"])
