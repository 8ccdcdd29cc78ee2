"""Who holds the Lease, whatever is delayed, lost, frozen or answered late. The server here is a dozen lines."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Literal, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.adapters.kube_api import ApiError, KubeApi
from controllers.adapters.lease import Lease
from tests.builders.redis import wait_until

PATH = "/apis/coordination.k8s.io/v1/namespaces/apps/leases/ebbtide-controller"

Fate = Literal["fine", "lost", "answer lost"]


class OneLease:
    """A server with one object, versions on it, and a network: `before` and `after` run around the server's part."""

    def __init__(self) -> None:
        self.stored: dict[str, Any] = {"metadata": {"resourceVersion": "1"}}
        self.before: Callable[[], Fate] = lambda: "fine"
        self.after: Callable[[], None] = lambda: None
        self.calls: list[str] = []

    def get(self, path: str) -> dict[str, Any]:
        return self._answer("get", path, lambda: self.stored)

    def replace(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._answer("replace", path, lambda: self._store(body))

    def _store(self, body: dict[str, Any]) -> dict[str, Any]:
        version = self.stored["metadata"]["resourceVersion"]
        if body["metadata"]["resourceVersion"] != version:
            raise ApiError(409, "modified")
        self.stored = {**body, "metadata": {"resourceVersion": str(int(version) + 1)}}
        return self.stored

    def _answer(self, verb: str, path: str, part: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        assert path == PATH
        self.calls.append(verb)
        fate = self.before()
        if fate == "lost":
            raise ApiError(0, "lost")
        answer = part()
        self.after()
        if fate == "answer lost":
            raise ApiError(0, "answer lost")
        return answer


class Time:
    def __init__(self) -> None:
        self.seconds = 0.0

    def pass_(self, seconds: float) -> None:
        self.seconds += seconds


def candidate(api: Any, time: Time, identity: str, *, ahead: float = 0.0) -> Lease:
    """`ahead`: by how much its clock differs from everybody's."""
    return Lease(api, "apps", identity, clock=lambda: time.seconds + ahead)


def test_a_lease_without_a_spec_is_taken_at_once() -> None:
    server = OneLease()
    lease = candidate(server, Time(), "a")

    lease.step()

    assert lease.held()
    assert lease.holder == server.stored["spec"]["holderIdentity"] == "a"


def test_a_renewal_is_one_request_and_no_transition() -> None:
    server, time = OneLease(), Time()
    lease = candidate(server, time, "a")
    lease.step()
    time.pass_(5)
    lease.step()

    assert server.calls == ["get", "replace", "replace"]
    assert server.stored["spec"]["leaseTransitions"] == 1


def test_the_hold_counts_from_before_the_renewal_was_sent() -> None:
    server, time = OneLease(), Time()
    lease = candidate(server, time, "a")
    server.after = lambda: time.pass_(9)  # the answer to each request takes nine seconds
    lease.step()

    assert lease.held()
    time.pass_(4)
    assert not lease.held()


def test_a_process_that_wakes_up_finds_its_hold_expired_and_another_in_place() -> None:
    server, time = OneLease(), Time()
    frozen, other = candidate(server, time, "a"), candidate(server, time, "b", ahead=-3600)
    frozen.step()
    other.step()
    time.pass_(15)
    other.step()

    assert not frozen.held()
    assert other.held()
    frozen.step()  # its renewal is refused
    frozen.step()
    assert not frozen.held()
    assert frozen.holder == "b"


def test_a_successor_acts_within_twenty_seconds() -> None:
    server, time = OneLease(), Time()
    killed, successor = candidate(server, time, "a"), candidate(server, time, "b")
    killed.step()
    successor.step()
    while not successor.held():
        time.pass_(successor.step())

    assert 15 <= time.seconds <= 20


def test_what_changes_is_respected_for_as_long_again() -> None:
    server, time = OneLease(), Time()
    holder, other = candidate(server, time, "a"), candidate(server, time, "b")
    for _ in range(20):
        holder.step()
        other.step()
        assert (holder.held(), other.held()) == (True, False)
        time.pass_(5)


def test_an_earlier_process_of_the_same_name_is_somebody_else() -> None:
    server, time = OneLease(), Time()
    candidate(server, time, "a").step()
    time.pass_(1)
    restarted = candidate(server, time, "a")
    restarted.step()

    assert not restarted.held()


def test_a_takeover_whose_answer_was_lost_is_recognised_as_ones_own() -> None:
    server, time = OneLease(), Time()
    lease = candidate(server, time, "a")
    fates: list[Fate] = ["fine", "answer lost"]
    server.before = lambda: fates.pop(0) if fates else "fine"
    lease.step()
    assert not lease.held()
    time.pass_(2)
    lease.step()

    assert lease.held()


def test_a_lease_that_does_not_exist_is_not_held() -> None:
    server = OneLease()

    def refuse() -> Fate:
        raise ApiError(404, "not found")

    server.before = refuse
    lease = candidate(server, Time(), "a")
    lease.step()

    assert not lease.held()


FATES = st.sampled_from(["fine", "fine", "fine", "lost", "answer lost"])
WAITS = st.sampled_from([0.0, 2.0, 5.0, 9.5, 11.9, 16.0])
DELAYS = st.sampled_from([0.0, 0.0, 0.0, 0.0, 0.5, 5.0, 11.9, 16.0])


@dataclass(frozen=True, kw_only=True)
class Step:
    who: int
    meddler: int | None  # who runs in the middle of it
    fate: Fate
    there: float
    back: float
    then: float


STEP = st.builds(
    Step,
    who=st.integers(0, 2),
    meddler=st.sampled_from([None, None, 0, 1, 2]),
    fate=FATES,
    there=DELAYS,
    back=DELAYS,
    then=WAITS,
)


@given(steps=st.lists(STEP, min_size=10, max_size=50), offset=st.floats(-1e6, 1e6))
def test_two_never_hold_it_at_once(steps: list[Step], offset: float) -> None:
    """Around every request time passes, the request or its answer may be lost, and another may run in between."""
    server, time = OneLease(), Time()
    everyone = [candidate(server, time, name, ahead=ahead) for name, ahead in (("a", 0.0), ("b", offset), ("a", 7.0))]
    meddlers: list[Lease] = []

    def between(seconds: float) -> None:
        time.pass_(seconds)
        if meddlers:
            meddlers.pop().step()
        assert sum(each.held() for each in everyone) <= 1

    def before() -> Fate:
        between(step.there)
        return step.fate

    server.before, server.after = before, lambda: between(step.back)
    for step in steps:
        if step.meddler not in (None, step.who):
            meddlers[:] = [everyone[step.meddler]]
        everyone[step.who].step()
        between(0)
        between(step.then)


@pytest.mark.parametrize(
    ("status", "message", "why"),
    [
        (0, "the API server https://x cannot be reached", "the API server https://x cannot be reached"),
        (401, "Unauthorized", "the API server refuses our token: Unauthorized"),
        (403, "leases is forbidden", "a right is missing: leases is forbidden"),
        (404, "not found", "not found"),
        (409, "modified", ""),  # another was faster: nothing is wrong
    ],
)
def test_why_it_cannot_be_had_is_known_until_it_can(status: int, message: str, why: str) -> None:
    server = OneLease()
    fine = server.before

    def refuse() -> Fate:
        raise ApiError(status, message)

    server.before = refuse
    lease = candidate(server, Time(), "a")
    lease.step()
    assert (lease.why, lease.held()) == (why, False)

    server.before = fine
    lease.step()
    assert (lease.why, lease.held()) == ("", True)


# --- how often, and for how long --------------------------------------------------------------------------------------


def test_a_holder_comes_back_after_a_third_and_a_candidate_after_two_fifteenths_of_the_duration() -> None:
    server, time = OneLease(), Time()
    holder, other = candidate(server, time, "a"), candidate(server, time, "b")

    assert (holder.step(), other.step()) == (5, 2)
    time.pass_(14.5)
    assert other.step() == 0.5, "no later than the other's hold ends"


def test_a_candidate_that_gets_no_answer_tries_again_soon() -> None:
    server = OneLease()
    server.before = lambda: "lost"

    assert candidate(server, Time(), "a").step() == 2


def test_the_hold_ends_at_its_deadline_and_with_the_release() -> None:
    time = Time()
    lease = candidate(OneLease(), time, "a")
    lease.step()

    time.pass_(11.9)
    assert lease.held()
    time.pass_(0.1)
    assert not lease.held()
    lease.step()
    assert lease.held()
    lease.release()
    assert not lease.held()


@pytest.mark.parametrize(("spec", "seconds"), [({"leaseDurationSeconds": 40}, 40), ({}, 15)])
def test_another_s_hold_is_respected_for_its_own_duration(spec: dict[str, Any], seconds: float) -> None:
    server, time = OneLease(), Time()
    server.stored["spec"] = {"holderIdentity": "b", "acquireTime": "then", **spec}
    lease = candidate(server, time, "a")
    lease.step()

    time.pass_(seconds - 0.1)
    lease.step()
    assert (lease.held(), lease.holder) == (False, "b")
    time.pass_(0.1)
    lease.step()
    assert lease.held()


def test_a_lease_that_was_given_back_is_taken_at_once() -> None:
    server = OneLease()
    server.stored["spec"] = {"holderIdentity": None, "acquireTime": "", "leaseDurationSeconds": 1}
    lease = candidate(server, Time(), "a")

    lease.step()

    assert lease.held()


def test_another_name_with_our_time_is_somebody_else() -> None:
    server, time = OneLease(), Time()
    lease = candidate(server, time, "a")
    lease.step()
    server.stored["spec"]["holderIdentity"] = "b"
    server.stored["metadata"]["resourceVersion"] = "9"
    lease.step()  # refused
    lease.step()

    assert (lease.holder, server.stored["spec"]["holderIdentity"]) == ("b", "b")


# --- its thread -------------------------------------------------------------------------------------------------------


def test_its_thread_takes_the_lease_notifies_and_gives_it_back() -> None:
    server, told = OneLease(), SimpleQueue[None]()
    lease = Lease(cast("KubeApi", server), "apps", "a", duration=1)
    lease.start(lambda: told.put(None))
    told.get(timeout=20)

    assert (lease.held(), lease.holder) == (True, "a")
    [daemon] = [thread.daemon for thread in threading.enumerate() if thread.name == "lease"]
    assert daemon, "a process may end while a server hangs"
    lease.release()
    wait_until(lambda: "lease" not in [thread.name for thread in threading.enumerate()], "its thread to end")
    assert {key: server.stored["spec"][key] for key in ("holderIdentity", "leaseDurationSeconds")} == {
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
    }


def test_a_thread_that_never_had_it_gives_nothing_back() -> None:
    server, told = OneLease(), SimpleQueue[None]()
    server.stored["spec"] = {"holderIdentity": "b", "acquireTime": "then", "leaseDurationSeconds": 60}
    lease = Lease(cast("KubeApi", server), "apps", "a", duration=1)
    lease.start(lambda: told.put(None))
    told.get(timeout=20)
    lease.release()
    wait_until(lambda: "lease" not in [thread.name for thread in threading.enumerate()], "its thread to end")

    assert set(server.calls) == {"get"}
    assert server.stored["spec"]["holderIdentity"] == "b"


def test_releasing_before_the_start_is_no_error() -> None:
    candidate(OneLease(), Time(), "a").release()


def test_a_free_lease_has_no_holder() -> None:
    server = OneLease()
    server.stored["spec"] = {"holderIdentity": None}
    lease = candidate(server, Time(), "a")

    def somebody_is_faster() -> None:
        server.stored = {**server.stored, "metadata": {"resourceVersion": "9"}}

    server.after = somebody_is_faster
    lease.step()

    assert (lease.holder, lease.why, lease.held()) == ("", "", False)


def test_the_first_step_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lease = candidate(OneLease(), Time(), "a")
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return len(waits) > 1

    monkeypatch.setattr(lease._ended, "wait", wait)
    lease._run(lambda: None)

    assert waits == [0, 5]
