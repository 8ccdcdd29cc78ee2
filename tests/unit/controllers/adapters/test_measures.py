"""Durations of terminations and startups, from one state of the pods to the next."""

from datetime import timedelta

import pytest

from controllers.adapters import kube_cluster
from controllers.adapters.kube_cluster import Measures
from controllers.adapters.kube_objects import Lifetime

STARTS, READY = Lifetime(ending=False, startup=None), Lifetime(ending=False, startup=timedelta(seconds=40))
ENDS = Lifetime(ending=True, startup=timedelta(seconds=40))


class Clock:
    at = 100.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(kube_cluster, "monotonic", made)
    return made


def test_before_anything_was_seen_nothing_was_measured() -> None:
    assert Measures().p99() == {"drain": None, "startup": None}


def test_an_end_lasts_from_its_first_sight_until_the_pod_is_gone(clock: Clock) -> None:
    measures = Measures()
    for at, pods in ((0, {"a": READY}), (10, {"a": ENDS}), (25, {"a": ENDS}), (31, {})):
        clock.at = 100.0 + at
        measures.observe("apps", pods)

    assert measures.p99()["drain"] == 21


def test_a_pod_that_is_gone_without_a_sight_of_its_end_is_not_measured(clock: Clock) -> None:
    measures = Measures()
    measures.observe("apps", {"a": READY})
    measures.observe("apps", {})

    assert measures.p99()["drain"] is None


def test_pods_of_one_namespace_do_not_end_by_a_view_of_another(clock: Clock) -> None:
    measures = Measures()
    measures.observe("apps", {"a": ENDS})
    measures.observe("web", {})
    assert measures.p99()["drain"] is None
    clock.at += 5
    measures.observe("apps", {})

    assert measures.p99()["drain"] == 5


def test_a_start_counts_when_it_was_watched_from_before_it_was_ready(clock: Clock) -> None:
    measures = Measures()
    measures.observe("apps", {"ready-already": READY, "a": STARTS, "ends-first": STARTS})
    assert measures.p99()["startup"] is None
    measures.observe("apps", {"ready-already": READY, "a": STARTS, "ends-first": ENDS})
    assert measures.p99()["startup"] is None
    measures.observe("apps", {"ready-already": READY, "a": READY})
    later = Lifetime(ending=False, startup=timedelta(seconds=90))  # it was not ready for a while, and is again
    measures.observe("apps", {"a": later})

    assert measures.p99()["startup"] == 40


def test_only_the_newest_five_hundred_count(clock: Clock) -> None:
    measures = Measures()
    for seconds in [1000] * 100 + [7] * 500:
        pod = Lifetime(ending=False, startup=timedelta(seconds=seconds))
        measures.observe("apps", {"a": STARTS})
        measures.observe("apps", {"a": pod})
        measures.observe("apps", {"b": ENDS})
        clock.at += seconds
        measures.observe("apps", {})

    assert measures.p99() == {"drain": 7, "startup": 7}
