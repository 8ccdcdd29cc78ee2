"""What may be asked of the playground, and how a wrong wish is answered."""

import pytest
from control_plane.playground.options import Options, Unplayable, parse

WRONG = {
    "a time of day that is none": (["--start", "25:00"], "--start"),
    "no time at all": (["--minutes", "0"], "--minutes"),
    "not a number": (["--minutes", "nan"], "--minutes"),
    "a year": (["--hours", "8760"], "--hours"),
    "no port": (["--port", "0"], "--port"),
    "two stacks": (["demo", "other"], "other"),
    "an option that is none": (["--speed", "9"], "--speed"),
}


def test_without_a_wish_a_night_takes_five_minutes() -> None:
    options = parse([])

    assert (options.stack, options.minutes, options.hours, options.start) == ("demo", 5, 16, None)
    assert options.speed == 16 * 60 / 5


def test_a_start_is_local_time() -> None:
    assert parse(["acme", "--start", "7:05", "--plain"]) == Options(stack="acme", start=7 * 60 + 5, plain=True)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_wish_is_named_in_one_line(name: str) -> None:
    arguments, culprit = WRONG[name]

    with pytest.raises(Unplayable) as refused:
        parse(arguments)

    assert culprit in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
