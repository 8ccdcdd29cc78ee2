"""What is read from VerticalPodAutoscalers, and what is reported as unread."""

from typing import Any, cast

import pytest

from controllers.adapters.kube_api import ApiError, KubeApi
from ebbtide.operate.services import recommendations


class Api:
    """Answers with these objects, or with an error of this status."""

    def __init__(self, *items: dict[str, Any], status: int = 200) -> None:
        self._items, self._status = items, status

    def get(self, path: str, **_: str) -> dict[str, Any]:
        if self._status != 200:
            raise ApiError(self._status, "verticalpodautoscalers is forbidden")
        return {"items": list(self._items) if "/namespaces/ebbtide/" in path else []}


def vpa(cpu: str, memory: str, container: str = "api") -> dict[str, Any]:
    told = {"containerName": container, "target": {"cpu": cpu, "memory": memory}}
    return {
        "spec": {"targetRef": {"name": "api"}},
        "status": {"recommendation": {"containerRecommendations": [told]}},
    }


def read(api: Api) -> tuple[dict[tuple[str, str, str], tuple[int, int]], list[str]]:
    unread: list[str] = []
    return dict(recommendations(cast("KubeApi", api), ["ebbtide", "ebbtide-workers"], unread)), unread


@pytest.mark.parametrize(("cpu", "memory", "found"), [("1", "1Gi", (1000, 1024)), ("587m", "262144k", (587, 250))])
def test_targets_are_read_in_whatever_unit_they_are(cpu: str, memory: str, found: tuple[int, int]) -> None:
    assert read(Api(vpa(cpu, memory))) == ({("ebbtide", "api", "api"): found}, [])


def test_one_without_a_recommendation_gives_nothing() -> None:
    assert read(Api({"spec": {"targetRef": {"name": "api"}}, "status": {}})) == ({}, [])


def test_a_cluster_without_the_kind_is_no_problem_and_a_refusal_is() -> None:
    assert read(Api(status=404)) == ({}, [])
    found, unread = read(Api(status=403))
    assert found == {}
    assert len(unread) == 1
    assert "forbidden" in unread[0]
