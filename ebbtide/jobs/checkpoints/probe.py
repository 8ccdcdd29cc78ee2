"""Try a store as a job will use it, before a worker takes its first job: a wrong name must not fail every job.

It runs in a separate process, since a bucket's client has threads, which a worker that forks must not have.
"""

import logging
import subprocess
import sys
import time
from collections.abc import Callable
from uuid import uuid4

from ebbtide.jobs.checkpoints.errors import StoreError
from ebbtide.jobs.checkpoints.stores import Store

PROBES = ".probe"
TRY_EVERY = 15.0  # seconds
WITHIN = 120.0  # seconds that one try may take

_log = logging.getLogger("ebbtide.checkpoints")


def probe(store: Store) -> None:
    """Raise `StoreError` with the first operation that fails."""
    name = f"{PROBES}/{uuid4().hex}"
    if not store.create(name, b"probe"):
        raise StoreError(store.address, "a new random name is taken")
    if store.read(name) != b"probe" or store.size(name) != 5 or name not in store.names(PROBES):
        raise StoreError(store.address, "what was written is not what is read")
    if store.create(name, b"again"):
        raise StoreError(store.address, "it replaces what exists, so two attempts of one job could not be told apart")
    store.delete([name])
    if store.size(name) is not None:
        raise StoreError(store.address, "what was deleted is still there")


def await_store(stop: Callable[[], bool]) -> None:
    """Wait until the pool's store can be used, or `stop` returns True. Log one line when it cannot, and each minute."""
    logged_at = float("-inf")
    while not stop():
        problem = run("probe")
        if problem is None:
            return
        if time.monotonic() - logged_at >= 60:
            logged_at = time.monotonic()
            _log.error("no job is taken until checkpoints can be stored: %s", problem)
        again = time.monotonic() + TRY_EVERY
        while time.monotonic() < again and not stop():
            time.sleep(0.2)


def run(command: str) -> str | None:
    """Run `python -m ebbtide.jobs.checkpoints COMMAND`; return its error message, None if it succeeds."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "ebbtide.jobs.checkpoints", command],
            capture_output=True,
            text=True,
            timeout=WITHIN,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {WITHIN:.0f} s"
    return (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1] if done.returncode else None
