"""Parts of `ebbtide status` whose config cannot be read: each one says that it is unknown, and why."""

from datetime import UTC, datetime
from io import StringIO
from typing import Any, cast

import pytest
from rich.console import Console

from controllers.adapters.kube_api import ApiError
from ebbtide.cli.status import _of_workloads
from ebbtide.operate.api import OperatorApi
from tests.builders.controllers import config

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


class Api:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def get(self, path: str, **_: object) -> Any:
        assert path.endswith("/configmaps/ebbtide-workloads"), f"nothing else is asked without the config: {path}"
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            {"data": {"workloads.json": "{"}},
            "the workload controller's config (ConfigMap ebbtide/ebbtide-workloads) cannot be read",
        ),
        (ApiError(403, "forbidden"), "forbidden"),
    ],
)
def test_an_unreadable_config_leaves_ray_clusters_sleepers_and_node_pools_unknown(answer: Any, why: str) -> None:
    parts = _of_workloads(cast("OperatorApi", Api(answer)), "ebbtide", config(), None, NOW)

    out = StringIO()
    for part in parts:
        part.show(Console(file=out, width=300, highlight=False))
    for subject in ("Ray clusters", "workloads that sleep", "nodepools"):
        assert f"warning: {subject}: unknown: {why}" in out.getvalue()
    documents = {key: str(value) for part in parts for key, value in part.document.items()}
    for key in ("whyNoRay", "whyNoSleepers", "whyNoNodePools"):
        assert why in documents[key]
