"""The metrics, read back by a strict parser of the text format."""

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.adapters.metrics import Meter, family
from controllers.ports import BudgetReport, Known, PoolReport, ReconcileReport, Unknown, Untrusted
from ebbtide.vocabulary.documents import encoded
from tests.builders.controllers import NIGHT

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_HEAD = re.compile(rf"# (HELP|TYPE) ({_NAME}) (.+)")
_SAMPLE = re.compile(rf'({_NAME})(?:\{{((?:[a-z_]+="(?:[^"\\\n]|\\[\\n"])*",?)*)\}})? (\S+)')
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
KNOWN = Known(waiting=1, in_transit=0, running=0)
Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


def parse(text: str) -> Samples:
    """Refuses what format 0.0.4 does not allow: a sample without or before its head, a name twice, a bad escape."""
    assert not text or text.endswith("\n")
    read: Samples = {}
    heads: list[tuple[str, str]] = []
    for line in text.split("\n")[:-1]:
        if head := _HEAD.fullmatch(line):
            assert (head[1], head[2]) not in heads, f"twice: {line}"
            heads.append((head[1], head[2]))
            continue
        sample = _SAMPLE.fullmatch(line)
        assert sample is not None, f"no sample: {line}"
        assert heads[-2:] == [("HELP", sample[1]), ("TYPE", sample[1])], f"not below its head: {line}"
        labels = tuple((name, _unescaped(value)) for name, value in _LABEL.findall(sample[2] or ""))
        assert labels not in read.setdefault(sample[1], {}), f"twice: {line}"
        read[sample[1]][labels] = float(sample[3])
    assert {name for _, name in heads} == read.keys(), "a head without samples"
    return read


def _unescaped(value: str) -> str:
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], value)


def report(**changes: object) -> ReconcileReport:
    known = Known(waiting=3, in_transit=1, running=2, oldest_wait=timedelta(seconds=90), seen_before=False)
    pool = PoolReport(name="train", reading=known, workers=2, wanted=6, reason="demand-above-capacity", running=2)
    budget = BudgetReport(name="api", max_unavailable=1, wanted=1, reason="disruption-window-open")
    made = ReconcileReport(
        at=NIGHT,
        window_open=True,
        window_reason="closed",
        window_until=NIGHT + timedelta(hours=8),
        pools=(pool,),
        budgets=(budget,),
    )
    return replace(made, **changes)


def told(*reports: ReconcileReport) -> Samples:
    meter = Meter()
    for one in reports:
        meter.reconciled(one)
    return parse(meter.text(reports[-1].at))


def with_reading(reading: Known | Unknown | Untrusted, **changes: object) -> ReconcileReport:
    return report(pools=(replace(report().pools[0], reading=reading),), **changes)


def test_a_pool_is_told_with_its_demand_by_part_and_the_reason() -> None:
    samples, train = told(report()), (("pool", "train"),)

    assert samples["ebbtide_pool_jobs"][*train, ("part", "in_transit")] == 1
    assert samples["ebbtide_pool_wanted"][train] == 6
    assert samples["ebbtide_pool_reason"] == {(*train, ("reason", "demand-above-capacity")): 1}
    assert samples["ebbtide_pool_reading"] == {(*train, ("state", "known")): 1}
    assert samples["ebbtide_pool_oldest_wait_seconds"][train] == 90
    assert samples["ebbtide_pool_never_seen"][train] == 1


def test_budgets_and_the_window_are_told() -> None:
    samples = told(report())

    assert samples["ebbtide_budget_max_unavailable"][(("budget", "api"),)] == 1
    assert samples["ebbtide_window_open"][()] == 1
    assert samples["ebbtide_window_next_change_timestamp_seconds"][()] == (NIGHT + timedelta(hours=8)).timestamp()


def test_unknown_demand_is_left_out_and_its_reading_grows_old() -> None:
    later = NIGHT + timedelta(seconds=40)
    samples = told(report(), with_reading(Unknown("away"), at=later))

    assert "ebbtide_pool_jobs" not in samples
    assert samples["ebbtide_pool_reading"] == {(("pool", "train"), ("state", "unknown")): 1}
    assert samples["ebbtide_pool_reading_age_seconds"][(("pool", "train"),)] == 40


def test_untrusted_demand_is_reported_and_does_not_count_as_known() -> None:
    samples = told(with_reading(Untrusted("restarted", Known(waiting=5, in_transit=0, running=0))))

    assert samples["ebbtide_pool_jobs"][("pool", "train"), ("part", "waiting")] == 5
    assert "ebbtide_pool_reading_age_seconds" not in samples


def test_worker_hours_are_those_of_the_pods_that_were_there() -> None:
    samples = told(report(), report(at=NIGHT + timedelta(minutes=30)))

    assert samples["ebbtide_worker_hours_total"][(("pool", "train"),)] == 1.0


def test_a_clock_that_is_set_back_takes_no_hours_away() -> None:
    hour = timedelta(hours=1)
    samples = told(report(), report(at=NIGHT + hour), report(at=NIGHT))

    assert samples["ebbtide_worker_hours_total"][(("pool", "train"),)] == 2.0


def test_a_standby_reports_no_pool() -> None:
    meter = Meter()
    meter.reconciled(report())
    meter.report = None

    assert not [name for name in parse(meter.text(NIGHT)) if "pool" in name or "budget" in name]


def test_reconciles_are_counted_and_timed() -> None:
    meter = Meter()
    meter.reconciled(report())
    meter.timed(0.5)
    samples = parse(meter.text(NIGHT))

    assert samples["ebbtide_reconciles_total"] == {(): 1}
    assert samples["ebbtide_reconcile_seconds_total"] == {(): 0.5}
    assert samples["ebbtide_last_reconcile_timestamp_seconds"] == {(): NIGHT.timestamp()}


@pytest.mark.parametrize("reading", [KNOWN, Unknown("away"), Untrusted("restarted", KNOWN)], ids=lambda it: it.kind)
def test_a_reading_has_its_kind_in_the_status(reading: Known | Unknown | Untrusted) -> None:
    assert encoded(reading)["kind"] == type(reading).__name__.lower()


@given(value=st.text(), number=st.floats(allow_nan=False))
def test_any_label_comes_back_as_it_was(value: str, number: float) -> None:
    assert parse(family("x", "meaning", [({"a": value}, number)])) == {"ebbtide_x": {(("a", value),): number}}
