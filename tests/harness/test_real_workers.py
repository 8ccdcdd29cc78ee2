"""The controller among faults, with a real Redis and real RQ workers."""

import pytest

from tests.harness.real_workers import FAULTS, Outcomes, counted, run_real

pytestmark = pytest.mark.redis
RUNS = 204  # the faults in turns


def test_no_job_is_interrupted_by_us_in_one_run_with_each_fault() -> None:
    results = run_real(range(len(FAULTS)), at_once=3)

    judge(results)
    assert {result.fault for result in results} == set(FAULTS)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_no_job_is_interrupted_by_us_in_two_hundred_runs() -> None:
    results = run_real(range(RUNS), at_once=4)

    judge(results)
    print(counted(results))
    assert len(results) >= 200


def judge(results: list[Outcomes]) -> None:
    broken = {result.seed: result.broken for result in results if result.broken}
    assert broken == {}, "run one again: python -m tests.harness --real SEED"
    counts = counted(results)
    assert counts["unaccounted"] == 0
    assert counts["done"] > 3 * len(results)
    assert counts["zeros"] > len(results) / 2  # a controller that does nothing interrupts nobody either
    assert counts["told_to_stop"] > len(results)
    assert counts["controllers"] > len(results)
