"""The demo with servers that do not end their requests: it tells how many it lost."""

from dataclasses import replace

import pytest

from ebbtide.demo import serving
from ebbtide.demo.load import LoadStage
from ebbtide.demo.model_server import OnSigterm
from ebbtide.demo.served_pods import Ending
from ebbtide.demo.serving import run_serving

pytestmark = pytest.mark.serving


def test_servers_that_exit_at_once_lose_requests_and_the_demo_tells_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "STRETCHES", (LoadStage(seconds=4, rate=60), LoadStage(seconds=7, rate=20)))
    # Each of those that go, holds one request or more.
    monkeypatch.setattr(serving, "TARGET", 6)
    monkeypatch.setattr(
        serving, "SERVER", replace(serving.SERVER, on_sigterm=OnSigterm.EXIT, service=0.5, concurrency=99)
    )
    monkeypatch.setattr(serving, "ENDING", Ending(pre_stop=0, grace=10))

    served = run_serving(lambda _: None)

    assert served.lost == sum(served.reasons.values()) > 0
    assert served.facts()["requests lost"].startswith(f"{served.lost} (status 503: ")
