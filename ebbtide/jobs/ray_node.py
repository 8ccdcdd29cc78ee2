"""The raylet next to a driver, and the settings of the Ray cluster that a pool's workers drive.

The raylet has no CPUs, so it runs no work, and ends with the process that started it. It keeps the driver in this pod:
as a client of the head, each driver would be a process there.

The settings are one variable, from the pool's `ray:`. The token is not in it: Ray itself reads `RAY_AUTH_MODE` and
`RAY_AUTH_TOKEN_PATH`.
"""

import json
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any, cast

VARIABLE = "EBBTIDE_RAY"
_EXAMPLE = '{"cluster": "flow", "address": "flow-head.ebbtide-ray:6379", "version": "2.60.0"}'
_REQUIRED = ("cluster", "address", "version")


class RayError(Exception):
    """Fails the job with this one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaySettings:
    cluster: str
    address: str  # host:port of the head's GCS
    version: str  # of Ray, in the cluster's image
    image: str  # of this pod, by digest if the stack file has one; else ""

    @property
    def host_and_port(self) -> tuple[str, int]:
        host, _, port = self.address.rpartition(":")
        return host, int(port)


def ray_settings(environment: Mapping[str, str] = os.environ) -> RaySettings:
    text = environment.get(VARIABLE)
    if text is None:
        raise RayError(f"no {VARIABLE}: the pool's section of the stack file has no ray (for example ray: flow)")
    try:
        document: Any = json.loads(text)
    except ValueError:
        document = None
    fields = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    wrong = [key for key in _REQUIRED if not isinstance(fields.get(key), str)]
    if not wrong and not str(fields["address"]).rpartition(":")[2].isdecimal():
        wrong = ["address as host:port"]
    if wrong:
        raise RayError(f"{VARIABLE}: found {text!r}, wanted {', '.join(wrong)}, for example {_EXAMPLE}")
    required = {key: str(fields[key]) for key in _REQUIRED}
    return RaySettings(**required, image=str(fields.get("image", "")))


OBJECT_STORE = 200 << 20  # bytes for the driver's objects; beyond that Ray writes to disk
LEAVES_WITHIN = 10.0  # seconds that the raylet has to sign off
ASK_WITHIN = 20.0  # seconds; without a listener, Ray itself waits longer than two minutes
STARTS_WITHIN = 90.0  # seconds

_READY = "Ray runtime started"
_PAUSE = 0.1  # seconds between two checks
_WATCH = 1.0  # seconds between two checks of a running driver's raylet
_ERROR = re.compile(r"^[\w.]*(Error|Exception)\b")
_CHECK = re.compile(r" C \d+ \d+\] ")  # in Ray's own log: why it aborted
_log = logging.getLogger("ebbtide.ray")
# Gets SIGTERM when the thread that started it ends, however that ends. Its process group is not the driver's, so that
# Ray can sign off although a worker kills the group of its job.
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
    """Check the head. Raises `HeadAway`, or `RayError` for a token that is missing or refused."""
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
    """Yield the raylet's session folder. Raises as `ask`, and `RayError` for another version of Ray or Python."""
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
    """End this process with its raylet, as Ray does when it notices: a driver without one waits for its tasks forever.

    Observed when a new head has the address of a lost one, and the raylet gives up at once.
    """
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
        # Else Ray uses the head's folder, which this pod does not have.
        *("--object-spilling-directory", str(folder / "spilled")),
        # Any ports, since several drivers may share an address; and no worker runs here whose log would be collected.
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


def _why(settings: RaySettings, output: str) -> Exception:
    """Read the reason from Ray's traceback."""
    if "AuthenticationError" in output:
        return _refused(settings)
    versions = re.findall(r"Ray: (\S+)\s+Python: (\S+)", output.partition("Version mismatch")[2])
    if len(versions) == 2:
        (ray, python), (own_ray, own_python) = versions
        return RayError(
            f"Ray cluster {settings.cluster} at {settings.address} runs Ray {ray} on Python {python}, "
            f"and this image has Ray {own_ray} on Python {own_python}: both must be equal"
        )
    return HeadAway(_last_of(output, _ERROR))


def _last_of(output: str, pattern: "re.Pattern[str]") -> str:
    """Return the last line that matches, since Ray's two streams come in any order; else the last line."""
    lines = [line.strip() for line in reversed(output.splitlines()) if line.strip()]
    return next((line for line in lines if pattern.search(line)), next(iter(lines), "it says nothing"))[:300]


def _refused(settings: RaySettings) -> RayError:
    mode, path = (os.environ.get(name, "not set") for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH"))
    return RayError(
        f"Ray cluster {settings.cluster} at {settings.address} refuses the token: found RAY_AUTH_MODE {mode}, "
        f"RAY_AUTH_TOKEN_PATH {path}; wanted RAY_AUTH_MODE token and a file with the cluster's token"
    )
