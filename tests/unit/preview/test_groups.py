"""Customers with equal changes are one group, shown once; blocked customers and exceptions keep their names."""

from collections.abc import Sequence
from dataclasses import replace
from io import StringIO

from rich.console import Console

from ebbtide.findings import Severity
from ebbtide.preview.document import Amounts, CustomerPreview, PreviewDocument, StackVerdict
from ebbtide.preview.groups import change_groups, cost_total
from ebbtide.preview.render.comment import LIMIT, as_comment
from ebbtide.preview.render.text import text_parts
from tests.builders.preview import Seen, change, cost, customer, danger, nights, policy

OTHER = (change("prep"), change("api"))


def _page(customers: Sequence[CustomerPreview]) -> PreviewDocument:
    return PreviewDocument(
        against="main", customers=tuple(customers), groups=change_groups(customers), total=cost_total(customers)
    )


def _many(number: int = 200) -> list[CustomerPreview]:
    """Equal changes in all but three customers: a blocked one, one with another change, one with a problem."""
    customers = [
        customer(f"x{n:03}", changes=(replace(change(), urn=f"urn:pulumi:x{n:03}::ebbtide::Deployment::train"),))
        for n in range(number)
    ]
    customers[3] = customer(
        "x003", verdict=StackVerdict.BLOCKED, dangers=(danger("everything goes", Severity.BLOCKING),)
    )
    customers[5] = customer("x005", changes=OTHER)
    customers[7] = customer("x007", problems=("cannot be read",), incomplete=True)
    return customers


def _text(page: PreviewDocument, *, full: bool) -> str:
    out = StringIO()
    for part in text_parts(page, full=full):
        Console(file=out, width=120).print(part)
    return out.getvalue()


def test_changes_are_equal_whatever_the_stacks_are_called() -> None:
    (group,) = change_groups(_many(12))

    assert group.stacks == tuple(f"x{n:03}" for n in range(12) if n not in {3, 5, 7})
    assert [part.name for part in group.changes] == ["train"]


def test_one_other_value_makes_an_exception() -> None:
    first, second, third = (customer(name) for name in ("a", "b", "c"))
    other = replace(change(), fields=(replace(change().fields[0], after="3"),))

    assert [group.stacks for group in change_groups([first, second, replace(third, changes=(other,))])] == [("a", "b")]


def test_customers_with_other_verdicts_or_new_ones_are_in_no_common_group() -> None:
    sound = customer("a", verdict=StackVerdict.SAFE)

    assert change_groups([sound, customer("b"), customer("c", verdict=StackVerdict.SAFE, new=True)]) == ()


def test_the_largest_group_comes_first() -> None:
    few, many = [customer(n, changes=OTHER) for n in "ab"], [customer(n) for n in "cde"]

    assert [len(group.stacks) for group in change_groups([*few, *many])] == [3, 2]


def test_two_hundred_customers_fit_into_a_comment_with_the_change_shown_once() -> None:
    comment = as_comment(_page(_many()))
    seen = Seen(comment)

    assert len(comment) <= LIMIT
    assert "group 1: 197 stacks, the same change" in seen.words
    assert "update Deployment prep" in comment  # of an exception
    assert comment.count("update Deployment train") == 3  # of the group, the blocked customer and the unreadable one
    assert all(one.stack in seen.words for one in _many())


def test_blocked_customers_and_dangers_of_members_are_named_unfolded() -> None:
    customers = _many()
    customers[9] = replace(customers[9], dangers=(danger("loses a disk"),))
    seen = Seen(as_comment(_page(customers)))

    assert "x003: everything goes" in seen.unfolded
    assert "x009: loses a disk" in seen.unfolded
    assert "the 197 stacks of group 1, x005, x007: replaces" in Seen(as_comment(_page(_many()))).unfolded


def test_policies_that_warn_are_named_since_they_may_be_the_only_reason_of_a_verdict() -> None:
    excepted = policy(excepted="until 2027-01-31")
    customers = [customer(f"x{n}", dangers=(), policies=(policy() if n else excepted,)) for n in range(6)]
    page = _page(customers)

    assert "policy EB012 warns of 5 stacks." in Seen(as_comment(page)).unfolded
    assert "policy EB012 warns of 5 stacks\n" in _text(page, full=False)
    assert "policies: 1 warning (EB012)" in _text(_page(customers[1:2]), full=False)


def test_dangers_that_do_not_fit_are_counted_with_their_stacks() -> None:
    customers = [
        customer(f"x{n:03}", dangers=tuple(danger(f"{n} {k} " + "x" * 300) for k in range(5))) for n in range(100)
    ]
    customers[99] = replace(customers[99], verdict=StackVerdict.BLOCKED)
    seen = Seen(as_comment(_page(customers)))

    assert "more dangers of" in seen.unfolded
    assert "blocked: x099" in seen.unfolded
    assert all(one.stack in seen.unfolded for one in customers)


def test_changes_of_a_group_that_do_not_fit_leave_its_names() -> None:
    long = tuple(change(f"service-{n}", fields=20) for n in range(400))
    comment = as_comment(_page([customer(name, changes=long) for name in ("acme", "beta")]))

    assert len(comment) <= LIMIT
    assert "changes of 2 customers" in comment
    assert {"acme", "beta"} <= set(Seen(comment).words.replace(",", " ").split())


def test_a_terminal_shows_the_group_its_dangers_and_then_the_exceptions() -> None:
    shown = _text(_page(_many(12)), full=False)
    parts = ["group 1: 9 stacks, the same change", "x000, x001", "changes in train", "x003: blocked", "x005:", "x007:"]
    places = [shown.index(part) for part in parts]

    assert places == sorted(places)
    assert "US dollars a month of 12 stacks: 1,200 → 1,800 always (+600)" in shown


def test_a_full_text_has_everything_of_a_member_and_its_changes_once() -> None:
    shown = _text(_page([customer("acme"), customer("beta")]), full=True)

    assert shown.count("spec.replicas0: 1 → 2") == 1
    assert shown.count("coming nights") == 2


def test_a_customer_whose_cost_is_unknown_has_no_dollars_in_the_table_of_all() -> None:
    shown = _text(_page([customer("acme"), customer("beta", cost=None)]), full=True)
    table = shown.partition("dangers\n")[2].splitlines()

    assert [line.split()[0] for line in table[:2]] == ["acme", "beta"]
    assert table[0].split()[-2] == "2,500"
    assert table[1].split()[-3:-1] == ["-", "-"]


def test_the_total_names_what_is_missing() -> None:
    known = cost()
    lacking = replace(known, without=((), ("gpu",)))
    guessed = replace(known, lines=tuple(replace(line, estimated=True) for line in known.lines))
    total = cost_total(
        [customer("a"), customer("b", cost=lacking), customer("c", cost=guessed), customer("d", cost=None)]
    )

    assert total is not None
    assert (total.stacks, total.after) == (3, Amounts(always=450, at_min=360, at_max=7500, at_usage=None))
    assert (total.incomplete, total.estimated, total.not_counted) == (("b",), ("c",), ("d",))
    assert cost_total([customer("a")]) is None


def test_a_cost_before_that_is_unknown_is_not_counted_as_zero() -> None:
    unknown = replace(cost(), before=None)
    total = cost_total([customer("a"), customer("b", cost=unknown), customer("c", cost=unknown, new=True)])

    assert total is not None
    assert (total.stacks, total.not_counted) == (2, ("b",))


def test_a_group_shows_what_changes_in_the_nights_of_its_members() -> None:
    coming = replace(nights(), warnings=("budgets never open",), changes=("118 h more protection a week",))
    shown = _text(_page([customer(name, nights=coming) for name in ("acme", "beta")]), full=False)

    assert shown.count("nights: 1 warning") == 1
    assert shown.count("118 h more protection a week") == 1
