"""A raylet beside the driver: it has no CPUs, so it runs no work, and ends with the process that started it.

A driver needs one to be itself in this pod. As a client of the head it would be a process there, one for each driver.
"""

import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from ebbtide.jobs.ray_settings import RayError, RaySettings

OBJECT_STORE = 200 << 20  # bytes for what the driver puts and gets; beyond that Ray writes to disk
LEAVES_WITHIN = 10.0  # seconds that the raylet has to sign off
ASK_WITHIN = 20.0  # seconds; while nobody listens, Ray's own wait is longer than two minutes
STARTS_WITHIN = 90.0  # seconds

_READY = "Ray runtime started"
_PAUSE = 0.1  # seconds between two looks
_WATCH = 1.0  # seconds between two looks at the raylet of a running driver
_ERROR = re.compile(r"^[\w.]*(Error|Exception)\b")
_CHECK = re.compile(r" C \d+ \d+\] ")  # of Ray's own log: what it ended itself for
_log = logging.getLogger("ebbtide.ray")
# Told to stop when the thread that started it ends, however that ends: its group is not the driver's, so that Ray can
# sign off although a worker kills the group of its job.
_ENDS_WITH_ITS_PARENT = """
import ctypes, os, signal, sys
parent = int(sys.argv.pop(1))
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() != parent:
    sys.exit(1)
from ray.scripts.scripts import main
sys.argv[0] = "ray"
main()
"""


class HeadAway(Exception):
    """The head cannot be used now; it may sleep or restart."""


def ask(settings: RaySettings) -> None:
    """Raises `HeadAway`, or `RayError` for a token that is missing or that the head refuses."""
    path = os.environ.get("RAY_AUTH_TOKEN_PATH")
    if path is not None and not (Path(path).is_file() and Path(path).stat().st_size):
        raise _refused(settings)
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--skip-version-check"]
    try:
        done = subprocess.run(
            [*command, "--address", settings.address], capture_output=True, text=True, timeout=ASK_WITHIN, check=False
        )
    except subprocess.TimeoutExpired:
        raise HeadAway(f"no answer from {settings.address} within {ASK_WITHIN:.0f} s") from None
    if done.returncode:
        raise _why(settings, done.stderr)


@contextmanager
def node_beside(settings: RaySettings, object_store: int) -> Generator[Path]:
    """The folder of its session. Raises as `ask`, and `RayError` for another version of Ray or Python."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        log = Path(folder, "log")
        process = _start(settings, object_store, Path(folder), log)
        leaving = Event()
        try:
            _await(settings, process, log)
            Thread(target=_end_with, args=(process, leaving, settings, log), name="raylet", daemon=True).start()
            yield Path(folder)
        finally:
            leaving.set()
            _stop(process)


def _end_with(process: "subprocess.Popen[bytes]", leaving: Event, settings: RaySettings, log: Path) -> None:
    """Ends this process with its raylet, as Ray does where it notices: a driver without one waits for its tasks for
    ever. Seen when a new head stands at the address of one that was lost, and the raylet gives up at once."""
    while not leaving.wait(_WATCH):
        if process.poll() is not None:
            why = _last_of(_text(log), _CHECK)
            _log.error("Ray cluster %s: the raylet beside this driver has ended: %s", settings.cluster, why)
            os._exit(1)


def _start(settings: RaySettings, object_store: int, folder: Path, log: Path) -> "subprocess.Popen[bytes]":
    ray = _options(settings, object_store, folder)
    with log.open("wb") as out:
        return subprocess.Popen(
            [sys.executable, "-c", _ENDS_WITH_ITS_PARENT, str(os.getpid()), *ray],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _options(settings: RaySettings, object_store: int, folder: Path) -> Sequence[str]:
    return (
        *("start", "--address", settings.address, "--block", "--temp-dir", str(folder), "--disable-usage-stats"),
        *("--num-cpus", "0", "--num-gpus", "0", "--object-store-memory", str(object_store)),
        # Else Ray takes the head's folder, which this pod has not.
        *("--object-spilling-directory", str(folder / "spilled")),
        # Any ports, since several drivers may share an address; and nobody works here whose log would be collected.
        *("--min-worker-port", "0", "--max-worker-port", "0", "--dashboard-agent-listen-port", "0"),
        *("--include-log-monitor", "false"),
    )


def _await(settings: RaySettings, process: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + STARTS_WITHIN
    while _READY not in _text(log):
        if process.poll() is not None:
            raise _why(settings, _text(log))
        if time.monotonic() > until:
            raise HeadAway(f"the raylet beside the driver has not started within {STARTS_WITHIN:.0f} s")
        time.sleep(_PAUSE)


def _text(log: Path) -> str:
    return log.read_text(errors="replace")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(LEAVES_WITHIN)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _why(settings: RaySettings, said: str) -> Exception:
    """Ray says it in a traceback."""
    if "AuthenticationError" in said:
        return _refused(settings)
    versions = re.findall(r"Ray: (\S+)\s+Python: (\S+)", said.partition("Version mismatch")[2])
    if len(versions) == 2:
        (ray, python), (own_ray, own_python) = versions
        return RayError(
            f"Ray cluster {settings.cluster} at {settings.address} runs Ray {ray} on Python {python}, "
            f"and this image has Ray {own_ray} on Python {own_python}: both must be equal"
        )
    return HeadAway(_last_of(said, _ERROR))


def _last_of(said: str, wanted: "re.Pattern[str]") -> str:
    """The last line of this form, since what Ray writes to its two streams comes in any order; else the last one."""
    lines = [line.strip() for line in reversed(said.splitlines()) if line.strip()]
    return next((line for line in lines if wanted.search(line)), next(iter(lines), "it says nothing"))[:300]


def _refused(settings: RaySettings) -> RayError:
    mode, path = (os.environ.get(name, "not set") for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH"))
    return RayError(
        f"Ray cluster {settings.cluster} at {settings.address} refuses the token: found RAY_AUTH_MODE {mode}, "
        f"RAY_AUTH_TOKEN_PATH {path}; wanted RAY_AUTH_MODE token and a file with the cluster's token"
    )
