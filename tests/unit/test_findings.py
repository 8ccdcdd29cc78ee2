"""What all findings share: their order, and the line that operators read."""

import pytest

from ebbtide.findings import Finding, Severity, worst_first


def finding(
    severity: Severity = Severity.NOTE, *, place: str = "", text: str = "no budget", remedy: str = ""
) -> Finding:
    return Finding(code="budget.none", severity=severity, text=text, remedy=remedy, place=place)


def test_the_worst_comes_first_and_equal_ones_keep_their_order() -> None:
    severities = [Severity.NOTE, Severity.BLOCKING, Severity.WARNING, Severity.BLOCKING, Severity.NOTE]
    findings = [finding(severity, text=str(number)) for number, severity in enumerate(severities)]

    assert [found.text for found in worst_first(findings)] == ["1", "3", "2", "0", "4"]


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (finding(), "no budget"),
        (finding(place="workloads.api"), "workloads.api: no budget"),
        (finding(remedy="add one"), "no budget; add one"),
        (finding(place="f.yaml:3", text="two\nlines", remedy="add one"), "f.yaml:3: two lines; add one"),
    ],
)
def test_a_line_has_the_place_the_text_and_the_remedy(found: Finding, line: str) -> None:
    assert str(found) == line
