"""What a terminal shows."""

from rich.console import Console, RenderableType

_WIDE = 10_000


def shown_text(shown: RenderableType, width: int = _WIDE) -> str:
    """Return the lines, without blanks at their ends."""
    console = Console(width=width, markup=False, highlight=False)
    with console.capture() as capture:
        console.print(shown)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())
