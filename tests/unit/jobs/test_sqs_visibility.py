"""When the visibility timeout of a held message is renewed, against a client that notes the calls."""

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from ebbtide.jobs.sqs_visibility import ASSUMED, LONGEST, MARGIN, REREAD, RETRY, Receipt, Visibility

QUEUE = "https://sqs.eu-central-1.amazonaws.com/1/scan"
TIMEOUT = 300
THIRD = TIMEOUT / 3
A = Receipt(QUEUE, "a")


class Client:
    """SQS' answers. `faults` has an exception for the next call, or the codes of failed entries by their receipt."""

    def __init__(self, timeout: int = TIMEOUT) -> None:
        self.timeout = timeout
        self.readable = True
        self.renewals: list[dict[str, int]] = []
        self.faults: Sequence[Exception | Mapping[str, str]] = ()
        self.before = lambda: None

    def get_queue_attributes(self, **_: Any) -> dict[str, Any]:
        if not self.readable:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "GetQueueAttributes")
        return {"Attributes": {"VisibilityTimeout": str(self.timeout)}}

    def change_message_visibility_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803 - boto3's
        assert QueueUrl == QUEUE
        self.before()
        fault, *self.faults = self.faults or ({},)
        if isinstance(fault, Exception):
            raise fault
        self.renewals.append({entry["ReceiptHandle"]: entry["VisibilityTimeout"] for entry in Entries})
        failed = [entry for entry in Entries if entry["ReceiptHandle"] in fault]
        return {"Failed": [{"Id": entry["Id"], "Code": fault[entry["ReceiptHandle"]]} for entry in failed]}


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def visibility(client: Client) -> Visibility:
    return Visibility(lambda _: client)


def renewed(visibility: Visibility, now: float, *held: Receipt) -> set[Receipt]:
    return visibility.renew(lambda: held, now)


def test_a_message_is_renewed_after_each_third_of_the_timeout(client: Client, visibility: Visibility) -> None:
    for now in (0.0, THIRD - 1, THIRD, THIRD + 1, 2 * THIRD - 1, 2 * THIRD):
        renewed(visibility, now, A)

    assert client.renewals == [{"a": TIMEOUT}, {"a": TIMEOUT}]


def test_a_message_that_is_no_longer_held_is_not_renewed(client: Client, visibility: Visibility) -> None:
    renewed(visibility, 0, A)
    renewed(visibility, THIRD)

    assert client.renewals == []


def test_many_messages_are_renewed_ten_at_a_time(client: Client, visibility: Visibility) -> None:
    held = [Receipt(QUEUE, str(number)) for number in range(23)]
    renewed(visibility, 0, *held)
    renewed(visibility, THIRD, *held)

    assert sorted(map(len, client.renewals)) == [3, 10, 10]
    assert {handle for batch in client.renewals for handle in batch} == {receipt.handle for receipt in held}


def test_no_message_is_hidden_for_more_than_12_hours(
    client: Client, visibility: Visibility, caplog: pytest.LogCaptureFixture
) -> None:
    latest = LONGEST - MARGIN
    for now in (0.0, latest - TIMEOUT, latest - 30, latest, latest + TIMEOUT):
        renewed(visibility, now, A)

    assert client.renewals == [{"a": TIMEOUT}, {"a": 30}]
    assert "stays hidden for 30 s and no longer" in caplog.text


@pytest.mark.parametrize(
    "fault",
    [
        ClientError({"Error": {"Code": "ThrottlingException", "Message": "slow down"}}, "ChangeMessageVisibilityBatch"),
        EndpointConnectionError(endpoint_url=QUEUE),
        AttributeError("'NoneType' object has no attribute 'get'"),
        {"a": "InternalError"},
    ],
    ids=["throttled", "unreachable", "no answer of SQS", "one entry"],
)
def test_a_fault_is_tried_again_and_logged_once_until_a_renewal_succeeds(
    client: Client, visibility: Visibility, caplog: pytest.LogCaptureFixture, fault: Exception | dict[str, str]
) -> None:
    client.faults = [fault, fault, {}, fault]
    renewed(visibility, 0, A)
    for attempt in range(3):
        assert renewed(visibility, THIRD + attempt * RETRY, A) == set()

    assert client.renewals[-1] == {"a": TIMEOUT}
    assert caplog.text.count("trying again") == 1
    renewed(visibility, 2 * THIRD + 2 * RETRY, A)
    assert caplog.text.count("trying again") == 2


@pytest.mark.parametrize(
    "code", ["ReceiptHandleIsInvalid", "AWS.SimpleQueueService.MessageNotInflight", "InvalidParameterValue"]
)
def test_a_message_whose_receipt_is_gone_is_named_once_and_hides_no_other(
    client: Client, visibility: Visibility, caplog: pytest.LogCaptureFixture, code: str
) -> None:
    other = Receipt(QUEUE, "other")
    client.faults = [{"a": code}]
    renewed(visibility, 0, A, other)

    assert renewed(visibility, THIRD, A, other) == {A}
    assert renewed(visibility, 2 * THIRD, A, other) == set()
    assert client.renewals[-1] == {"other": TIMEOUT}
    assert caplog.text.count("is no longer hidden") == 1


def test_a_message_that_ends_while_it_is_renewed_is_not_gone(
    client: Client, visibility: Visibility, caplog: pytest.LogCaptureFixture
) -> None:
    held = [A]
    client.faults, client.before = [{"a": "ReceiptHandleIsInvalid"}], held.clear
    renewed(visibility, 0, A)

    assert visibility.renew(lambda: held, THIRD) == set()
    assert not caplog.records


def test_messages_of_an_unreadable_timeout_are_hidden_at_once_for_30_seconds(
    client: Client, visibility: Visibility, caplog: pytest.LogCaptureFixture
) -> None:
    client.readable = False
    for now in (0.0, ASSUMED / 3 - 1, ASSUMED / 3):
        renewed(visibility, now, A)

    assert client.renewals == [{"a": ASSUMED}, {"a": ASSUMED}]
    assert "AccessDenied" in caplog.text


def test_a_changed_timeout_holds_for_the_next_message(client: Client, visibility: Visibility) -> None:
    renewed(visibility, 0, A)
    client.timeout = 60
    later = Receipt(QUEUE, "later")
    renewed(visibility, REREAD, later)
    renewed(visibility, REREAD + 20, later)

    assert client.renewals == [{"later": 60}]


@pytest.mark.parametrize(("timeout", "warns"), [(29, True), (30, False)])
def test_a_short_timeout_is_warned_of(caplog: pytest.LogCaptureFixture, timeout: int, warns: bool) -> None:
    client = Client(timeout)
    renewed(Visibility(lambda _: client), 0, A)

    assert ("set it to at least 30 s" in caplog.text) is warns


def test_a_queue_that_hides_nothing_hides_a_held_message_at_once() -> None:
    client = Client(timeout=0)
    renewed(Visibility(lambda _: client), 0, A)

    assert client.renewals == [{"a": ASSUMED}]


def test_the_last_renewal_may_come_late(client: Client, visibility: Visibility) -> None:
    client.faults = [{"a": "InternalError"}]
    for now in (0.0, LONGEST - MARGIN - 1, LONGEST):
        renewed(visibility, now, A)

    assert client.renewals[-1] == {"a": 1}


def test_a_return_to_the_queue_waits_for_the_renewal_in_flight(client: Client, visibility: Visibility) -> None:
    begun, go, order = threading.Event(), threading.Event(), list[str]()
    renewed(visibility, 0, A)

    def slow() -> None:
        begun.set()
        go.wait(10)
        order.append("renewed")

    def give_back() -> None:
        with visibility.paused():
            order.append("returned")

    client.before = slow
    threads = [threading.Thread(target=renewed, args=(visibility, THIRD, A)), threading.Thread(target=give_back)]
    threads[0].start()
    assert begun.wait(10)
    threads[1].start()
    threads[1].join(0.1)
    go.set()
    for thread in threads:
        thread.join(10)

    assert order == ["renewed", "returned"]


@pytest.fixture(autouse=True)
def _warnings(caplog: pytest.LogCaptureFixture) -> None:  # pyright: ignore[reportUnusedFunction] - used by every test
    caplog.set_level(logging.WARNING)
