"""The sentences of a page."""

from dataclasses import replace

import pytest

from ebbtide.preview.document import (
    ChangeKind,
    CustomerPreview,
    PreviewDocument,
    ResourceChange,
    Simulated,
    StackVerdict,
)
from ebbtide.preview.render.sections import change_title
from ebbtide.preview.render.simulation import over, simulated_sheet
from ebbtide.preview.render.verdicts import compared
from ebbtide.preview.render.words import changes_text


def replaced(*reasons: str, lowers: bool = False) -> ResourceChange:
    return ResourceChange(
        kind=ChangeKind.REPLACE, type="Tag", name="label", component="flexible-a", reasons=reasons, lowers=lowers
    )


def test_a_replacement_says_what_forces_it_and_what_it_goes_with() -> None:
    assert change_title(replaced("tag.key", lowers=True)) == (
        "replace Tag label (forced by tag.key; the old one is deleted first)"
    )
    assert change_title(replaced("deletedWith follows flexible-a-nodes")) == (
        "replace Tag label (deleted with flexible-a-nodes)"
    )


def page(against: str, *, new: bool) -> PreviewDocument:
    customer = CustomerPreview(stack="acme", verdict=StackVerdict.SAFE, counts={}, new=new)
    return PreviewDocument(against=against, customers=(customer,))


def test_a_page_says_what_it_compares_with() -> None:
    """With a plan the changes are the engine's, although the files are not compared."""
    assert compared(page("main", new=True)) == "compared with main"
    assert compared(page("", new=True)).startswith("compared with no earlier state, so everything is new")
    assert compared(page("", new=False)).startswith("the files are not compared")


def replayed(days: int, *, before: bool = True) -> Simulated:
    return Simulated(
        trace="surf2022-july",
        node_hours=(10 if before else None, 8),
        usd=(30 if before else None, 24),
        p95_wait=(60 if before else None, 121),
        days=days,
        trace_days=28,
        interrupted=(0 if before else None, 0),
        unfinished=(3 if before else None, 0),
        coverage=(0.95 if before else None, 0.97),
    )


def test_a_replay_says_of_how_much_it_is() -> None:
    assert over(replayed(7)) == "7 of 28 days of surf2022-july"
    assert over(replayed(28)) == "28 days of surf2022-july"


def test_a_replay_without_a_side_before_shows_the_other_alone() -> None:
    both = ["10 → 8", "30 → 24", "1 min 00 s → 2 min 01 s", "0", "3 → 0", "95 → 97 %"]
    later = ["8", "24", "2 min 01 s", "0", "0", "97 %"]

    assert [figure for _, figure in simulated_sheet(replayed(7)).rows] == both
    assert [figure for _, figure in simulated_sheet(replayed(7, before=False)).rows] == later


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0 s"), (119, "1 min 59 s"), (7200, "2 h 00 min"), (172_800, "2 d 0 h"), (507_012, "5 d 21 h")],
)
def test_a_wait_is_told_in_a_unit_that_fits(seconds: float, shown: str) -> None:
    waited = replace(replayed(7), p95_wait=(seconds, seconds))

    assert simulated_sheet(waited).rows[2][1] == shown


def test_no_change_is_only_said_where_all_could_be_read() -> None:
    nothing = CustomerPreview(stack="acme", verdict=StackVerdict.SAFE, counts={ChangeKind.CREATE: 0})

    assert changes_text(nothing) == "no change"
    assert changes_text(replace(nothing, incomplete=True)) == "changes not known"
    assert changes_text(replace(nothing, incomplete=True, counts={ChangeKind.CREATE: 2})) == "2 to create"
