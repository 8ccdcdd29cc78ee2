"""Who leads, read by a machine whose clock is wrong."""

from datetime import UTC, datetime, timedelta

import pytest
from kubernetes.client import Configuration

from controllers.adapters.kube_api import Json
from ebbtide.operate.api import OperatorApi, leader

NOW = datetime(2026, 11, 20, 15, tzinfo=UTC)  # by the API server, and by the holder
HALF_HOUR = timedelta(minutes=30)


@pytest.mark.parametrize("ahead", [-HALF_HOUR, HALF_HOUR])
def test_this_machines_clock_is_corrected_by_the_servers(ahead: timedelta, monkeypatch: pytest.MonkeyPatch) -> None:
    api = OperatorApi(Configuration(host="http://127.0.0.1:1"), "file", "context")

    def get(path: str, **_: str) -> Json:
        api.clock_ahead = ahead  # by the answer's Date
        spec = {"holderIdentity": "pod-1", "leaseDurationSeconds": 15, "renewTime": NOW.isoformat()}
        return {"metadata": {}, "spec": spec}

    monkeypatch.setattr(api, "get", get)

    assert leader(api, "ebbtide", NOW - ahead) == "pod-1"
    assert leader(api, "ebbtide", NOW - ahead + timedelta(seconds=16)) == ""
