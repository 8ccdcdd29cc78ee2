"""Foreign text on one line."""


def one_line(text: object) -> str:
    """Return a text, such as another program's error, with one space for each run of spaces and line ends."""
    return " ".join(str(text).split())
