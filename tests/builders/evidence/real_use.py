"""Real processes told as containers: their CPU and memory, from /proc, in the words of cAdvisor and of the exporter."""

import os
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from controllers.adapters.metrics import FORMAT
from controllers.adapters.server import Page, Server

PROGRAMS: Mapping[str, str] = {
    "leak": "import time\nheld = []\nwhile True:\n    held.append(bytearray(2**20)); time.sleep(0.1)",
    "burst": (
        "import time\nwhile True:\n    until = time.process_time() + 0.3\n"
        "    while time.process_time() < until: pass\n    time.sleep(0.7)"
    ),
    "idle": "import time\nwhile True: time.sleep(60)",
}
_TICKS = os.sysconf("SC_CLK_TCK")


class RealUse:
    """Each process is the only pod of a flexible workload in the namespace `ebbtide`."""

    def __init__(self, pids: Mapping[str, int], asked: Mapping[str, tuple[float, int]]) -> None:
        self._pids, self._asked = pids, asked  # cores and MiB that each asks for
        self._server = Server("127.0.0.1", 0, {"/metrics": self._page})
        self.address = f"127.0.0.1:{self._server.server_port}"

    def _page(self) -> Page:
        lines = ["ebbtide_leader 1", 'ebbtide_node_info{node="n1",group="flexible"} 1']
        for name, pid in self._pids.items():
            lines += self._lines(name, pid)
        return 200, FORMAT, "".join(f"{line}\n" for line in lines)

    def _lines(self, name: str, pid: int) -> Iterator[str]:
        pod = f'namespace="ebbtide",pod="{name}-7d9f8b6c5d-x2v4z"'
        cores, mebibytes = self._asked[name]
        own = f'{pod},node="n1",container="{name}"'
        yield f'ebbtide_pod_info{{{pod},node="n1",workload="{name}",category="flexible"}} 1'
        yield f"ebbtide_pod_requested_cpu_cores{{{pod}}} {cores}"
        yield f"ebbtide_pod_requested_memory_bytes{{{pod}}} {mebibytes * 2**20}"
        yield f'ebbtide_container_oom_kills_total{{workload="{name}"}} 0'
        yield f"container_cpu_usage_seconds_total{{{own}}} {cpu_seconds(pid)}"
        yield f"container_memory_working_set_bytes{{{own}}} {resident(pid)}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def cpu_seconds(pid: int) -> float:
    """In user mode and in the kernel. Source: proc(5), stat, fields 14 and 15."""
    after_the_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_the_name[11]) + int(after_the_name[12])) / _TICKS


def resident(pid: int) -> int:
    """Bytes. Source: proc(5), statm, the second field."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def processes() -> Generator[Mapping[str, int]]:
    started = {name: subprocess.Popen([sys.executable, "-c", text]) for name, text in PROGRAMS.items()}
    try:
        yield {name: process.pid for name, process in started.items()}
    finally:
        for process in started.values():
            process.kill()
            process.wait()
