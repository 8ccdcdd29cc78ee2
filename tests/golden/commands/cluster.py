"""An API server in the process: objects by path, which answer, change and refuse; and a Prometheus behind its proxy."""

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from datetime import timedelta
from typing import Any, cast
from unittest.mock import patch

from kubernetes.client import Configuration

from controllers.adapters.kube_api import APPLY, ApiError, Json
from ebbtide.monitoring.links import Link
from ebbtide.operate.api import OperatorApi
from tests.golden.commands.case import Stage, returns

_PROXY = "/proxy/api/v1/"


class PlayedApi(OperatorApi):
    """`objects`: an int is the status of a refusal; what is not there does not exist. A list is filtered by labels."""

    def __init__(self, objects: Mapping[str, Any], prometheus: Link | None) -> None:
        configuration = Configuration()
        configuration.host = "https://cluster.example.com"
        super().__init__(configuration, "~/.kube/config", "here")
        self.clock_ahead = timedelta()
        self.sent = list[str]()
        self._objects, self._prometheus = deepcopy(dict(objects)), prometheus

    def _answer(self, verb: str, path: str, query: Mapping[str, str], body: object = None, kind: str = "") -> Json:
        if _PROXY in path and self._prometheus is not None:
            return cast("Json", self._prometheus.get(path.partition(_PROXY)[2], query).document)
        answer = self._objects.get(f"{verb} {path}", self._objects.get(path, 404))
        if isinstance(answer, int):
            raise ApiError(answer, f"{verb} {path}: no")
        if callable(answer):
            return cast("Json", answer(body))
        if verb == "GET":
            return _chosen(answer, query)
        self.sent.append(
            " ".join(
                filter(None, (verb, path, kind * (kind == APPLY), *map("=".join, query.items()), json.dumps(body)))
            )
        )
        if verb == "PATCH" and isinstance(body, Mapping):
            _merge(answer, cast("Mapping[str, Any]", body))
        return answer


def _chosen(answer: Json, query: Mapping[str, str]) -> Json:
    pairs = (pair.partition("=") for pair in query.get("labelSelector", "").split(",") if "=" in pair)
    labels = {key: value for key, _, value in pairs}
    node = query.get("fieldSelector", "").partition("spec.nodeName=")[2]
    if "items" not in answer or not (labels or node):
        return answer
    items = [item for item in answer["items"] if labels.items() <= item["metadata"].get("labels", {}).items()]
    return {"items": [item for item in items if not node or item["spec"].get("nodeName") == node]}


def _merge(item: Json, change: Mapping[str, Any]) -> None:
    for key, value in change.items():
        if isinstance(value, Mapping) and isinstance(item.get(key), dict):
            _merge(item[key], cast("Mapping[str, Any]", value))
        elif value is None:
            item.pop(key, None)
        else:
            item[key] = value


def cluster(objects: Mapping[str, Any], prometheus: Link | None = None) -> Stage:
    @contextmanager
    def stage() -> Generator[Sequence[object]]:
        api = PlayedApi(objects, prometheus)
        with (
            patch("ebbtide.cli.cluster.connect", returns(api)),
            patch("ebbtide.operate.prometheus.connect", returns(api)),
            patch("ebbtide.cli.idle.connect", returns(api)),
        ):
            yield api.sent

    return stage
