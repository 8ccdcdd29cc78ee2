"""The comment: dangers are visible, other parts are folded, and the limit holds."""

from dataclasses import replace

import pytest

from ebbtide.findings import Severity
from ebbtide.preview.document import Amounts, ChangeKind, OwnedRow, PreviewDocument, SimulatedServices, StackVerdict
from ebbtide.preview.groups import change_groups
from ebbtide.preview.render.comment import as_comment
from tests.builders.preview import Seen, change, cost, customer, danger, document, fifty, policy, served

HOSTILE = "api</td></details>`|@ops<!-- x -->"


def test_the_verdict_is_the_first_line_with_its_counts() -> None:
    first = as_comment(document(customer())).splitlines()[0]

    assert first == "### ⚠️ demo: needs attention, 1 to update"


def test_parts_come_in_their_order_and_only_dangers_are_unfolded() -> None:
    seen = Seen(as_comment(document(customer())))
    parts = ["Dangers", "replaces node group", "Cost", "Coming nights", "Ownership", "Policies", "Simulated"]
    parts += ["Services simulated", "changes"]
    places = [seen.words.index(part) for part in parts]

    assert places == sorted(places)
    assert "up to 20 nodes" in seen.unfolded
    assert "add a group" in seen.unfolded
    assert "19:00 → 07:45" not in seen.unfolded


def test_what_blocks_is_seen_although_policies_are_folded() -> None:
    blocking = policy(Severity.BLOCKING, id_="EB001")
    excepted = policy(Severity.BLOCKING, excepted="moves in June, until 2027-06-30", id_="EB002")
    seen = Seen(as_comment(document(customer(policies=(blocking, excepted)))))

    assert "policy EB001" in seen.unfolded
    assert "EB002" not in seen.unfolded
    assert "1 blocking, 1 excepted" in seen.words


def test_several_customers_have_a_table_and_share_their_dangers() -> None:
    names = ("acme", "beta", "demo")
    comment = as_comment(document(*[customer(name) for name in names]))
    seen = Seen(comment)

    assert comment.splitlines()[0] == "### ⚠️ 3 customers: 3 need attention"
    assert [cell for cell in seen.cells if cell in names][:3] == list(names)
    assert seen.unfolded.count("replaces node group flexible-a") == 1
    assert "acme, beta, demo: replaces" in seen.unfolded


def test_words_of_files_break_out_of_nothing() -> None:
    hostile = customer(
        HOSTILE,
        dangers=(danger(HOSTILE),),
        policies=(policy(),),
        changes=(change(HOSTILE),),
        problems=(HOSTILE,),
    )
    seen = Seen(as_comment(document(hostile, customer("demo"))))
    sound = Seen(as_comment(document(customer("plain", problems=("x",)), customer("demo"))))

    assert (seen.tags, seen.comments, seen.links) == (sound.tags, [], [])
    assert len(seen.cells) == len(sound.cells)
    assert "@ops" not in as_comment(document(hostile)).split("```diff")[0]


def test_what_a_change_does_to_services_is_seen_folded_and_whole_unfolded() -> None:
    found = SimulatedServices(trace="requests", days=7, trace_days=14, services=(served(note=HOSTILE),))
    whole, odd = (Seen(as_comment(document(it))) for it in (customer(), customer(simulated_services=found)))

    assert "Services simulated over 7 of 14 days of requests: 351 → 381 pod-hours" in whole.words
    assert {"hpa-only → calendar-floor", "200 ms → 1.25 s", "1,200"} <= set(whole.cells)
    assert (odd.tags, odd.comments) == (whole.tags, [])


def test_fifty_customers_fit_with_every_danger_in_sight() -> None:
    full = fifty()
    comment = as_comment(full)
    seen = Seen(comment)

    assert 40_000 < len(comment) < 64_000
    for one in full.customers:
        assert all(found.text in seen.unfolded for found in one.dangers)
    assert "Left out for length" in seen.unfolded
    assert "resource changes of 50 customers" in seen.unfolded


@pytest.mark.parametrize("limit", [8_000, 30_000])
@pytest.mark.parametrize("dangers_each", [0, 3, 40])
def test_no_comment_is_longer_than_asked(limit: int, dangers_each: int) -> None:
    assert len(as_comment(fifty(dangers_each), limit)) <= limit


def crowded(each: int, *, grouped: bool = False) -> PreviewDocument:
    """Forty customers with 240 dangers, each with an impact and a remedy, whose texts have `each` characters."""
    customers = [
        customer(
            f"customer-{n:02}",
            dangers=tuple(danger(f"danger {n}-{k} " + "x" * each) for k in range(6)),
            changes=(change(),) if grouped else (change(f"api-{n}"),),
        )
        for n in range(40)
    ]
    full = document(*customers)
    return replace(full, groups=change_groups(customers)) if grouped else full


@pytest.mark.parametrize(
    ("each", "table", "advice"),
    [
        (140, True, True),
        (150, False, True),  # longer than a comment with the table of customers
        (200, False, False),  # and with the advice
    ],
)
def test_near_the_limit_the_table_goes_before_the_advice_and_every_danger_stays(
    each: int,
    table: bool,
    advice: bool,
) -> None:
    full = crowded(each)
    comment = as_comment(full)
    seen = Seen(comment)

    assert 60_000 < len(comment) <= 64_000
    for one in full.customers:
        assert all(found.text in seen.unfolded for found in one.dangers)
    assert ("customer-39" in seen.cells) is table
    assert ("add a group" in seen.unfolded) is advice


def test_groups_go_before_a_danger() -> None:
    """The names of 40 stacks in a group take the room of the last dangers, which name their stacks themselves."""
    full = crowded(210, grouped=True)
    seen = Seen(as_comment(full))

    for one in full.customers:
        assert all(found.text in seen.unfolded for found in one.dangers)
    assert "group 1" not in seen.words


def test_more_dangers_than_fit_are_counted_and_the_worst_come_first() -> None:
    crowd = tuple(danger(f"danger {n} " + "x" * 200) for n in range(400))
    worst = danger("the cluster goes", Severity.BLOCKING)
    seen = Seen(as_comment(document(customer(dangers=(*crowd, worst)))))
    shown = sum(f"danger {n} x" in seen.unfolded for n in range(400))

    assert "the cluster goes" in seen.unfolded
    assert f"{400 - shown} more dangers" in seen.unfolded


def test_what_is_left_out_is_the_end_of_the_page() -> None:
    long = customer(changes=tuple(change(f"service-{n}", fields=20) for n in range(400)))
    seen = Seen(as_comment(document(long)))

    assert "resource changes of 1 customer" in seen.unfolded
    for part in ("Cost", "Coming nights", "Ownership", "Policies", "Simulated"):
        assert part in seen.words


def test_nothing_of_a_lower_rank_takes_the_room_of_what_is_left_out() -> None:
    rows = tuple(
        OwnedRow(object=f"Deployment {n}", field="spec.replicas", owner="controller", initial="0") for n in range(2000)
    )
    words = Seen(as_comment(document(customer(ownership=rows)))).words

    assert "Coming nights" in words
    assert "ownership of 1 customer, policies of 1 customer" in words
    assert "update Deployment" not in words


def test_a_difference_names_what_forces_a_replacement() -> None:
    replaced = customer(verdict=StackVerdict.ATTENTION, changes=(change(kind=ChangeKind.REPLACE),))
    comment = as_comment(document(replaced))

    assert "- replace Deployment train (forced by spec.selector)" in comment
    assert "-     spec.replicas0: 1\n+     spec.replicas0: 2" in comment


def test_the_zone_of_the_nights_is_said_once() -> None:
    seen = Seen(as_comment(document(customer())))

    assert seen.words.count("Europe/Berlin") == 1
    assert "20 Nov 12:00 → 21 Nov 00:00" in seen.words


def test_an_amount_that_is_not_known_any_more_is_said_in_words() -> None:
    lost = replace(cost(), after=Amounts(always=None, at_min=None, at_max=2500, at_usage=None))
    words = Seen(as_comment(document(customer(cost=lost)))).words

    assert "100 → unknown always, 2,000 → 2,500 at max (+500)" in words


def test_a_note_of_many_cost_lines_is_said_once() -> None:
    lines = tuple(replace(cost().lines[0], name=name, note="no price here") for name in ("fixed", "gpu"))
    words = Seen(as_comment(document(customer(cost=replace(cost(), lines=lines))))).words

    assert words.count("no price here") == 1
    assert "fixed, gpu: no price here" in words
