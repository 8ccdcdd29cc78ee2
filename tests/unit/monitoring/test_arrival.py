"""Rules on a real Prometheus that scrapes our process: they load, and alerts arrive at a receiver."""

import re
import time
from datetime import datetime
from pathlib import Path

import pytest

from ebbtide.monitoring.documents import rules_document
from tests.builders.control_plane import eventually
from tests.builders.monitoring.alert_cases import CASES, CERTIFICATE, CLOCK, CLOSED, DUE, GONE, HOLIDAYS, STACK, WELL
from tests.builders.monitoring.expositions import of_the_exporter, of_the_scaler
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

pytestmark = pytest.mark.process


def all_wrong() -> str:
    """Everything at once that an alert is about, in a process's own form. Instants are by this machine's clock."""
    now = time.time()
    values = {**WELL, **{name: value for case in CASES for name, value in case.wrong.items()}}
    instants = {
        CLOCK: now - 900,
        DUE: now - 33 * 60,
        CLOSED: now - 5 * 86_400,
        CERTIFICATE: now + 5 * 86_400,
        HOLIDAYS: now + 20 * 86_400,
    }
    return "".join(f"{name} {value}\n" for name, value in {**values, **instants}.items() if value != GONE)


@needs_prometheus
@needs_alertmanager
def test_each_alert_arrives_with_its_sentence_and_its_page(tmp_path: Path) -> None:
    """All alerts except those on spend and on requests, which need history: constant metrics have no rate."""
    target, receiver = Exposed(all_wrong()), Receiver()
    rules = at_once(rules_document(STACK, "https://docs.example"))
    named = {rule["alert"]: rule for group in rules["groups"] for rule in group["rules"] if "alert" in rule}
    of_rates = {"EbbtideSpendAbovePlan", "EbbtideServiceSlow", "EbbtideServiceBurnsErrorBudget"}
    expected = named.keys() - of_rates
    with (
        alertmanager(tmp_path, receiver.url) as alerts_url,
        prometheus(tmp_path, {"ebbtide": target.address}, rules=rules, alertmanager=alerts_url) as url,
    ):
        eventually(lambda: expected <= {it["labels"]["alertname"] for it in receiver.alerts}, what="the alerts")
        groups = asked(url, "rules")["groups"]
        (scraped,) = asked(url, "targets")["activeTargets"]

    arrived = {it["labels"]["alertname"]: it for it in receiver.alerts}
    assert arrived.keys() == expected
    for name, alert in arrived.items():
        assert (alert["status"], alert["labels"]["customer"]) == ("firing", "acme")
        assert alert["labels"]["severity"] == named[name]["labels"]["severity"]
        assert alert["annotations"]["runbook_url"] == named[name]["annotations"]["runbook_url"]
        assert re.fullmatch(r"[A-Z][^{}]+\.", alert["annotations"]["summary"]), "no template is left in it"
    late = "A job of the pool train has waited for 11m 40s, and drainWithin says 10m."
    assert arrived["EbbtideQueueLate"]["annotations"]["summary"] == late
    assert scraped["health"] == "up"
    assert [rule for group in groups for rule in group["rules"] if rule["health"] != "ok"] == []
    assert sum(len(group["rules"]) for group in groups) == sum(len(group["rules"]) for group in rules["groups"])


@needs_prometheus
@needs_alertmanager
def test_of_what_our_processes_write_nothing_else_fires(tmp_path: Path) -> None:
    """The scaler in this test has no Lease, its last report is months old, and two of its workers wait; the exporter
    sees a workload that was left asleep.
    """
    receiver = Receiver()
    exposed = {"scaler": Exposed(of_the_scaler(tmp_path)), "exporter": Exposed(of_the_exporter())}
    targets = {name: it.address for name, it in exposed.items()}
    rules = at_once(rules_document(stack_settings(), "https://docs.example"))
    with (
        alertmanager(tmp_path, receiver.url) as alerts_url,
        prometheus(tmp_path, targets, rules=rules, alertmanager=alerts_url) as url,
    ):
        expected = {
            "EbbtideDeadMan",
            "EbbtideNoLeader",
            "EbbtideControllerStuck",
            "EbbtideWorkersPending",
            "EbbtideWorkloadLeftAsleep",
        }
        eventually(lambda: expected <= {it["labels"]["alertname"] for it in receiver.alerts}, what="the alerts")
        # Until the first scrape of a process its metrics are absent, which is an alert without its usual delay.
        scraped = eventually(lambda: scraped_at(url), what="a scrape of each process")
        eventually(lambda: evaluated_after(url, scraped), what="an evaluation after a scrape of each process")
        firing = {it["labels"]["alertname"] for it in asked(url, "alerts")["alerts"] if it["state"] == "firing"}

    assert firing == expected


def scraped_at(url: str) -> datetime | None:
    """Return a time by which each process was scraped."""
    targets = asked(url, "targets")["activeTargets"]
    times = [datetime.fromisoformat(target["lastScrape"]) for target in targets if target["health"] == "up"]
    return max(times, default=None) if len(times) == len(targets) else None


def evaluated_after(url: str, scraped: datetime) -> bool:
    return all(datetime.fromisoformat(group["lastEvaluation"]) > scraped for group in asked(url, "rules")["groups"])
