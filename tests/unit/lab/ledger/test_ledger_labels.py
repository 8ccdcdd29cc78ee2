"""The recorded dollars by a label of pods, and files of ledgers that were written before there were labels."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ebbtide.lab.ledger.build import ledger_of
from ebbtide.lab.ledger.month import LabelShare, Ledger, Month, plain
from ebbtide.lab.ledger.month_file import add_entry, committed, month_path
from ebbtide.lab.ledger.page import render_page
from ebbtide.lab.ledger.sheets import view_of
from tests.builders.monitoring.month import KnownMonth, stack
from tests.builders.settings import loaded
from tests.unit.lab.ledger.test_bill_documents import LEDGER

OCTOBER = Month(year=2026, month=10, zone="Europe/Berlin")
SOON = datetime(2026, 11, 3, tzinfo=UTC)
HOURS = range(round(OCTOBER.hours))


def ledger(folder: Path, labels: Mapping[tuple[str, str, str], Mapping[int, float]]) -> Ledger:
    """The ledger of a small month in which the label `team` was recorded so."""
    recording = replace(KnownMonth(month=OCTOBER, scale=0.1, every=240).recording(), labels={"team": labels})
    return ledger_of(recording, loaded(stack(sleep="{ when: never }"), folder), OCTOBER, SOON)


def test_values_share_a_groups_dollars_and_other_hours_are_not_recorded(tmp_path: Path) -> None:
    late = range(HOURS[0] + 400, HOURS[-1] + 1)
    found = ledger(
        tmp_path,
        {
            ("fixed", "value", "hub"): dict.fromkeys(HOURS, 0.5),
            ("fixed", "value", "idle"): dict.fromkeys(HOURS, 0.25),
            ("flexible", "value", "hub"): dict.fromkeys(late, 1.0),
        },
    )

    usd = {(share.value, share.pods): share.usd for share in found.labels["team"]}
    fixed = sum(row.usd for row in found.paid if row.group == "fixed")
    assert usd["idle", True] == pytest.approx(usd["requested by no pod", False]) == pytest.approx(fixed / 4)
    assert usd["hub", True] > fixed / 2
    assert usd["not recorded", False] > sum(row.usd for row in found.paid if row.group == "spot") > 0
    assert sum(usd.values()) == pytest.approx(found.recorded_usd)


def test_a_label_has_a_table_on_page_and_terminal_and_its_values_are_escaped() -> None:
    shares = (
        LabelShare(value="<b>search</b>", usd=30.0, pods=True),
        LabelShare(value="not recorded", usd=10.0, pods=False),
    )
    view = view_of(replace(LEDGER, labels={"example.com/team": shares}))

    assert view.sheets["caused by example.com/team"].body == [
        ["<b>search</b>", "$30.00", "75 %"],
        ["not recorded", "$10.00", "25 %"],
    ]
    assert "<b>search</b>" not in render_page(view)
    assert "&lt;b&gt;search" in render_page(view)


@pytest.mark.parametrize(("value", "said"), [("other values", True), ("no value", False)])
def test_a_table_with_folded_values_says_that_each_may_be_incomplete(value: str, *, said: bool) -> None:
    shares = (LabelShare(value="search", usd=30.0, pods=True), LabelShare(value=value, usd=10.0, pods=True))
    sheet = view_of(replace(LEDGER, labels={"team": shares})).sheets["caused by team"]

    assert ("Each value may have more: other values also has what came after 50 values" in sheet.caption) is said


def test_a_file_of_an_earlier_release_is_read_and_not_written_again(tmp_path: Path) -> None:
    """Its ledger has neither labels nor namespaces."""
    path = month_path(tmp_path, "acme", "2026-11")
    old = plain(LEDGER)
    del old["labels"]
    for share in old["shares"]:
        del share["namespace"]
    add_entry(path, {"ledger": old}, SOON)
    before = path.read_bytes()

    found, _ = committed(path)

    assert not add_entry(path, {"ledger": plain(found)}, SOON)
    assert path.read_bytes() == before
    assert add_entry(path, {"ledger": plain(found), "bill": {"month": "later"}}, SOON)
    entries = json.loads(path.read_text())["entries"]
    assert entries[1]["ledger"] == entries[0]["ledger"]
