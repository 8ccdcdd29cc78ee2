"""What a headline says: whose prices, the bill before the ledger, and no saving that is not known."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ebbtide.lab.ledger.bill.difference import Difference, difference_of
from ebbtide.lab.ledger.bill.reading import read_bill
from ebbtide.lab.ledger.build import ledger_of
from ebbtide.lab.ledger.compared import Comparison
from ebbtide.lab.ledger.month import (
    BEFORE,
    UNKNOWN_REQUESTS,
    Alternative,
    CostShare,
    FleetUsd,
    Gap,
    LabelShare,
    Ledger,
    Month,
    NodeHours,
    plain,
)
from ebbtide.lab.ledger.month_file import add_entry, committed, month_path
from ebbtide.lab.ledger.overview import overview
from ebbtide.lab.ledger.page import render_page
from ebbtide.lab.ledger.rates import basis_of
from ebbtide.lab.ledger.replayed import ReplayedUsd
from ebbtide.lab.ledger.sheets import as_text, basis, bill_notes, gap_notes, headline, saved_by, saved_text, view_of
from ebbtide.prices.tables import ENVIRONMENT
from ebbtide.settings import StackSettings
from ebbtide.text.money import about_dollars, dollar_range, dollars
from tests.builders.cur import Cells, covered, fee, node, write_csv
from tests.builders.existing import onprem
from tests.builders.monitoring.month import FIXED, FLEXIBLE, KnownMonth, stack
from tests.builders.prices import before
from tests.builders.settings import loaded
from tests.builders.terminal import shown_text
from tests.paths import ROOT

OCTOBER = Month(year=2026, month=10, zone="UTC")
SOON = datetime(2026, 11, 3, tzinfo=UTC)
FORMER = ROOT / "tests/data/former/2026-11-29/repository/stacks/ledger/acme/2026-10.json"
DISCOUNT, PLAN = 0.775, 0.6
KNOWN = KnownMonth(month=OCTOBER, every=240.0, scale=0.2, spot_factor=1.35)


@pytest.fixture(scope="module")
def ledger(acme: StackSettings) -> Ledger:
    return ledger_of(replace(KNOWN.recording(), wanted={}), acme, OCTOBER, SOON)


def billed_rows(*, plan_covers: Sequence[str] = (), plan_days: int = 31, unused_usd: float = 0.0) -> Iterator[Cells]:
    """The known month as AWS bills it: negotiated prices, real spot prices, and a plan for the types named."""
    for number, (run, hour, share, usd, listed) in enumerate(KNOWN.hourly()):
        at = OCTOBER.begin + timedelta(hours=hour)
        spot = run.key.capacity_type == "spot"
        cells = {
            "line_item_usage_amount": share,
            "line_item_resource_id": f"i-{number:017x}",
            "product_instance_type": run.key.instance_type,
        }
        if run.key.instance_type in plan_covers and not spot and hour < 24 * plan_days:
            yield next(covered(at, listed, listed * PLAN, **cells))
            continue
        yield node(
            at,
            listed,
            group=run.key.group,
            kind=run.key.instance_type,
            usage="SpotUsage" if spot else "BoxUsage",
            line_item_unblended_cost=usd if spot else listed * DISCOUNT,
            **{key: value for key, value in cells.items() if key != "product_instance_type"},
        )
    if unused_usd:
        yield fee(OCTOBER.begin, unused_usd, 0.0)


def beside(acme: StackSettings, ledger: Ledger, folder: Path, *rows: Cells) -> Difference:
    return difference_of(ledger, read_bill([write_csv(folder / "cur.csv", rows)], acme, OCTOBER))


def true_bill() -> float:
    return KNOWN.usd_of("spot") + DISCOUNT * (KNOWN.usd() - KNOWN.usd_of("spot"))


def fleet_before() -> float:
    """List dollars of three fixed nodes and twelve flexible ones all month."""
    return sum(
        count * usd * (min(until, KNOWN.end) - max(since, KNOWN.begin)) / 3600
        for count, kind in ((3, FIXED), (12, FLEXIBLE))
        for (since, usd), until in zip(
            KNOWN.prices[kind], (*(at for at, _ in KNOWN.prices[kind][1:]), KNOWN.end), strict=True
        )
    )


def test_without_a_bill_the_headline_names_the_prices(acme: StackSettings, ledger: Ledger, tmp_path: Path) -> None:
    planned = loaded(
        stack(costs="before: { fixed: 3 }, pricingAssumption: compute-1y-no-upfront"), tmp_path
    )  # `min` is 3 in the group fixed
    with_plan = ledger_of(replace(KNOWN.recording(), wanted={}), planned, OCTOBER, SOON)

    assert headline(view_of(ledger)).endswith(" at list prices, before commitments and discounts")
    assert headline(view_of(with_plan)).endswith(
        " at list prices and the assumed plan, before other commitments and discounts"
    )
    own = view_of(replace(ledger, basis="the stack file's prices"))
    assert headline(own).endswith(" at the stack file's prices")


def test_prices_of_a_directory_or_of_the_stack_file_are_no_list_prices(
    acme: StackSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = "flexible: { cpu: 15800m, memory: 60Gi, max: 4, usdPerHour: 0.7 }"
    own = loaded(onprem(f"nodeSelectors: {{ flexible: {{ pool: a }} }}, nodeShapes: {{ {shapes} }}"), tmp_path)
    selectors = "nodeSelectors: { fixed: { pool: b }, flexible: { pool: a } }"
    listed = "fixed: { instanceTypes: [m7i.2xlarge], max: 4 }"
    mixed = loaded(onprem(f"{selectors}, nodeShapes: {{ {listed}, {shapes} }}"), tmp_path)
    for name, text in before().items():
        (tmp_path / name).write_text(text, encoding="utf-8")

    assert (basis_of(acme), basis_of(own)) == ("list prices", "the stack file's prices")
    assert basis_of(mixed) == "list prices"
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    assert basis_of(acme) == f"the prices of {tmp_path}"


def test_with_a_bill_its_nodes_lead_to_the_cent_and_list_prices_are_second(
    acme: StackSettings, ledger: Ledger, tmp_path: Path
) -> None:
    found = beside(acme, ledger, tmp_path, *billed_rows())
    view = view_of(ledger, None, found)

    assert found.nodes_usd == pytest.approx(true_bill(), abs=0.01)
    assert headline(view) == (
        f"acme, 2026-10: AWS' bill has ${found.nodes_usd:,.2f} for nodes, ${found.all_usd:,.2f} for all lines"
    )
    assert shown_text(as_text(view)).splitlines()[1].endswith("at list prices, before commitments and discounts.")
    page = render_page(view)
    assert page.index("nodes on AWS' bill".replace("'", "&#39;")) < page.index("recorded nodes")


def test_with_a_bill_the_saving_is_at_its_rates(acme: StackSettings, ledger: Ledger, tmp_path: Path) -> None:
    """The fleet before would have had the negotiated prices, too."""
    found = beside(acme, ledger, tmp_path, *billed_rows())
    saved, at_list = found.saved[BEFORE], ledger.saved[BEFORE]
    truth = DISCOUNT * fleet_before() - true_bill()

    assert saved is not None
    assert at_list is not None
    assert saved == pytest.approx((truth, truth), rel=0.005)
    assert at_list[1] > 1.2 * truth
    sheet = view_of(ledger, None, found).sheets["saved"]
    assert [column.name for column in sheet.columns][:3] == ["fleet", "saved by the bill", "saved"]
    assert sheet.body[0][:3] == [BEFORE, dollar_range(*saved), dollar_range(*at_list)]


def test_hours_of_an_alternative_cost_between_the_plan_and_the_negotiated_price(
    acme: StackSettings, ledger: Ledger, tmp_path: Path
) -> None:
    """A plan covers the fixed nodes: the fleet before has as much of it, or none."""
    found = beside(acme, ledger, tmp_path, *billed_rows(plan_covers=[FIXED]))
    saved = found.saved[BEFORE]

    assert saved is not None
    covered_usd = sum(listed for run, _, _, _, listed in KNOWN.hourly() if run.key.instance_type == FIXED)
    on_demand_usd = (KNOWN.usd() - KNOWN.usd_of("spot")) - covered_usd
    mean = (PLAN * covered_usd + DISCOUNT * on_demand_usd) / (covered_usd + on_demand_usd)
    truths = mean * fleet_before() - found.nodes_usd, DISCOUNT * fleet_before() - found.nodes_usd
    assert saved == pytest.approx(truths, rel=0.005)
    assert "in hours without a commitment" in found.assumptions[0]


def test_the_price_of_an_hour_without_a_commitment_is_the_price_of_that_hour(
    acme: StackSettings, ledger: Ledger, tmp_path: Path
) -> None:
    """A plan covers all nodes until a day before a price rises."""
    rises = (KNOWN.prices[FLEXIBLE][1][0] - KNOWN.begin) / 86400
    found = beside(acme, ledger, tmp_path, *billed_rows(plan_covers=[FIXED, FLEXIBLE], plan_days=int(rises) - 1))
    saved = found.saved[BEFORE]

    assert saved is not None
    assert saved[1] == pytest.approx(DISCOUNT * fleet_before() - found.nodes_usd, rel=0.001)
    assert "78 % in hours without a commitment" in found.assumptions[0]


def test_without_an_uncovered_hour_the_list_price_bounds_and_the_text_says_so(
    acme: StackSettings, ledger: Ledger, tmp_path: Path
) -> None:
    found = beside(acme, ledger, tmp_path, *billed_rows(plan_covers=[FIXED, FLEXIBLE]))
    saved = found.saved[BEFORE]

    assert saved is not None
    assert saved[1] == pytest.approx(fleet_before() - found.nodes_usd, rel=0.001)
    assert found.assumptions[0] == (
        "On-demand nodes cost 60 % of the ledger's prices, and the bill has no hour without a commitment: "
        "an alternative's hours cost between that and the ledger's prices."
    )


def test_a_bill_with_spot_nodes_only_says_nothing_of_on_demand_fleets(
    acme: StackSettings, ledger: Ledger, tmp_path: Path
) -> None:
    spot = replace(ledger, paid=tuple(row for row in ledger.paid if row.capacity_type == "spot"))
    rows = [row for row in billed_rows() if "SpotUsage" in row["line_item_usage_type"]]

    found = beside(acme, spot, tmp_path, *rows)

    assert spot.saved[BEFORE] is not None
    assert found.saved[BEFORE] is None
    assert found.assumptions[0] == "Fleets with on-demand nodes are not calculated: the bill has no such node."


@pytest.mark.parametrize(
    ("variants", "shares"),
    [
        ([(-10.0, -40.0)], (-40.0, -10.0)),
        ([(-10.0, -40.0), (-30.0, -120.0)], (-120.0, -10.0)),
        ([(-10.0, -40.0), (30.0, 120.0)], (-40.0, 120.0)),
    ],
    ids=["fewer", "fewer with either rollouts", "fewer or more"],
)
def test_spot_nodes_of_each_variant_have_the_bills_price(
    acme: StackSettings,
    ledger: Ledger,
    tmp_path: Path,
    variants: list[tuple[float, float]],
    shares: tuple[float, float],
) -> None:
    """A typical price of 1 is at least 0.5 and at most 2 in the ledger, and 1.35 on the bill."""
    rows = [row for row in ledger.paid if row.capacity_type == "spot"]
    usd = sum(row.usd for row in rows)
    low, high = usd - sum(row.less_usd for row in rows), usd + sum(row.more_usd for row in rows)
    place = (1.35 * usd - low) / (high - low)
    truths = [at_low + place * (at_high - at_low) for at_low, at_high in variants]
    other = Alternative(
        name="other",
        low_usd=ledger.low_usd + shares[0],
        high_usd=ledger.high_usd + shares[1],
        assumptions=(),
        paired=True,
        variants=tuple(FleetUsd(0.0, *of) for of in variants),
    )

    saved = beside(acme, replace(ledger, alternatives=(other,)), tmp_path, *billed_rows()).saved["other"]

    assert saved == pytest.approx((min(truths), max(truths)), rel=0.02)


def test_unused_commitments_are_not_saved_by_fewer_nodes(acme: StackSettings, ledger: Ledger, tmp_path: Path) -> None:
    without = beside(acme, ledger, tmp_path, *billed_rows()).saved[BEFORE]
    found = beside(acme, ledger, tmp_path, *billed_rows(unused_usd=200.0))

    assert without is not None
    assert found.saved[BEFORE] == pytest.approx((without[0] - 200, without[1]), abs=0.01)
    assert any("$200 of unused ones" in text for text in found.assumptions)


def test_a_bill_of_a_part_of_the_month_says_nothing_about_savings(
    acme: StackSettings, ledger: Ledger, tmp_path: Path
) -> None:
    """Its tags were activated on the fourth day."""
    rows = [row for row in billed_rows() if row["line_item_usage_start_date"] >= "2026-10-04"]
    found = beside(acme, ledger, tmp_path, *rows)

    assert found.saved == {}
    assert "Not calculated: the bill has 89 % of the recorded node-hours, wanted 95 %." in found.assumptions
    assert headline(view_of(ledger, None, found)).endswith(" for all lines, but only 89 % of the recorded node-hours")
    assert found.billed_share == pytest.approx(0.897, abs=0.001)
    assert saved_by(ledger, found) == (ledger.saved[BEFORE], None)
    assert "saved by the bill" not in shown_text(as_text(view_of(ledger, None, found)))


def test_hours_that_a_bill_lacks_are_not_saved(acme: StackSettings, ledger: Ledger, tmp_path: Path) -> None:
    """The last day is missing: it cost what the others cost."""
    whole = beside(acme, ledger, tmp_path, *billed_rows())
    rows = [row for row in billed_rows() if row["line_item_usage_start_date"] < "2026-10-31"]
    found = beside(acme, ledger, tmp_path, *rows)

    assert found.nodes_usd < whole.nodes_usd - 30
    assert found.saved[BEFORE] == pytest.approx(whole.saved[BEFORE], rel=0.005)
    assert any(text.startswith("The bill lacks hours of recorded nodes: $") for text in found.assumptions)
    assert not any("lacks hours" in text for text in whole.assumptions)


def test_rows_of_discounts_are_in_the_nodes_dollars_and_savings_as_net_costs_are(
    acme: StackSettings, ledger: Ledger, tmp_path: Path
) -> None:
    """A tenth off each hour on demand and of spot: the fleet before would have had it, too."""
    rows = [row for row in billed_rows() if row["line_item_line_item_type"] == "Usage"]
    net = [{**row, "line_item_net_unblended_cost": 0.9 * row["line_item_unblended_cost"]} for row in rows]
    discounts = [
        {
            **row,
            "line_item_line_item_type": "EdpDiscount",
            "pricing_public_on_demand_cost": 0.0,
            "line_item_unblended_cost": -0.1 * row["line_item_unblended_cost"],
        }
        for row in rows
    ]
    found = beside(acme, ledger, tmp_path, *rows, *discounts)
    truth = beside(acme, ledger, tmp_path, *net)

    assert found.nodes_usd == pytest.approx(0.9 * true_bill())
    assert found.all_usd == pytest.approx(truth.all_usd)
    assert found.saved.keys() == truth.saved.keys()
    assert found.saved[BEFORE] == pytest.approx(truth.saved[BEFORE])
    assert found.causes.keys() == truth.causes.keys()
    assert all(found.causes[name] == pytest.approx(usd) for name, usd in truth.causes.items())


@pytest.mark.parametrize(("share", "said"), [(1.0, True), (DISCOUNT, False)])
def test_a_bill_with_private_prices_is_not_called_before_discounts(
    acme: StackSettings, tmp_path: Path, share: float, *, said: bool
) -> None:
    row = node(OCTOBER.begin, 0.8, line_item_unblended_cost=0.8 * share)
    bill = read_bill([write_csv(tmp_path / "cur.csv", [row])], acme, OCTOBER)

    assert any("Before negotiated discounts" in note for note in bill_notes(bill)) is said


def test_hours_outside_the_ledgers_month_are_in_the_bill_and_in_no_saving(
    acme: StackSettings, ledger: Ledger, tmp_path: Path
) -> None:
    """The last hour of October in UTC is in November in Berlin."""
    rows, berlin = [*billed_rows()], replace(OCTOBER, zone="Europe/Berlin")
    late = node(berlin.end, 0.8, line_item_unblended_cost=500.0, line_item_resource_id="i-0f")

    def found(*more: Cells) -> Difference:
        return difference_of(ledger, read_bill([write_csv(tmp_path / "cur.csv", [*rows, *more])], acme, berlin))

    assert found(late).saved[BEFORE] == pytest.approx(found().saved[BEFORE])
    assert found(late).nodes_usd == pytest.approx(found().nodes_usd + 500)


def test_a_ledger_with_an_assumed_plan_has_no_savings_at_the_bills_rates(
    acme: StackSettings, ledger: Ledger, tmp_path: Path
) -> None:
    former = {"plan": "compute-1y-no-upfront, shipped with Ebbtide, 2025-04-24"}
    settings = loaded(stack(costs="before: { fixed: 3 }, pricingAssumption: compute-1y-no-upfront"), tmp_path)
    planned = ledger_of(replace(KNOWN.recording(), wanted={}), settings, OCTOBER, SOON)

    for of_plan in (planned, replace(ledger, plan_assumed=None, prices=former)):
        found = beside(acme, of_plan, tmp_path, *billed_rows())
        assert found.saved == {}
        assert "costs.pricingAssumption" in found.assumptions[0]


def test_with_a_bill_the_spot_part_of_an_alternative_has_the_real_price(
    acme: StackSettings, ledger: Ledger, tmp_path: Path
) -> None:
    """Twice the month's spot nodes: they save what the bill has for them, whatever the bounds of the typical price."""
    rows = [row for row in ledger.paid if row.capacity_type == "spot"]
    bounds = sum(row.usd - row.less_usd for row in rows), sum(row.usd + row.more_usd for row in rows)
    more = Alternative(
        name="more spot",
        low_usd=ledger.low_usd + bounds[0],
        high_usd=ledger.high_usd + bounds[1],
        assumptions=(),
        paired=True,
        variants=(FleetUsd(0.0, *bounds),),
    )

    saved = beside(acme, replace(ledger, alternatives=(more,)), tmp_path, *billed_rows()).saved["more spot"]

    assert saved == pytest.approx((KNOWN.usd_of("spot"), KNOWN.usd_of("spot")), rel=0.01)
    assert bounds[1] > 1.3 * KNOWN.usd_of("spot")


def test_the_causes_hold_the_real_spot_price_and_no_range(acme: StackSettings, ledger: Ledger, tmp_path: Path) -> None:
    found = beside(acme, ledger, tmp_path, *billed_rows())
    typical = KNOWN.usd_of("spot") / 1.35

    assert found.low_usd == found.high_usd
    assert found.causes["spot prices"][0] == pytest.approx(0.35 * typical, rel=0.02)


@pytest.mark.parametrize(("costs", "tiles"), [("before: { fixed: 3, flexible: 12 }", 1), ("tags: { team: a }", 0)])
def test_only_against_the_fleet_before_a_tile_says_saved(tmp_path: Path, costs: str, tiles: int) -> None:
    settings = loaded(stack(costs=costs), tmp_path)
    found = ledger_of(replace(KNOWN.recording(), wanted={}), settings, OCTOBER, SOON)
    page = render_page(view_of(found))

    assert page.count("<dt>saved</dt>") == tiles
    assert (BEFORE in found.saved) == bool(tiles)
    assert "peak fleet" in page
    assert found.saved["peak fleet"] is not None


def with_saving(ledger: Ledger, low: float, high: float) -> Ledger:
    """A fleet before that saves these shares of the month."""
    sure = replace(ledger, paid=tuple(replace(row, less_usd=0.0, more_usd=0.0) for row in ledger.paid))
    month = sure.low_usd
    entry = Alternative(
        name=BEFORE, low_usd=sure.low_usd + low * month, high_usd=sure.high_usd + high * month, assumptions=()
    )
    return replace(sure, alternatives=(entry,))


@pytest.mark.parametrize(
    ("low", "high", "measurable"),
    [(-0.01, 0.019, False), (0.001, 0.018, False), (-0.03, 0.01, False), (0.005, 0.03, True), (-0.06, 0, True)],
)
def test_a_difference_within_the_noise_is_no_saving(
    ledger: Ledger, tmp_path: Path, low: float, high: float, *, measurable: bool
) -> None:
    found = with_saving(ledger, low, high)
    add_entry(month_path(tmp_path, "acme", "2026-10"), {"ledger": plain(found)}, SOON)
    _, table = overview(tmp_path, "")

    for text in (shown_text(as_text(view_of(found))), render_page(view_of(found)), shown_text(table)):
        assert (" ".join(text.replace("\N{NO-BREAK SPACE}", " ").split()).count("no measurable") == 0) is measurable


@pytest.mark.parametrize(
    ("changed", "missed", "measurable"),
    [(0.0, 0.06, False), (0.03, 0.06, False), (0.07, 0.06, True), (0.0, 0.0, False), (0.025, 0.0, True)],
)
def test_a_replay_that_misses_the_month_measures_no_difference_that_is_smaller(
    ledger: Ledger, changed: float, missed: float, *, measurable: bool
) -> None:
    """The replay of the month is off by `missed`, and the changed one costs `changed` more: shares of the month."""
    sure = replace(ledger, paid=tuple(replace(row, less_usd=0.0, more_usd=0.0) for row in ledger.paid))
    usd = sure.recorded_usd
    as_it_was = ReplayedUsd(usd * (1 - missed), 0.0, 0.0)
    changed_usd = ReplayedUsd(usd * (1 - missed + changed), 0.0, 0.0)
    comparison = Comparison(ledger=sure, as_it_was=[as_it_was], text="as it was", assumptions=())

    found = replace(sure, alternatives=(comparison.of("other", "changed", [changed_usd]),))

    (low, high) = found.saved["other"] or (0.0, 0.0)
    assert low <= changed * usd <= high
    for billed_usd, rate in ((None, 1.0), (0.6 * usd, 0.6)):
        text = saved_text(found, "other", (low * rate, high * rate), billed_usd)
        assert (text != "no measurable difference") is measurable


def test_idle_dollars_of_the_nodes_of_min_cannot_be_saved(acme: StackSettings, ledger: Ledger, tmp_path: Path) -> None:
    """Half of each node is requested; one of four fixed nodes is beyond `min`, or three, of which two are idle."""
    idle = {share.group: share.usd for share in ledger.shares if share.idle}
    loose = loaded(stack().replace("min: 3,", "min: 1,"), tmp_path)
    fewer = ledger_of(replace(KNOWN.recording(), wanted={}), loose, OCTOBER, SOON)

    assert ledger.could_save_usd == pytest.approx(idle["flexible"] + idle["fixed"] / 2, rel=0.01)
    assert fewer.could_save_usd == pytest.approx(idle["flexible"] + idle["fixed"], rel=0.01)


def test_a_month_file_of_a_former_release_is_read_and_stays_as_it_was(tmp_path: Path) -> None:
    path = month_path(tmp_path, "acme", "2026-10")
    path.parent.mkdir(parents=True)
    path.write_bytes(FORMER.read_bytes())

    found, _ = committed(path)

    assert found.could_save_usd == found.idle_usd
    assert found.basis == "list prices"
    assert {row.less_usd + row.more_usd for row in found.paid} == {0.0}
    assert not add_entry(path, {"ledger": plain(found)}, SOON)
    assert path.read_bytes() == FORMER.read_bytes()


def test_a_gap_widens_a_replays_saving_and_spot_prices_do_not(ledger: Ledger) -> None:
    """Both fleets have the month's spot prices, and the same nodes certainly ran in the gap."""
    gap = Gap(begin=OCTOBER.begin, end=OCTOBER.begin + timedelta(hours=9), low_usd=10.0, high_usd=70.0, why="")
    torn = replace(ledger, gaps=(gap,))
    more = Alternative(
        name="more", low_usd=torn.low_usd + 100, high_usd=torn.high_usd + 120, assumptions=(), paired=True
    )

    assert replace(torn, alternatives=(more,)).saved["more"] == pytest.approx((100, 120 + 60))


def test_stacks_are_sorted_by_what_could_still_be_saved(ledger: Ledger, tmp_path: Path) -> None:
    for name, beyond in (("acme", 3.0), ("basin", 90.0)):
        found = replace(ledger, stack=name, beyond_min_usd=beyond)
        add_entry(month_path(tmp_path, name, "2026-10"), {"ledger": plain(found)}, SOON)

    stacks, table = overview(tmp_path, "")

    assert [(stack["stack"], stack["could_save_usd"]) for stack in stacks] == [("basin", 90.0), ("acme", 3.0)]
    assert "about $90.00 at list prices" in " ".join(shown_text(table).split())


@pytest.mark.parametrize(("unknown", "known"), [(0.4, True), (0.6, False)])
def test_with_requests_of_less_than_half_of_the_dollars_no_saving_is_known(
    ledger: Ledger, tmp_path: Path, unknown: float, *, known: bool
) -> None:
    """Unknown is not zero, and such a stack is last."""
    usd = sum(share.usd for share in ledger.shares)
    lost = CostShare(group="", category="", workload=UNKNOWN_REQUESTS, usd=usd * unknown / (1 - unknown))
    poor = replace(ledger, stack="abc", shares=(*ledger.shares, lost), beyond_min_usd=2.0)
    for found in (poor, replace(ledger, beyond_min_usd=1.0)):
        add_entry(month_path(tmp_path, found.stack, "2026-10"), {"ledger": plain(found)}, SOON)

    stacks, table = overview(tmp_path, "")

    assert poor.could_save_usd == (2.0 if known else None)
    assert [stack["stack"] for stack in stacks] == (["abc", "acme"] if known else ["acme", "abc"])
    for text in (shown_text(table), render_page(view_of(poor))):
        assert ("an unknown amount" in " ".join(text.split())) is not known


def test_a_month_at_other_prices_names_them_among_all_stacks(ledger: Ledger, tmp_path: Path) -> None:
    for name, prices in (("acme", "list prices"), ("basin", "the prices of negotiated")):
        found = replace(ledger, stack=name, basis=prices)
        add_entry(month_path(tmp_path, name, "2026-10"), {"ledger": plain(found)}, SOON)

    _, table = overview(tmp_path, "")

    text = " ".join(shown_text(table).split())
    assert text.count("at the prices of negotiated") == 2  # of its nodes, and of what could be saved
    assert "Nodes at list prices before commitments and discounts unless other prices are named" in text


def test_the_width_of_gaps_is_a_share_of_the_month_by_the_model(ledger: Ledger) -> None:
    """The range of the gap is six times the month: the text says so instead of a part of the upper bound."""
    usd = ledger.recorded_usd + ledger.boot_usd
    gap = Gap(
        begin=OCTOBER.begin,
        end=OCTOBER.begin + timedelta(hours=300),
        low_usd=0.0,
        high_usd=12 * usd,
        why="",
        model_usd=usd,
    )

    (width, _) = gap_notes([gap], usd)
    (unmodelled, _) = gap_notes([replace(gap, model_usd=None)], usd)

    assert f", 600 % of the month's {dollars(2 * usd)} by the model. " in width
    assert f"uncertain by {about_dollars(12 * usd, at_most=True)}" in width
    assert "%" not in unmodelled


def test_a_table_of_a_label_names_it_and_no_row_is_half_a_cent(ledger: Ledger) -> None:
    small = CostShare(group="flexible", category="", workload="requests not recorded", usd=0.004)
    found = replace(
        ledger, shares=(*ledger.shares, small), labels={"team": (LabelShare(value="ml", usd=1, pods=True),)}
    )
    sheets = view_of(found).sheets

    assert sheets["caused by team"].columns[0].name == "team"
    assert len(sheets["caused by"].rows) == len(ledger.shares)


def test_a_former_entry_with_a_bill_has_the_bills_sums(tmp_path: Path) -> None:
    """Its difference had no dollars of the nodes, and no savings at the bill's rates."""
    old = json.loads(FORMER.read_text())["entries"][0]["ledger"]
    path = month_path(tmp_path, "acme", "2026-10")
    difference = {"low_usd": -3.0, "high_usd": -3.0, "causes": {"boots, which the ledger estimates": (-3.0, -3.0)}}
    add_entry(path, {"ledger": old, "bill": {"parts": {"nodes": 70.5, "traffic": 1.5}}, "difference": difference}, SOON)

    ledger, found = committed(path)

    assert found is not None
    assert (found.nodes_usd, found.all_usd) == (70.5, 72.0)
    assert saved_by(ledger, found) == (ledger.saved.get(BEFORE), None)


def test_a_bill_in_a_month_file_leads_also_without_its_report(
    acme: StackSettings, ledger: Ledger, tmp_path: Path
) -> None:
    bill = read_bill([write_csv(tmp_path / "cur.csv", [*billed_rows()])], acme, OCTOBER)
    path = month_path(tmp_path, "acme", "2026-10")
    documents = {"ledger": plain(ledger), "bill": plain(bill), "difference": plain(difference_of(ledger, bill))}
    add_entry(path, documents, SOON)

    (entry,), table = overview(tmp_path, "")
    saved = difference_of(ledger, bill).saved[BEFORE]

    assert saved is not None
    assert headline(view_of(committed(path)[0], None, committed(path)[1])).startswith("acme, 2026-10: AWS' bill has $")
    assert entry["bill_nodes_usd"] == pytest.approx(true_bill(), abs=0.01)
    assert entry["saved"] == pytest.approx(saved, abs=0.001)
    assert entry["saved_by_bill"]
    assert f"${saved[0]:,.0f} by the bill" in shown_text(table)


def test_a_group_with_spot_nodes_has_a_range_and_others_have_a_figure(ledger: Ledger) -> None:
    cells = {row[0]: row[1] for row in view_of(ledger).sheets["paid"].body}
    spot: list[NodeHours] = [row for row in ledger.paid if row.capacity_type == "spot"]

    assert " to " in cells["spot"]
    assert " to " not in cells["fixed"] + cells["flexible"]
    assert sum(row.more_usd for row in spot) == pytest.approx(sum(row.usd for row in spot), rel=0.05)


def with_holes(acme: StackSettings, *holes: tuple[float, float]) -> Ledger:
    known = replace(KNOWN, holes=holes)
    return ledger_of(replace(known.recording(), wanted={}), acme, OCTOBER, SOON)


def test_a_month_with_a_wide_gap_is_led_by_the_models_figure(acme: StackSettings, tmp_path: Path) -> None:
    """Prometheus lost its volume on the twelfth, and `max` allows many nodes for so long."""
    found = with_holes(acme, (0, 273))
    low, high = dollar_range(found.low_usd, found.high_usd).split(" to ")
    figure = found.model_usd or 0.0
    cost = f"about {about_dollars(figure)} by a model of the gaps (range: {low} to {high})"

    assert found.high_usd > 2 * KNOWN.usd()
    assert figure == pytest.approx(KNOWN.usd(), rel=0.15)
    assert headline(view_of(found)) == f"acme, 2026-10: nodes cost {cost} {basis(found)}"
    page = render_page(view_of(found)).replace("\N{NO-BREAK SPACE}", " ")
    saved = f"about {about_dollars(fleet_before() - figure)}"
    for text in (f"about {about_dollars(figure)}", "nodes, by a model of the gaps", f"range: {low} to {high}", saved):
        assert f">{text}<" in page
    assert f"saved by a model of the gaps: {saved}" in view_of(found).assumptions[BEFORE]
    assert plain(found)["model_usd"] == pytest.approx(figure, abs=1e-4)
    add_entry(month_path(tmp_path, acme.stack, "2026-10"), {"ledger": plain(found)}, SOON)
    documents, table = overview(tmp_path, "2026-10")
    assert documents[0]["model_usd"] == pytest.approx(figure, abs=1e-4)
    assert cost in " ".join(shown_text(table, width=300).split())


def test_with_a_bill_the_model_leads_the_second_sentence(acme: StackSettings, tmp_path: Path) -> None:
    found = with_holes(acme, (0, 273))
    view = view_of(found, None, beside(acme, found, tmp_path, *billed_rows()))

    assert "model" not in headline(view)
    assert "Nodes cost about $" in shown_text(as_text(view), width=300)


@pytest.mark.parametrize(
    "hole", [pytest.param((30, 30.3), id="a narrow gap"), pytest.param((0, 400), id="less than half was recorded")]
)
def test_other_months_have_their_range_alone(acme: StackSettings, hole: tuple[float, float]) -> None:
    found = with_holes(acme, hole)

    assert f"nodes cost {dollar_range(found.low_usd, found.high_usd)} at" in headline(view_of(found))
    assert "by a model of the gaps" not in render_page(view_of(found))
    assert not any("by a model of the gaps" in text for text in view_of(found).assumptions[BEFORE])


def test_gaps_of_a_former_release_have_no_model_to_lead_with(acme: StackSettings) -> None:
    found = with_holes(acme, (0, 273))
    former = replace(found, gaps=tuple(replace(gap, model_usd=None) for gap in found.gaps))

    assert former.model_usd is None
    assert "about" not in headline(view_of(former))
