"""What the playground is asked to show, checked before anything is started. Each fault is one line and exit code 2."""

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_EXAMPLE = "Example: python -m control_plane.playground demo --minutes 5 --start 18:00 --hours 16"


class Unplayable(Exception):
    """There is nothing to show; the message is one line, or one line per fault of a stack file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    stack: str = "demo"
    minutes: float = 5.0  # of the show, in real time
    start: int | None = None  # minutes from local midnight; None: some time before closing
    hours: float = 16.0  # of the customer's time
    keep: bool = False
    plain: bool = False
    picture: Path | None = None
    port: int | None = None  # of the controller's own pages; None: a free one
    seed: int = 0

    @property
    def speed(self) -> float:
        """How many of the customer's seconds pass in one."""
        return self.hours * 60 / self.minutes


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Unplayable(f"playground: {message} (--help lists the options)")


def parse(arguments: Sequence[str]) -> Options:
    """Raises `Unplayable`."""
    parser = _Parser(
        prog="python -m control_plane.playground",
        description="A customer's night in a few minutes: a real control plane of this machine, no cloud account.",
        epilog=_EXAMPLE,
    )
    parser.add_argument("stack", nargs="?", default="demo", metavar="STACK", help="a name (demo) or a path")
    parser.add_argument("--minutes", type=_minutes, default=5.0, metavar="N", help="how long it takes here (default 5)")
    parser.add_argument("--start", type=_clock, metavar="HH:MM", help="local time (default: an hour before closing)")
    parser.add_argument("--hours", type=_hours, default=16.0, metavar="N", help="the customer's hours (default 16)")
    parser.add_argument("--keep", action="store_true", help="go on when the time is over, until Ctrl-C")
    parser.add_argument("--plain", action="store_true", help="one line per happening; so it is without a terminal")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="keep the busiest evening screen as an SVG")
    parser.add_argument("--port", type=_port, metavar="N", help="of the controller's pages (default: a free one)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="other jobs (default 0)")
    return Options(**vars(parser.parse_args(arguments)))


def _clock(text: str) -> int:
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"wanted a local time such as 18:00, found {text!r}")
    return int(match[1]) * 60 + int(match[2])


def _number(text: str, least: float, most: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not least <= number <= most:  # not a number is within nothing
        raise argparse.ArgumentTypeError(f"wanted a number from {least:g} to {most:g}, found {text!r}")
    return number


def _minutes(text: str) -> float:
    return _number(text, 0.1, 24 * 60)


def _hours(text: str) -> float:
    return _number(text, 0.5, 24 * 7)


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"wanted a port from 1 to 65535, found {text!r}")
    return int(text)
