"""Advice on sizes from three real processes that leak, burst and idle, under a real Prometheus.

Seconds stand for days: three of them are a day, and seven days have to be there. Nothing is made up but the names: CPU
and memory are what the kernel counts. It stands in this tier for its half minute, and needs no control plane.
"""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ebbtide.lab.advice.sizes.advice import SizesAdvice, advise
from ebbtide.lab.advice.sizes.containers import containers
from ebbtide.lab.advice.sizes.evidence import Evidence
from ebbtide.lab.advice.sizes.reading import read_uses
from ebbtide.lab.advice.sizes.rules import ResourceName, SizeVerdict
from ebbtide.monitoring.client import Prometheus
from ebbtide.monitoring.links import HttpLink
from ebbtide.settings.file.document import read_document
from ebbtide.settings.patch import patched
from tests.builders.evidence.real_use import RealUse, processes, resident
from tests.builders.monitoring.servers import needs_prometheus, prometheus
from tests.builders.settings import loaded, shortest

pytestmark = pytest.mark.control_plane

DAY = timedelta(seconds=3)
EVIDENCE = Evidence(days=9, least=7, day=DAY, step=DAY, pod_step=DAY)
ASKED = {"leak": (0.5, 128), "burst": (0.1, 2048), "idle": (2.0, 4096)}
STACK = """\
ebbtide:workloads: # three of them
  leak: { category: flexible, image: "leak:1", cpu: 500m, memory: 128Mi } # grows
  burst: { category: flexible, image: "burst:1", cpu: 100m, memory: 2Gi }
  idle: { category: flexible, image: "idle:1", cpu: 2, memory: 4Gi }
"""
FILE = "Pulumi.acme.yaml"


@needs_prometheus
def test_what_leaks_and_bursts_gets_more_what_idles_gets_less_and_then_nothing_is_to_do(tmp_path: Path) -> None:
    text = shortest(more=STACK)
    with processes() as pids:
        told = RealUse(pids, ASKED)
        try:
            with prometheus(tmp_path, {"exporter": told.address}) as url:
                time.sleep((EVIDENCE.days * DAY).total_seconds() + 3)
                until, leaked = datetime.now(UTC), resident(pids["leak"])

                first = advice(text, url, until, tmp_path)
                second = advice(patched(text, FILE, first.changes), url, until, tmp_path)
        finally:
            told.close()

    verdicts = {row.container.place.workload: row.verdicts for row in first.rows}
    leak, burst, idle = (verdicts[name] for name in ASKED)
    assert seen(leak[ResourceName.MEMORY]) <= leaked / 2**20 < seen(leak[ResourceName.MEMORY]) * 1.5
    assert leak[ResourceName.MEMORY].to > seen(leak[ResourceName.MEMORY]) > 128
    assert "higher every day: look for a leak" in leak[ResourceName.MEMORY].reason
    assert 100 < seen(burst[ResourceName.CPU]) < burst[ResourceName.CPU].to
    assert burst[ResourceName.MEMORY].lowers
    assert (idle[ResourceName.CPU].to, idle[ResourceName.MEMORY].to) == (10, 32)
    assert {it.reason for it in verdicts["train"].values()} == {"not enough evidence yet: 0 days of 7"}
    assert "# grows" in patched(text, FILE, first.changes)
    assert second.changes == ()


def advice(text: str, url: str, until: datetime, folder: Path) -> SizesAdvice:
    settings = loaded(text, folder)
    asking = Prometheus(HttpLink(url), "acme", lambda: until)
    recorded = read_uses(asking, "acme", containers(settings), until, EVIDENCE)
    return advise(settings, read_document(text, FILE).config, recorded, EVIDENCE)


def seen(verdict: SizeVerdict) -> float:
    assert verdict.used is not None
    return verdict.used
