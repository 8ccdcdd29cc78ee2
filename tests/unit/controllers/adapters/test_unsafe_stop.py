"""Why a worker with a safe stop does not stop safely, by what it reports about its signals."""

from typing import Any

import pytest

from controllers.adapters.worker_reports import unsafe_stop

STOP = "safeStop is declared, and the SIGTERM of a stopping worker"


def reported(handler: str, **more: str) -> dict[str, Any]:
    return {"signals": {"SIGTERM": handler, "SIGQUIT": "cold"}, **more}


@pytest.mark.parametrize(
    ("report", "lines"),
    [
        ({}, []),
        (reported("warm"), []),
        (reported("cold"), [f"{STOP} cancels its job"]),
        (reported("cold", remapped="SIGQUIT"), [f"{STOP} cancels its job (REMAP_SIGTERM=SIGQUIT)"]),
        (reported("default"), [f"{STOP} kills it with its job"]),
        (reported("ignored"), [f"{STOP} is ignored, so it is killed when its grace period ends"]),
        (
            reported("warm", stop_signal="SIGQUIT"),
            [f"{STOP.replace('SIGTERM', 'SIGQUIT that dumb-init makes of SIGTERM')} cancels its job"],
        ),
    ],
)
def test_each_handler_that_loses_the_job_is_one_line(report: dict[str, Any], lines: list[str]) -> None:
    assert [*unsafe_stop(report)] == lines


def test_a_shell_that_keeps_the_signal_is_named_though_the_worker_would_wait() -> None:
    (line,) = unsafe_stop(reported("warm", shell="sh"))

    assert line.startswith("safeStop is declared, and sh gets the SIGTERM and passes it on to no worker")
