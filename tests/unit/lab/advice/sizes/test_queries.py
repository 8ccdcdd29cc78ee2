"""Queries to Prometheus: valid expressions over metrics that are scraped and kept."""

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest

from components.monitoring.scraping import CADVISOR_KEPT, GPU_KEPT
from ebbtide.lab.advice.sizes.queries import Questions, namespaces
from ebbtide.monitoring.rules import Metrics
from tests.builders.monitoring.promql import uses

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
