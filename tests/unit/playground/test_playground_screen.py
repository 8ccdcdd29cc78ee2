"""The screen fits its terminal, and a node's block says what is on it."""

import io

import pytest
from control_plane.playground.screen import Screen, View, block, cells_of, picture
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from tests.unit.playground.moments import leaving, node_seen, seen, view

SHARES = st.dictionaries(st.sampled_from(["fixed", "flexible", "worker", "system"]), st.floats(0.001, 1.0))
MANY = [node_seen(f"flexible-{number}") for number in range(1, 41)]


def shown(this: View, width: int = 100, height: int = 40) -> list[str]:
    console = Console(width=width, height=height, file=io.StringIO(), color_system=None)
    with console.capture() as text:
        console.print(Screen(this), height=height)
    return text.get().splitlines()


@pytest.mark.parametrize(("width", "height"), [(100, 40), (80, 30), (200, 60)])
def test_it_fits_and_fills_its_terminal(width: int, height: int) -> None:
    lines = shown(view(*MANY, happenings=100), width, height)

    assert len(lines) <= height
    assert max(len(line) for line in lines) <= width
    assert "happening 99" in lines[-1] or any("happening 99" in line for line in lines)


def test_the_last_happening_comes_first_and_old_ones_fall_off() -> None:
    lines = shown(view(node_seen(), happenings=100), height=30)
    told = [line.split()[-1] for line in lines if "happening " in line]

    assert told == [str(number) for number in range(99, 99 - len(told), -1)]
    assert 1 < len(told) < 30


def test_what_is_to_be_pasted_stands_alone_in_its_line() -> None:
    lines = [line.strip() for line in shown(view())]

    assert "export KUBECONFIG=/tmp/x" in lines


def test_it_says_what_holds_and_what_it_costs() -> None:
    text = "\n".join(shown(view(node_seen(), seen=seen(nodes=[node_seen()], budgets={"api": True}, unplaced=1))))

    assert "night: flexible budgets are open until 07:45" in text
    assert "api\N{NO-BREAK SPACE}open" in text
    assert "$1.50 an hour" in text
    assert "1 pod without a node" in text


def test_a_block_shows_categories_room_and_leaving() -> None:
    shares = {"flexible": 0.5, "worker": 0.25}

    assert block(node_seen("flexible-7", shares=shares), 8).plain == "7[▓▓▓▓▒▒··]"
    assert block(leaving("flexible-7", shares=shares), 8).plain == "7<▓▓▓▓▒▒··>"
    assert block(node_seen("flexible-1795272046", shares={}), 4).plain == "[····]"


@settings(max_examples=40, deadline=None)
@given(shares=SHARES, cells=st.integers(1, 10))
def test_a_block_is_never_wider_than_its_cells_and_hides_nothing_that_has_room(
    shares: dict[str, float], cells: int
) -> None:
    found = cells_of(node_seen(shares=shares), cells)

    assert sum(count for _, count in found) <= cells
    assert all(count >= 1 for _, count in found)
    if sum(shares.values()) * cells + len(shares) <= cells:
        assert {category for category, _ in found} == set(shares)


def test_a_picture_loads_nothing() -> None:
    svg = picture(view(leaving()))

    assert svg.startswith("<svg")
    assert "flexible" in svg
    assert "url(" not in svg.replace("url(#", "")
    assert svg.count("http") == svg.count("http://www.w3.org/2000/svg") + svg.count("http://127.0.0.1")
