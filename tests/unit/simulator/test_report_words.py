import pytest

from ebbtide.simulator.report.words import dollars, duration, glued, percent, several, short


@pytest.mark.parametrize(
    ("usd", "said"),
    [
        (0, "$0.00"),
        (3.456, "$3.46"),
        (99.996, "$100"),
        (1234.5, "$1,234"),
        (-1234.6, "\N{MINUS SIGN}$1,235"),
        (-0.001, "$0.00"),
    ],
)
def test_dollars_show_cents_only_below_a_hundred(usd: float, said: str) -> None:
    assert dollars(usd) == said


@pytest.mark.parametrize(
    ("fraction", "said"),
    [
        (0.412, "41 %"),
        (0.0412, "4.1 %"),
        (0.05, "5 %"),
        (-0.2, "\N{MINUS SIGN}20 %"),
        (1.0, "100 %"),
        (-0.00001, "0 %"),
    ],
)
def test_small_shares_keep_one_digit(fraction: float, said: str) -> None:
    assert percent(fraction) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
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
def test_durations_name_their_two_largest_units(seconds: float, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(("seconds", "said"), [(38, "38s"), (224, "3m 44s"), (7500, "2h 05m"), (97_200, "1d 3h")])
def test_a_narrow_column_gets_short_units(seconds: float, said: str) -> None:
    assert short(duration(seconds)) == said


def test_nouns_agree_with_their_number() -> None:
    assert [several(number, "job") for number in (0, 1, 2000)] == ["no jobs", "1 job", "2,000 jobs"]


def test_a_glued_figure_cannot_break() -> None:
    assert " " not in glued(duration(224))
