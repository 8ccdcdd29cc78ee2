"""A Ray cluster whose head sometimes fails to start a client server. `FakeRay` stands in for the module."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from ebbtide.lab.sweep import cluster
from ebbtide.lab.sweep.cluster import TRIES, NoCluster

ADDRESS = "ray://127.0.0.1:10001"
ABORTED = ConnectionAbortedError(
    """Initialization failure from server:
Traceback (most recent call last):
  File "/ray/util/client/server/proxier.py", line 772, in Datapath
    raise RuntimeError(
RuntimeError: Starting Ray client server failed. See ray_client_server_23001.err for detailed logs.
"""
)
ZOMBIE = ConnectionAbortedError(
    """Initialization failure from server:
Traceback (most recent call last):
  File "/ray/thirdparty_files/psutil/_pslinux.py", line 1648, in _raise_if_zombie
    raise ZombieProcess(self.pid, self._name, self._ppid)
psutil.ZombieProcess: PID still exists but it's a zombie (pid=22774)
"""
)
OTHER_VERSION = RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.59.0\n    Python: 3.11.2\n")


@dataclass
class FakeRay:
    """`ray.init` raises these errors, one per call, and then connects."""

    errors: Sequence[Exception]
    __version__: str = "2.60.0"
    calls: int = 0

    def init(self, address: str, **_: object) -> None:
        assert address == ADDRESS
        self.calls += 1
        if self.calls <= len(self.errors):
            raise self.errors[self.calls - 1]


def connect(ray: FakeRay) -> str:
    """Return the message of a failed connection, or an empty string."""
    try:
        cluster._connect(ray, ADDRESS)  # pyright: ignore[reportPrivateUsage] -- the public function imports the real Ray
    except NoCluster as error:
        return str(error)
    return ""


def test_a_client_server_that_aborts_is_started_again() -> None:
    ray = FakeRay([ABORTED] * (TRIES - 1))

    assert not connect(ray)
    assert ray.calls == TRIES


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            ABORTED,
            "RuntimeError: Starting Ray client server failed. See ray_client_server_23001.err for detailed logs.",
        ),
        (ZOMBIE, "psutil.ZombieProcess: PID still exists but it's a zombie (pid=22774)"),
    ],
    ids=["aborted", "zombie"],
)
def test_a_head_without_a_client_server_gets_its_reason_log_and_versions_in_the_message(
    error: ConnectionAbortedError, reason: str
) -> None:
    ray = FakeRay([error] * (TRIES + 1))

    assert connect(ray) == (
        f"--ray {ADDRESS}: wanted a cluster of Ray 2.60.0, found that its head set up no client server in {TRIES} "
        f"attempts (last error: ConnectionAbortedError: {reason}); see ray_client_server*.err in "
        "/tmp/ray/session_latest/logs on the head, check that the head has Ray 2.60.0 and Python "
        f"{sys.version_info.major}.{sys.version_info.minor}, and run the command again"
    )
    assert ray.calls == TRIES


def test_another_version_ends_the_attempts_even_after_an_aborted_client_server() -> None:
    ray = FakeRay([ABORTED, OTHER_VERSION])

    assert connect(ray) == (
        f"--ray {ADDRESS}: wanted a cluster of Ray 2.60.0, found RuntimeError: Version mismatch: The cluster was "
        "started with: Ray: 2.59.0 Python: 3.11.2"
    )
    assert ray.calls == 2


def test_a_refused_connection_mentions_the_token() -> None:
    ray = FakeRay([ConnectionError("ray client connection timeout")])

    assert connect(ray).endswith(f"found ConnectionError: ray client connection timeout; {cluster.TOKEN}")
