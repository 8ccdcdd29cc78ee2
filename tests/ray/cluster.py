"""Ray's head and workers as processes of this machine, each on a loopback address of its own.

With `--block` a node's processes stay in the group of its `ray start`, which stands for the pod: SIGTERM to it is a
pod told to stop, SIGKILL to the group a machine that is gone.

Ray makes the machine's own address out of 127.0.0.1; it leaves others of 127/8 as they are.
"""

import itertools
import json
import os
import random
import secrets
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import Any, Self

from tests.paths import ROOT

PROGRAMS = ROOT / ".venvs" / "ray" / "bin"
HOW = "needs Ray in .venvs/ray: `make test-ray`"
VERSION = "2.60.0"
IMAGE = (ROOT / "tests" / "ray", ROOT / "examples" / "ray-dataset")  # where jobs' functions are
STORE = 100_000_000  # bytes: little above the least that Ray takes
READY = "Ray runtime started"
STARTS_WITHIN = 90.0  # seconds
TRIES = 3  # a raylet gives up on its agents after 15 s, which a busy machine may need

_HEAD = 51 * "f" + 5 * "0"
_AUTOSCALING = {
    "AUTOSCALER_UPDATE_INTERVAL_S": "1",
    "RAY_CLOUD_INSTANCE_ID": _HEAD,
    "RAY_FAKE_CLUSTER": "1",
    "RAY_OVERRIDE_NODE_ID_FOR_TESTING": _HEAD,
    "RAY_enable_autoscaler_v2": "1",
}

_subnets = itertools.count(os.getpid())


class DidNotStart(RuntimeError):
    """The end of the node's log."""


@dataclass(frozen=True)
class Node:
    """One `ray start`."""

    process: "subprocess.Popen[bytes]"
    ip: str
    log: Path

    def told_to_stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def gone(self) -> None:
        """As if its machine were."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def megabytes(self) -> float:
        """MiB of its processes; what they share counts once (PSS)."""
        return sum(_rollup(pid, "Pss:") for pid in _group(self.process.pid))


@dataclass
class RayCluster:
    """A head without CPUs, and workers that are started by hand, or in `groups` by Ray's autoscaler v2.

    `groups`: of each the resources of a node, at most three nodes, which go when idle for `idle_minutes`. Ray's own
    provider for tests starts them as processes of the head's group.
    """

    dashboard: bool = False
    groups: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    idle_minutes: float = 0.1
    places: Sequence[Path] = (ROOT, *IMAGE)  # where its nodes find modules
    nodes: list[Node] = field(default_factory=list[Node])

    def __post_init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="ray-"))  # short: sockets' paths have 107 bytes
        self.token = self.home / "token"
        self.token.write_text(secrets.token_hex(32))
        subnet = next(_subnets)
        self._net = f"127.{1 + subnet // 250 % 250}.{1 + subnet % 250}"
        self._ips = itertools.count(2)
        self.port, self.client_port = free_port(), free_port()
        self._ip_of_head = self.next_ip()

    def __enter__(self) -> Self:
        try:
            self.head = self._started(self._head_options(), _AUTOSCALING if self.groups else {})
            if not self.groups:  # whose nodes are started by the head, with its own options
                self._no_folder_of_the_heads()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in reversed(self.nodes):
            node.gone()
        for pid in _that_name(self.home):  # the raylet of a driver that a failing test left behind
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        rmtree(self.home, ignore_errors=True)

    def _no_folder_of_the_heads(self) -> None:
        """Where the head spills to is a volume of its pod: Ray tells every node of it, and none but the head has it."""
        (spilled,) = (self.home / "0").glob("spilled*")
        spilled.rename(self.home / "spilled-by-head")
        spilled.touch()

    def new_head(self) -> None:
        """At the same address, with nothing of the one before."""
        self.head.gone()
        self.head = self._started(self._head_options(), {})

    @property
    def address(self) -> str:
        return f"{self.head.ip}:{self.port}"

    @property
    def client_address(self) -> str:
        """Ray Client's: its driver is a process beside the head."""
        return f"ray://{self.head.ip}:{self.client_port}"

    def environment(self, **more: str) -> dict[str, str]:
        """For every process of this cluster and its drivers: they share an image, and with it the jobs' functions."""
        return {
            **{name: text for name, text in os.environ.items() if not name.startswith("RAY_")},
            "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(map(str, self.places)),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self.token),
            "RAY_USAGE_STATS_ENABLED": "0",
            # The head forks client servers from a process with gRPC threads. gRPC's fork handlers abort some of them.
            "GRPC_ENABLE_FORK_SUPPORT": "0",
            **more,
        }

    def told(self, **other: str) -> str:
        """What the stack tells a pool's workers."""
        return json.dumps({"cluster": "flow", "address": self.address, "version": VERSION, **other})

    def driver_environment(self, **more: str) -> dict[str, str]:
        return self.environment(**{"EBBTIDE_RAY": self.told(), "TMPDIR": str(self.home), **more})

    def next_ip(self) -> str:
        return f"{self._net}.{next(self._ips)}"

    def worker(self, *, cpus: int = 2, gpus: int = 0, drain: float = 60.0, **resources: float) -> Node:
        """`drain`: seconds that a worker told to stop gives to its tasks."""
        options = ["--address", self.address, "--num-cpus", str(cpus), "--num-gpus", str(gpus)]
        if resources:
            options += ["--resources", json.dumps(resources)]
        return self._started(options, {"RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": str(drain)})

    def _head_options(self) -> list[str]:
        ip = self._ip_of_head
        return [
            *("--head", "--num-cpus", "0", "--port", str(self.port), "--ray-client-server-port", str(self.client_port)),
            *("--include-dashboard", str(self.dashboard).lower(), "--dashboard-host", ip),
            *(("--autoscaling-config", str(self._autoscaling(ip))) if self.groups else ()),
        ]

    def _autoscaling(self, ip: str) -> Path:
        groups: dict[str, tuple[int, Mapping[str, int]]] = {"ray.head.default": (0, {})}
        groups |= {name: (3, resources) for name, resources in self.groups.items()}
        config: dict[str, Any] = {
            "cluster_name": "flow",
            "max_workers": 8,
            "provider": {
                "type": "external",
                "module": "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider",
                "launch_multiple": True,
                "head_node_id": _HEAD,
                "gcs_address": f"{ip}:{self.port}",
            },
            "available_node_types": {
                name: {"node_config": {}, "max_workers": most, "resources": resources}
                for name, (most, resources) in groups.items()
            },
            "head_node_type": "ray.head.default",
            "idle_timeout_minutes": self.idle_minutes,
            **{
                key: []
                for key in ("cluster_synced_files", "setup_commands", "head_setup_commands", "worker_setup_commands")
            },
        }
        file = self.home / "autoscaling.json"
        file.write_text(json.dumps(config))
        return file

    def _started(self, options: Sequence[str], variables: Mapping[str, str]) -> Node:
        for left in reversed(range(TRIES)):
            ip = self._ip_of_head if "--head" in options else self.next_ip()
            node = self._start(ip, options, variables)
            if _comes_up(node):
                return node
            node.gone()
            if not left:
                raise DidNotStart(node.log.read_text()[-2000:])
        raise AssertionError

    def _start(self, ip: str, options: Sequence[str], variables: Mapping[str, str]) -> Node:
        number = len(self.nodes)
        log = self.home / f"{number}.log"
        always = [
            *("--block", "--node-ip-address", ip, "--temp-dir", str(self.home / str(number))),
            *("--object-store-memory", str(STORE), "--min-worker-port", "0", "--max-worker-port", "0"),
            *("--object-spilling-directory", str(self.home / str(number) / "spilled")),
            "--disable-usage-stats",
        ]
        with log.open("wb") as out:
            process = subprocess.Popen(
                [str(PROGRAMS / "ray"), "start", *options, *always],
                env=self.environment(**variables),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        node = Node(process, ip, log)
        self.nodes.append(node)
        return node


def free_port() -> int:
    """Below those that the system gives away by itself: between the look and the start many processes take one."""
    while True:
        port = random.randrange(20_000, 32_000)
        with suppress(OSError), socket.socket() as taken:
            taken.bind(("", port))
            return port


def _that_name(folder: Path) -> Iterator[int]:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str(folder).encode() in (process / "cmdline").read_bytes():
                yield int(process.name)


def _comes_up(node: Node) -> bool:
    until = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < until and node.process.poll() is None:
        if READY in node.log.read_text():
            return True
        time.sleep(0.05)
    return False


def _group(leader: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "-g", str(leader)], capture_output=True, text=True, check=False)
    return [int(pid) for pid in found.stdout.split()]


def anonymous_megabytes(pids: Iterable[int]) -> float:
    """MiB that no file backs."""
    return sum(_rollup(pid, "Pss_Anon:") for pid in pids)


def _rollup(pid: int, what: str) -> float:
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(what)).split()[1]) / 1024
    return 0.0
