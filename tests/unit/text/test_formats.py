"""Parsing and formatting of durations, quantities and money."""

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.text.counts import number_of, percent, several
from ebbtide.text.durations import duration, format_duration, go_text, read_duration, short, whole_minutes
from ebbtide.text.money import about_dollars, cents, dollar_range, dollars, whole_dollars
from ebbtide.text.quantities import CPU_UNITS, read_quantity


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("15m", 900),
        ("1h30m", 5400),
        ("2d", 172_800),
        ("10m0s", 600),
        ("0s", 0),
        ("9999999h", 3155760000),
    ],
)
def test_a_duration_is_read_from_its_parts_and_ends_at_a_century(text: str, seconds: int) -> None:
    assert read_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "2", "h", "30m1h", "-2h", "1.5h", "two hours", "٣h", " 2h"])
def test_what_is_no_duration_reads_as_none(text: str) -> None:
    assert read_duration(text) is None


@pytest.mark.parametrize("text", ["0s", "90s", "15m", "12h", "36h"])
def test_a_duration_is_written_as_it_is_read(text: str) -> None:
    assert format_duration(read_duration(text) or timedelta()) == text


@pytest.mark.parametrize("text", ["0s", "90s", "1m0s", "1h0m5s", "36h0m0s"])
def test_go_writes_every_unit_below_the_largest(text: str) -> None:
    assert go_text(read_duration(text) or timedelta()) == {"90s": "1m30s"}.get(text, text)


@pytest.mark.parametrize(("count", "text"), [(0, "no jobs"), (1, "1 job"), (2, "2 jobs"), (2000, "2,000 jobs")])
def test_a_count_agrees_with_its_noun(count: int, text: str) -> None:
    assert several(count, "job") == text
    assert number_of(count, "job") == text.replace("no ", "0 ")


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0.412, "41 %"),
        (0.0412, "4.1 %"),
        (0.05, "5 %"),
        (-0.2, "\N{MINUS SIGN}20 %"),
        (1.0, "100 %"),
        (-0.00001, "0 %"),
    ],
)
def test_small_shares_keep_one_digit(fraction: float, text: str) -> None:
    assert percent(fraction) == text


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        ("500m", "0.5"),
        ("8Gi", str(8 * 2**30)),
        ("1.5k", "1500"),
        (2, "2"),
        (0.5, "0.5"),
        ("2 Gi", None),
        ("3e2", None),
        (True, None),
        (None, None),
    ],
)
def test_a_quantity_is_a_number_times_its_unit(value: object, amount: str | None) -> None:
    assert read_quantity(value) == (None if amount is None else Decimal(amount))


def test_a_unit_of_something_else_is_no_quantity() -> None:
    assert [read_quantity(text, CPU_UNITS) for text in ("2", "500m", "2Gi")] == [2000, 500, None]


def test_times_to_wait_are_rounded_down_to_minutes() -> None:
    spans = [timedelta(seconds=seconds) for seconds in (-1, 5, 61, 7500, 90000)]

    assert [whole_minutes(span) for span in spans] == ["0 s", "5 s", "1 min", "2 h 05 min", "1 d 1 h"]


def test_an_amount_in_a_table_is_whole_or_unknown() -> None:
    assert [whole_dollars(usd) for usd in (0, 1234.4, None)] == ["0", "1,234", "-"]


@pytest.mark.parametrize(
    ("usd", "text"),
    [
        (0, "$0.00"),
        (3.456, "$3.46"),
        (99.996, "$100"),
        (1234.5, "$1,234"),
        (-1234.6, "\N{MINUS SIGN}$1,235"),
        (-0.001, "$0.00"),
    ],
)
def test_dollars_show_cents_only_below_a_hundred(usd: float, text: str) -> None:
    assert dollars(usd) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.3, "under 1 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (224, "3 min 44 s"),
        (3599.7, "1 h 00 min"),
        (7500, "2 h 05 min"),
        (86_390, "1 d 0 h"),
        (97_200, "1 d 3 h"),
    ],
)
def test_durations_name_their_two_largest_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(38, "38s"), (224, "3m 44s"), (7500, "2h 05m"), (97_200, "1d 3h")])
def test_a_narrow_column_gets_short_units(seconds: float, text: str) -> None:
    assert short(duration(seconds)) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (81, 918, "$80 to $920"),
        (1537, 9976, "$1,500 to $10,000"),
        (722.4, 16270, "$720 to $16,500"),
        (7.4, 30, "$7 to $30"),
        (0.2, 16270, "$0 to $16,500"),
        (5e-324, 1, "$0.00 to $1.00"),
        (10.604, 10.68, "$10.60 to $10.68"),
        (-3, 4, "\N{MINUS SIGN}$3.00 to $4.00"),
        (99.2, 100.4, "$99 to $101"),
        (1234.2, 1234.9, "$1,234 to $1,235"),
        (392, 447, "$392 to $448"),
        (1549.131, 1549.134, "$1,549"),
    ],
)
def test_a_range_is_as_precise_as_its_width(low: float, high: float, text: str) -> None:
    assert dollar_range(low, high) == text


@given(st.floats(-20_000, 20_000), st.floats(0.006, 20_000))
def test_no_bound_lies_inside_the_range_that_is_shown_nor_far_outside(low: float, width: float) -> None:
    high = low + width
    shown = [
        float(part.replace("\N{MINUS SIGN}", "-").replace("$", "").replace(",", ""))
        for part in dollar_range(low, high).split(" to ")
    ]

    assert shown[0] <= low + 1e-4 * width
    assert shown[-1] >= high - 1e-4 * width
    slack = max(width / 20, 1.0 if max(abs(low), abs(high)) >= 99 else 0.01) * 1.001
    assert low - shown[0] <= (min(slack, max(low / 20, 1.0) * 1.001) if low > 0 else slack)
    assert shown[-1] - high <= slack


def test_an_invoice_has_cents_at_any_size() -> None:
    assert [cents(usd) for usd in (1549.134, -0.001, 3.5)] == ["$1,549.13", "$0.00", "$3.50"]


@pytest.mark.parametrize(
    ("usd", "about", "at_most"),
    [
        (442, "$440", "$450"),
        (440, "$440", "$440"),
        (8.43, "$8.40", "$8.50"),
        (1234, "$1,200", "$1,300"),
        (0, "$0.00", "$0.00"),
    ],
)
def test_an_estimate_has_two_digits_and_an_upper_bound_is_rounded_up(usd: float, about: str, at_most: str) -> None:
    assert (about_dollars(usd), about_dollars(usd, at_most=True)) == (about, at_most)
