"""Counts in the attributes of a queue of SQS."""

import os
from datetime import timedelta

import pytest

from controllers.adapters.broker_rules import Count
from controllers.adapters.sqs_broker import SqsBroker, counted
from controllers.ports import Unknown
from ebbtide.vocabulary.controller_config import SqsEndpoint

ATTRIBUTES = {
    "ApproximateNumberOfMessages": "3",
    "ApproximateNumberOfMessagesNotVisible": "2",
    "ApproximateNumberOfMessagesDelayed": "4",
    "DelaySeconds": "300",
}


@pytest.mark.parametrize(("startup", "waiting"), [(300, 7), (299, 3)])
def test_delayed_messages_wait_if_a_node_needs_as_long_to_start(startup: int, waiting: int) -> None:
    expected = Count(ready=waiting, consumers=None, listed=waiting, unacked=2)

    assert counted("train", ATTRIBUTES, timedelta(seconds=startup)) == expected


@pytest.mark.parametrize("name", ATTRIBUTES)
@pytest.mark.parametrize("value", ["-1", "", "many", "1.5", "²", 3, None])
def test_an_attribute_that_is_no_count_makes_the_queue_unknown(name: str, value: object) -> None:
    seen = counted("train", {**ATTRIBUTES, name: value}, timedelta(minutes=5))

    assert seen == Unknown(f"queue train: SQS gives no number for {name}")


@pytest.mark.parametrize("attributes", [None, [], "text", {}])
def test_an_answer_without_attributes_is_unknown(attributes: object) -> None:
    assert isinstance(counted("train", attributes, timedelta(minutes=5)), Unknown)


@pytest.mark.parametrize(
    "variables",
    [
        {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://example.com/"},  # an address that botocore does not call
        {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "/nowhere/token",
        },
        {"AWS_PROFILE": "nobodys"},
    ],
)
def test_a_login_that_fails_makes_every_queue_unknown(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    broker = SqsBroker(SqsEndpoint(name="aws", region="eu-central-1"), timedelta(minutes=5))

    _, answers = broker.ask(["train", "mail"])

    whys = [answer.why for answer in answers.values() if isinstance(answer, Unknown)]
    assert len(whys) == 2
    assert all("no AWS credentials" in why and "ebbtide-controller" in why for why in whys)


@pytest.mark.parametrize("fault", [AttributeError("no attribute"), UnicodeDecodeError("utf-8", b"", 0, 1, "x")])
def test_an_answer_that_no_sqs_sends_is_unknown(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """botocore raises errors of any kind for it."""

    def ask(*_: object) -> None:
        raise fault

    def logged_in(_: SqsBroker) -> None: ...

    monkeypatch.setattr(SqsBroker, "_log_in", logged_in)
    monkeypatch.setattr(SqsBroker, "_ask", ask)

    _, answers = SqsBroker(SqsEndpoint(name="aws", region="eu-central-1"), timedelta(minutes=5)).ask(["train"])

    kind = type(fault).__name__
    assert answers == {"train": Unknown(f"broker aws answered with something that no SQS sends ({kind})")}
