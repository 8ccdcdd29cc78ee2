"""Who leads, by a Lease whose holder, server and reader have clocks that differ."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kubernetes.client import Configuration

from controllers.adapters.kube_api import Json
from ebbtide.operate.api import OperatorApi, leader, lease_holder

NOW = datetime(2026, 11, 20, 15, tzinfo=UTC)  # by the API server
HALF_HOUR = timedelta(minutes=30)


def lease(renewed: datetime, written: datetime | None) -> Json:
    """Held for 15 s: `renewed` by the holder's clock, `written` by the API server's."""
    fields = [] if written is None else [{"manager": "x"}, {"manager": "y", "time": written.isoformat()}]
    spec: Json = {"holderIdentity": "pod-1", "leaseDurationSeconds": 15, "renewTime": renewed.isoformat()}
    return {"metadata": {"managedFields": fields}, "spec": spec}


@pytest.mark.parametrize("off", [-HALF_HOUR, timedelta(), HALF_HOUR])
def test_a_leader_lives_while_the_api_server_stores_its_renewals_whatever_its_clock_says(off: timedelta) -> None:
    for ago, holder in ((timedelta(seconds=15), "pod-1"), (timedelta(seconds=16), "")):
        assert lease_holder(lease(NOW - ago + off, NOW - ago), NOW) == holder


def test_without_the_servers_dates_the_holders_count() -> None:
    assert lease_holder(lease(NOW - timedelta(seconds=15), None), NOW) == "pod-1"
    assert lease_holder(lease(NOW - timedelta(seconds=16), None), NOW) == ""


@pytest.mark.parametrize("ahead", [-HALF_HOUR, HALF_HOUR])
def test_this_machines_clock_is_corrected_by_the_servers(ahead: timedelta, monkeypatch: pytest.MonkeyPatch) -> None:
    api = OperatorApi(Configuration(host="http://127.0.0.1:1"), "file", "context")

    def get(path: str, **_: str) -> dict[str, Any]:
        api.clock_ahead = ahead  # of the answer's date
        return lease(NOW, NOW)

    monkeypatch.setattr(api, "get", get)

    assert leader(api, "ebbtide", NOW - ahead) == "pod-1"
    assert leader(api, "ebbtide", NOW - ahead + timedelta(seconds=16)) == ""
