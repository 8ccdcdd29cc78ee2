"""`make playground`: a customer's day, night and morning in a few minutes, on a real control plane of this machine.

In another terminal `kubectl` and `ebbtide` look at it as at any cluster. When it ends, however it ends, no process and
no folder of it is left.

Exit codes: 0 shown to its end, 1 a part of it broke down, 2 it cannot be shown, 130 Ctrl-C.
"""

import signal
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from types import FrameType

from redis.exceptions import RedisError
from rich.console import Console
from rich.live import Live

from control_plane.plane.errors import ControlPlaneError
from control_plane.playground.options import Options, Unplayable, parse
from control_plane.playground.screen import Screen, View, picture
from control_plane.playground.show import Broken, Show
from control_plane.playground.stage import Play, prepare, stage
from control_plane.playground.story import Happening, summary
from ebbtide.demo.embedded_redis import NoRedis
from ebbtide.files import Unwritable, write_file
from ebbtide.prices.book import PricesInvalid

_BEAT = 0.25  # seconds between two looks
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Draw = Callable[[View], None]


def main(arguments: Sequence[str]) -> int:
    out = Console(highlight=False, markup=False, emoji=False)
    try:
        play = prepare(parse(arguments))
        with _signals():
            _play(play, out)
    except (Unplayable, ControlPlaneError, NoRedis, PricesInvalid, Unwritable) as error:
        print(error, file=sys.stderr)
        return 2
    except Broken as error:
        print(f"playground: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("playground: interrupted, and everything is ended", file=sys.stderr)
        return 130
    return 0


@contextmanager
def _signals() -> Generator[None]:
    """All of them end it as Ctrl-C does."""
    before = [(number, signal.signal(number, _interrupt)) for number in _SIGNALS]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _interrupt(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the handler's signature
    _deaf()
    raise KeyboardInterrupt


def _deaf() -> None:
    """No signal may cut short what clears away, as a second Ctrl-C would."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _play(play: Play, out: Console) -> None:
    began = time.monotonic()
    plain = play.options.plain or not out.is_terminal
    with ExitStack() as parts:
        on_stage = parts.enter_context(stage(play, out.print))
        parts.callback(_deaf)
        show = Show(play, on_stage, (lambda it: _line(out, show, it)) if plain else _silent)
        try:
            if plain:
                _plain(show, out, play.options)
            else:
                with Live(console=out, screen=True, auto_refresh=False) as live:
                    _run(show, play.options, lambda view: live.update(Screen(view), refresh=True))
        finally:
            _conclude(show, out, play.options, time.monotonic() - began)
    out.print("everything is ended: no process and no folder is left")


def _plain(show: Show, out: Console, options: Options) -> None:
    out.print("in another terminal:")
    for line in show.turn().paste:
        out.print(f"  {line}", soft_wrap=True)
    _run(show, options, lambda _: None)


def _run(show: Show, options: Options, draw: Draw) -> None:
    while options.keep or not show.over:
        before = time.monotonic()
        try:
            draw(show.turn())
        except RedisError as error:
            raise Broken(f"its Redis went away: {error}") from error
        time.sleep(max(0.0, before + _BEAT - time.monotonic()))


def _silent(happening: Happening) -> None:
    """The screen shows it."""


def _line(out: Console, show: Show, happening: Happening) -> None:
    out.print(f"{show.stage.config.hours.local(happening.at):%a %H:%M}  {happening.text}", soft_wrap=True)


def _conclude(show: Show, out: Console, options: Options, seconds: float) -> None:
    """Also after Ctrl-C: what was seen so far."""
    if show.last is None:
        return
    out.print()
    minutes, rest = divmod(round(seconds), 60)
    for line in summary(show.story.totals, show.last.seen, f"{minutes} min {rest:02d} s"):
        out.print(line, soft_wrap=True)
    if options.picture is not None:
        write_file(options.picture, picture(show.busiest or show.last))
        out.print(f"picture: {options.picture}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
