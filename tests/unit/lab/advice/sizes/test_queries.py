"""Queries to Prometheus: valid expressions over metrics that are scraped and kept."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from components.monitoring.scraping import CADVISOR_KEPT, GPU_KEPT
from ebbtide.lab.advice.sizes.queries import Questions, namespaces
from ebbtide.monitoring.rules import Metrics
from tests.builders.monitoring.day import needs_promtool
from tests.builders.monitoring.promql import uses
from tests.unit.monitoring.test_serving_queries import asked, growing

ASK = Questions(Metrics("acme"), namespaces(["ebbtide-workers", "ebbtide", "ebbtide"]), timedelta(minutes=5))


def questions() -> Iterator[str]:
    yield from (ASK.cpu(), ASK.memory(), ASK.throttled(), ASK.kills(), ASK.placed())
    yield from (ASK.gpu_busy(), ASK.gpu_memory(), ASK.gpus_used())
    for what in ("cpu_cores", "memory_bytes"):
        yield ASK.requested(what)
    for what in ("cpu_cores", "memory_bytes", "gpus"):
        yield ASK.sizes(what, timedelta(days=14))


@pytest.mark.parametrize("question", [*questions()])
def test_queries_name_only_kept_metrics_of_kubelets_and_gpus_or_the_customers_own(question: str) -> None:
    found = uses(question)

    assert found
    for use in found:
        if use.metric.startswith("ebbtide_"):
            assert use.asked["customer"] == "acme"
        else:
            assert re.fullmatch(f"{CADVISOR_KEPT}|{GPU_KEPT}", use.metric)
            assert use.asked["namespace"] == "ebbtide|ebbtide-workers"


def test_an_increase_is_searched_in_two_steps_since_one_between_two_windows_is_in_neither() -> None:
    assert "[10m]" in ASK.kills()
    assert "[5m]" in ASK.cpu()


@pytest.mark.process
@needs_promtool
def test_a_kill_that_two_replicas_of_prometheus_recorded_counts_once(tmp_path: Path) -> None:
    def counted(exporter: str, replica: str) -> str:
        labels = f'customer="acme",workload="train",pod="{exporter}",instance="10.0.0.1:9102"'
        return f'ebbtide_container_oom_kills_total{{{labels},prometheus_replica="{replica}"}}'

    twice = {counted("exporter-1", replica): growing(by=1) for replica in ("a", "b")}
    next_exporter = {counted("exporter-2", "a"): growing(by=1)}

    asked(tmp_path, ASK.kills(), twice, 10)
    asked(tmp_path, ASK.kills(), twice | next_exporter, 20)
