"""How a worker of RQ names its own handlers of signals in its report, by which `safeStop` is judged."""

from typing import Any

import pytest

from ebbtide.jobs.rq_worker import SafeWorker, _own_handler
from ebbtide.jobs.stop_signals import COLD, WARM

WORKER = object.__new__(SafeWorker)


@pytest.mark.parametrize(
    ("handler", "name"),
    [
        (WORKER.request_stop, WARM),
        (WORKER.request_force_stop, COLD),
        (WORKER.heartbeat, None),
        (print, None),
    ],
)
def test_a_handler_ends_the_job_or_waits_for_it_or_is_not_the_workers(handler: Any, name: str | None) -> None:
    assert _own_handler(handler) == name
