"""The description of a load depends only on its jobs."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.lab.advice.describe import Description, Wanted, describe
from ebbtide.lab.advice.described_load import jobs_parts
from ebbtide.lab.simulator.trace.traces import Job, find_trace
from ebbtide.text.terminal import laid_out
from ebbtide.vocabulary.windows import zone_of
from tests.builders.simulator import HOUR, a_job, a_trace
from tests.builders.terminal import shown_text

DAY = 24 * HOUR


def text_of(description: Description) -> str:
    return shown_text(laid_out(jobs_parts(description)))


def described(*jobs: Job) -> Description:
    return describe(a_trace(jobs))


def demand_of(description: Description, resource: str, jobs: str = "all") -> Wanted:
    return next(amount for amount in description.wanted if (amount.resource, amount.jobs) == (resource, jobs))


some_jobs = st.lists(
    st.builds(
        a_job,
        st.integers(0, 10 * 86400).map(float),
        st.sampled_from([0.1, 60.0, 5 * HOUR, 30 * HOUR]),
        cpu=st.sampled_from([0.5, 4.0, 32.0]),
        gpu=st.sampled_from([0, 0.5, 4]),
    ),
    min_size=1,
    max_size=40,
)


@given(some_jobs)
def test_shares_lie_between_none_and_all_and_no_mean_above_its_peak(jobs: Sequence[Job]) -> None:
    description = described(*jobs)

    for amount in description.wanted:
        assert 0 < amount.mean <= amount.peak + 1e-9
        assert amount.p95 <= amount.peak
        assert 0 <= amount.most_saved < 1
    shares = (description.durations.work_over_24h, description.durations.work_over_8h, description.arrivals.in_batches)
    assert all(0 <= share <= 1 for share in shares)
    assert sum(description.arrivals.by_hour) * description.days == pytest.approx(len(jobs))


def test_the_mean_wanted_is_the_work_in_the_trace_s_days_over_their_length() -> None:
    description = described(
        a_job(0, 6 * HOUR, cpu=8), a_job(23 * HOUR, 10 * HOUR, cpu=4)
    )  # the second ends after the day

    assert demand_of(description, "cpu").mean == pytest.approx((6 * 8 + 1 * 4) / 24)
    assert demand_of(description, "cpu").peak == 8
    assert demand_of(description, "cpu").most_saved == pytest.approx(1 - 52 / 24 / 8)
    assert demand_of(description, "cpu", "up to 8 h").mean == pytest.approx(2)


def test_jobs_of_one_kind_within_a_minute_are_a_batch() -> None:
    description = described(a_job(0), a_job(59), a_job(120), a_job(130, gpu=1))

    assert description.arrivals.in_batches == pytest.approx(1 / 4)


def test_arrivals_that_come_all_in_one_hour_are_as_uneven_as_can_be() -> None:
    description = described(*(a_job(HOUR + at) for at in range(24)))

    assert description.arrivals.hourly_peak_to_mean == 24
    assert description.arrivals.hours_without == pytest.approx(23 / 24)
    assert description.arrivals.busiest_12h_to_rest is None


def test_hours_without_data_are_no_hours_without_jobs() -> None:
    jobs = [a_job(0), a_job(10 * HOUR), a_job(23 * HOUR)]

    whole, gapped = describe(a_trace(jobs)), describe(replace(a_trace(jobs), gaps=((0.5 * HOUR, 10 * HOUR),)))

    assert whole.arrivals.hours_without == pytest.approx(21 / 24)
    assert gapped.arrivals.hours_without == pytest.approx(12 / 15)  # hours 1 to 9 are unknown


def dated(*times: str, zone: str = "Europe/Berlin") -> Description:
    """Jobs at local times, from midnight of the first day."""
    instants = [datetime.fromisoformat(time).replace(tzinfo=zone_of(zone)) for time in times]
    start = instants[0].replace(hour=0, minute=0).astimezone(UTC)
    jobs = [a_job((instant - start).total_seconds(), 60) for instant in instants]
    return describe(replace(a_trace(jobs), start=start, zone=zone))


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kathmandu"])
def test_a_trace_with_dates_is_described_in_its_zone_through_a_change_of_clocks(zone: str) -> None:
    """Berlin's clocks change on 29 March and 25 October, New York's on 8 March and 1 November."""
    for first in (date(2026, 3, 6), date(2026, 3, 27), date(2026, 10, 23), date(2026, 10, 30)):
        days = [first + timedelta(days=day) for day in range(4)]  # Friday to Monday
        description = dated(*(f"{day}T09:30" for day in days), zone=zone)

        assert [hour for hour, jobs in enumerate(description.arrivals.by_hour) if jobs] == [9]
        assert description.arrivals.by_weekday == pytest.approx((1, 1, 1, 1), rel=0.05)
        assert re.search(r"  Mon  1\.0.*  Fri  1\.0.*  Sat  1\.0.*  Sun  1\.0", text_of(description), re.DOTALL)
        assert "  Tue" not in text_of(description)


def test_weekdays_of_a_trace_with_dates_begin_with_monday_whatever_its_first_day() -> None:
    description = dated("2026-05-07T08:30", "2026-05-11T22:30", "2026-05-13T08:30")

    assert description.arrivals.first_day == date(2026, 5, 7)
    assert description.arrivals.by_weekday == (1, 0, 0, 0, 1, 0, 1)  # from Thursday
    assert re.findall(r"  (\w{3})  [01]\.0", text_of(description)) == ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    assert "Busiest 12 hours: from 21:00, all jobs come then." in text_of(description)


def test_a_trace_without_dates_has_no_weekdays() -> None:
    description = described(a_job(HOUR))

    assert (description.arrivals.zone, description.arrivals.first_day) == (None, None)
    assert "by day of the trace's weeks" in text_of(description)


def test_jobs_that_take_no_time_need_nothing() -> None:
    description = described(a_job(0, 0), a_job(5, 0, gpu=1))

    assert (description.wanted, description.durations.work_over_8h) == ((), 0)
    assert text_of(description).startswith("made-up: 2 jobs in 1 day; ")


def test_work_is_counted_in_gpus_where_there_are_any() -> None:
    description = described(a_job(0, HOUR, cpu=100), a_job(0, 30 * HOUR, gpu=1))

    assert (description.work_unit, description.durations.work_over_24h) == ("GPU-hours", 1.0)
    assert described(a_job(0, HOUR)).work_unit == "core-hours"


def test_long_jobs_that_hold_the_work_are_named() -> None:
    description = described(a_job(0, 3 * DAY, cpu=8), *(a_job(at * HOUR, 60) for at in range(48)))

    assert any("jobs over 24 h" in finding and "cannot be removed" in finding for finding in description.findings)


def test_a_real_trace_is_described_as_its_source_counts_it() -> None:
    """Figures of the trace's own README: variance/mean 3.8, busiest 12 hours from 17 h, 1.97 times the rest."""
    description = describe(find_trace("openb2023-a"))

    assert (description.jobs, description.days, description.arrivals.busiest_12h_from) == (3326, 16, 17)
    assert description.arrivals.hourly_var_to_mean == pytest.approx(3.8, abs=0.05)
    assert description.arrivals.busiest_12h_to_rest == pytest.approx(1.97, abs=0.005)
    assert description.durations.work_over_24h == pytest.approx(0.73, abs=0.005)
    assert demand_of(description, "gpu").peak == pytest.approx(39)


def test_the_text_fits_eighty_columns_but_for_sentences() -> None:
    lines = text_of(describe(find_trace("openb2023-a"))).splitlines()

    assert max(len(line) for line in lines if line.startswith("  ") and "up to" not in line) <= 80
