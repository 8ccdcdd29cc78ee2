"""What Prometheus records of the nodes that the exporter tells of, and how long they lived by the API server."""

import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast
from urllib.parse import quote

from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import KubeApi
from ebbtide.demo.embedded import free_port
from ebbtide.lab.ledger.lives import clipped, lives_of
from ebbtide.lab.ledger.month import Month
from ebbtide.lab.ledger.reading import MonthReader
from ebbtide.monitoring.client import Prometheus
from ebbtide.monitoring.links import HttpLink
from ebbtide.monitoring.rules import Metrics
from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.exporter import ExporterConfig
from ebbtide.vocabulary.labels import NAMESPACE
from tests.builders.control_plane import eventually
from tests.builders.monitoring.servers import CUSTOMER, PROMETHEUS, asked, prometheus

_LOOK = 0.1  # seconds between two looks at the nodes
_INFO = f'ebbtide_node_info{{customer="{CUSTOMER["replacement"]}"}}'


@dataclass(frozen=True, kw_only=True)
class _Night:
    """What the reader needs of a month."""

    begin: datetime
    end: datetime
    name: str = "the night"


class RecordedNodes:
    """From its start to `stop`: seconds that nodes were there, counted three times."""

    def __init__(self, api: KubeApi, prometheus: str) -> None:
        self._api, self._prometheus, self._over = api, prometheus, threading.Event()
        self.lived, self.recorded, self.in_ledger = timedelta(), timedelta(), timedelta()
        eventually(self._known, what="Prometheus to know the nodes")
        self._began, self._begin = time.monotonic(), datetime.now(UTC)
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """At once: of what comes later nothing counts."""
        self._over.set()
        self._thread.join()
        length = int((time.monotonic() - self._began) * 1000)
        (found,) = self._ask(f"sum(count_over_time({_INFO}[{length}ms]))")
        self.recorded = timedelta(seconds=float(found["value"][1]))  # a sample a second
        self.in_ledger = self._lives(self._begin, self._begin + timedelta(milliseconds=length))

    def _lives(self, begin: datetime, end: datetime) -> timedelta:
        """As the ledger reads them, with a reading a second."""
        customer = CUSTOMER["replacement"]
        source = Prometheus(HttpLink(self._prometheus), customer, lambda: datetime.now(UTC))
        night = cast("Month", _Night(begin=begin, end=end))
        reader = MonthReader(source, Metrics(customer), night, end=end, step=timedelta(seconds=1))
        lives = clipped(lives_of(reader.sightings()), (begin.timestamp(), end.timestamp()))
        return timedelta(seconds=sum(life.end - life.begin for life in lives))

    def _known(self) -> bool:
        nodes = self._api.get("/api/v1/nodes")["items"]
        return [float(it["value"][1]) for it in self._ask(f"count({_INFO})")] == [len(nodes)]

    def _look(self) -> None:
        before = time.monotonic()
        while not self._over.wait(_LOOK):
            there = len(self._api.get("/api/v1/nodes")["items"])
            now = time.monotonic()
            self.lived += there * timedelta(seconds=now - before)
            before = now

    def _ask(self, expression: str) -> list[dict[str, list[str]]]:
        return asked(self._prometheus, f"query?query={quote(expression)}")["result"]


@contextmanager
def recorded_nodes(plane: ControlPlane, folder: Path) -> Generator[RecordedNodes | None]:
    """None where this machine has no Prometheus."""
    if PROMETHEUS is None:
        yield None
        return
    document, address = folder / "exporter.json", f"127.0.0.1:{free_port()}"
    document.write_text(dump(ExporterConfig(namespace=NAMESPACE)), encoding="utf-8")
    command = [sys.executable, "-m", "controllers.exporter", "--config", str(document), "--listen", address]
    with ExitStack() as stack, (folder / "exporter.log").open("wb") as log:
        exporter = subprocess.Popen([*command, "--kubeconfig", str(plane.kubeconfig)], stdout=log, stderr=log)
        stack.callback(exporter.wait)
        stack.callback(exporter.kill)
        yield RecordedNodes(plane.api, stack.enter_context(prometheus(folder, {"exporter": address})))
