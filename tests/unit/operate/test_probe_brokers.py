"""`ebbtide probe` on message brokers: by the controller's readings, since the command has no password of a broker."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from controllers.ports import Known, Reading, Unknown, Untrusted
from ebbtide.operate.probe.brokers import message_brokers
from ebbtide.operate.probe.facts import BrokerWant, ObjectWant, facts_of
from ebbtide.operate.probe.findings import Probed
from ebbtide.operate.probe.wants import Wants
from ebbtide.vocabulary.documents import encoded
from tests.builders.existing import onprem, written
from tests.unit.operate.raw_objects import pod
from tests.unit.operate.test_probe import CannedApi, CannedCluster, run, wants

RABBIT = BrokerWant("jobs", ("etl",), timedelta(hours=13))
ZEROS = Known(waiting=0, in_transit=0, running=0)
STACK = """\
ebbtide:brokers:
  jobs:
    kind: rabbitmq
    url: amqps://mq.example.com/prod
    management: https://mq.example.com
    controller: { user: reader, secret: rabbit-reader }
    consumerTimeout: 13h
"""
PODS = "/api/v1/namespaces/ebbtide/pods"


def found(*brokers: BrokerWant, status: Mapping[str, Any], silence: str = "") -> list[tuple[str, str, str]]:
    facts = facts_of(CannedCluster(), {}, ())
    probed = Probed(facts=facts, wants=Wants(brokers=brokers), clock_ahead=None, status=(status, silence))
    return [(finding.state.value, finding.what, finding.said) for finding in message_brokers(probed)]


def status(reading: Reading, *at_start: str) -> dict[str, Any]:
    return {"report": {"pools": [{"name": "etl", "reading": encoded(reading)}]}, "probe": list(at_start)}


@pytest.mark.parametrize(
    ("reading", "state", "said"),
    [
        (ZEROS, "ok", "the controller reads its queues in broker jobs"),
        (Known(waiting=0, in_transit=0, running=0, warning="no queue etl"), "note", "no queue etl"),
        (Untrusted("the broker restarted", ZEROS), "note", "the broker restarted"),
        (Unknown("HTTP 401"), "missing", "its queues in broker jobs cannot be read: HTTP 401"),
    ],
)
def test_each_reading_of_the_controller_is_a_finding(reading: Reading, state: str, said: str) -> None:
    assert found(RABBIT, status=status(reading))[0] == (state, "pool etl", said)


@pytest.mark.parametrize(
    ("answer", "silence", "why"),
    [({}, "no controller pod runs", "no controller pod runs"), ({"report": {"pools": []}}, "", "the controller does")],
)
def test_without_a_reading_nothing_is_known(answer: Mapping[str, Any], silence: str, why: str) -> None:
    ((state, what, said), _) = found(RABBIT, status=answer, silence=silence)

    assert (state, what) == ("note", "pool etl")
    assert said.startswith(f"whether its queues in broker jobs can be read is not known: {why}")


def test_what_the_broker_does_not_show_is_a_note_for_rabbitmq_alone() -> None:
    rabbit, sqs = (found(want, status=status(ZEROS)) for want in (RABBIT, RABBIT._replace(consumer_timeout=None)))

    assert rabbit[1][:2] == ("note", "broker jobs")
    assert rabbit[1][2].startswith("whether it waits 13h for an acknowledgement (consumer_timeout) cannot be read")
    assert len(sqs) == 1


def test_rights_beyond_looking_are_notes_as_the_controller_found_them() -> None:
    line = "broker jobs: user reader has the tag administrator"

    assert found(RABBIT, status=status(ZEROS, f"warning: {line}"))[2] == (
        "note",
        "controller",
        f"its connections: {line}",
    )
    assert found(status=status(ZEROS, line)) == []  # of a stack without brokers


def test_the_command_reads_the_controllers_status_for_a_stack_with_a_broker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = onprem(more=STACK).replace("queues: [train]", "kind: celery, broker: jobs, acks: late, queues: [train]")
    report = {"report": {"pools": [{"name": "train", "reading": encoded(Unknown("HTTP 401"))}]}}
    answers = {
        PODS: {"items": [pod("ebbtide-controller-a", labels={"ebbtide.dev/workload": "ebbtide-controller"})]},
        f"{PODS}/ebbtide-controller-a:8080/proxy/status": report,
    }

    result, _ = run(monkeypatch, CannedApi(answers), written(text, tmp_path))
    other, _ = run(monkeypatch, CannedApi(answers), written(onprem(), tmp_path))

    assert result.exit_code == 1
    assert "its queues in broker jobs cannot be read: HTTP 401" in result.output
    assert "HTTP 401" not in other.output


@pytest.mark.parametrize(("login", "namespace"), [("controller", "ebbtide"), ("workers", "ebbtide-workers")])
def test_the_password_of_each_user_is_wanted(login: str, namespace: str, tmp_path: Path) -> None:
    text = f"{STACK}    workers: {{ user: etl, secret: rabbit-etl }}\n"
    secret = {"controller": "rabbit-reader", "workers": "rabbit-etl"}[login]

    expected = ObjectWant("Secret", namespace, secret, ("password",), f"brokers.jobs.{login}")
    assert expected in wants(tmp_path, more=text).objects
