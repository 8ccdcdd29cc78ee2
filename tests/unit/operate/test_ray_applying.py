"""Maintenance of a Ray cluster: its first lines, when it ends, and that it removes what it wrote."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from controllers.adapters.kube_api import ApiError, KubeApi
from ebbtide.operate import api as operate_api
from ebbtide.operate.api import Target
from ebbtide.operate.ray.applying import Applying, is_done, nothing_to_apply, plan_lines
from ebbtide.operate.ray.view import RayView
from ebbtide.vocabulary.labels import APPLY_UNTIL, PAUSED
from tests.unit.operate.raw_objects import NOW
from tests.unit.operate.ray_objects import asleep, ray_cluster, report, view

FLOW = Target("ray", "flow", "/flow")
PENDING = report(pending=["headGroupSpec.template.spec.containers[0].image"])


class Api:
    """Keeps the annotation as last written; refuses as requested, each refusal once."""

    def __init__(self) -> None:
        self.written: list[str | None] = []
        self.refuses: list[ApiError] = []

    def patch(self, path: str, body: dict[str, Any], *, fieldManager: str) -> None:  # noqa: N803 - the API's name
        assert (path, fieldManager) == ("/flow", "ebbtide-operator")
        if self.refuses:
            raise self.refuses.pop(0)
        self.written.append(body["metadata"]["annotations"][APPLY_UNTIL])


def applying(api: Api, said: list[str], lasting: timedelta = timedelta(hours=1)) -> Applying:
    return Applying(cast("KubeApi", api), [FLOW], until=datetime.now(UTC) + lasting, tell=said.append)


def plan(*views: RayView) -> str:
    return "\n".join(plan_lines(views, NOW + timedelta(hours=1), "UTC", "new image"))


def test_what_is_pending_and_what_is_interrupted_comes_first() -> None:
    text = plan(view(report={**PENDING, "activity": "driver: 1 job"}))

    assert "maintenance until Fri 2026-11-20 16:00 UTC (16:00 UTC): new image" in text
    assert "to apply: headGroupSpec.template.spec.containers[0].image (old image)" in text
    assert "drivers preprocess: 3 wanted, 2 ready, at most 3, with 2 jobs running" in text
    assert "the head says: driver: 1 job; 4 pods go, the head among them" in text


def test_unknown_interruptions_are_shown_as_unknown() -> None:
    text = plan(view(report=None, pods=None, pools={}))

    assert "to apply: unknown" in text
    assert "unknown wanted, unknown ready" in text
    assert "what else runs there is not known; unknown pods go" in text


def test_a_hold_that_forbids_it_is_shown_with_what_ends_it() -> None:
    assert "note: paused: by hand, so nothing is applied before: ebbtide resume flow" in plan(
        view(cluster=ray_cluster(annotations={PAUSED: "by hand"}), report=PENDING)
    )


@pytest.mark.parametrize(
    ("changes", "done"),
    [
        ({}, True),
        ({"cluster": asleep()}, True),
        ({"report": PENDING}, False),
        ({"report": None}, False),
        ({"cluster": ray_cluster(suspend=True)}, False),
        ({"cluster": asleep("spec")}, False),
        ({"cluster": None}, False),
    ],
)
def test_it_is_done_once_nothing_is_pending_and_no_suspension_is_under_way(
    changes: dict[str, Any], *, done: bool
) -> None:
    assert is_done(view(**changes)) is done


def test_there_is_something_to_apply_unless_it_is_known_that_there_is_nothing() -> None:
    assert nothing_to_apply([view(), view()])
    assert not nothing_to_apply([view(), view(report=PENDING)])
    assert not nothing_to_apply([view(report=None)])


def test_it_ends_by_itself_when_all_is_applied_and_removes_the_annotation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebbtide.operate.ray.applying._POLL", timedelta(0))
    api, said, looks = Api(), list[str](), [view(report=PENDING), view(report=PENDING), view()]
    under_way = applying(api, said)

    under_way.open()
    under_way.watch(threading.Event(), lambda: [looks.pop(0)])

    assert looks == []
    assert [line.partition(" (")[0] for line in said] == [
        "ray flow: its new spec may interrupt it now",
        "ray flow is awake: fields pending: 1, pods: 4",
        "ray flow is awake: fields pending: 0, pods: 4",
        "ending: all is applied",
    ]
    assert under_way.close() == []
    assert [text is None for text in api.written] == [False, True]


def test_it_ends_at_its_time_and_on_a_signal() -> None:
    said, stop = list[str](), threading.Event()
    applying(Api(), said, timedelta(0)).watch(stop, lambda: [view(report=PENDING)])
    stop.set()
    applying(Api(), said).watch(stop, lambda: [view(report=PENDING)])

    assert said == ["ending: the time is over", "ending: on request"]


def test_clusters_that_cannot_be_read_for_a_while_do_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebbtide.operate.ray.applying._POLL", timedelta(0))
    said, answers = list[str](), [ApiError(0, "timeout"), view()]

    def look() -> list[RayView]:
        answer = answers.pop(0)
        if isinstance(answer, ApiError):
            raise answer
        return [answer]

    applying(Api(), said).watch(threading.Event(), look)

    assert answers == []
    assert said[0].startswith("cannot read the clusters now: timeout")
    assert said[-1] == "ending: all is applied"


def test_a_lost_answer_is_retried_and_a_refusal_is_shown_with_what_undoes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operate_api, "_PAUSES", (0, 0))
    api, said = Api(), list[str]()
    under_way = applying(api, said)
    api.refuses = [ApiError(0, "lost")]
    with pytest.raises(ApiError):
        under_way.open()  # it may have been written all the same

    api.refuses = [ApiError(0, "lost"), ApiError(429, "busy")]
    assert (under_way.close(), api.written) == ([], [None])
    api.refuses = [ApiError(403, "forbidden")]
    assert under_way.close() == ["ebbtide resume flow"]
