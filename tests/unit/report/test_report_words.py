import pytest

from ebbtide.report.words import duration, glued, percent, several


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


def test_nouns_agree_with_their_number() -> None:
    assert [several(number, "job") for number in (0, 1, 2000)] == ["no jobs", "1 job", "2,000 jobs"]


def test_a_glued_figure_cannot_break() -> None:
    assert " " not in glued(duration(224))
