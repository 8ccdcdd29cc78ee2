from ebbtide.lab.report.words import glued
from ebbtide.text.durations import duration


def test_a_glued_figure_cannot_break() -> None:
    assert " " not in glued(duration(224))
