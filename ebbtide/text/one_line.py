"""Foreign text on one line: `collapsed` for prose that wraps, `printable` for text that may control the terminal."""


def collapsed(text: object) -> str:
    """Return a text, such as an error message, with one space for each run of spaces and line ends."""
    return " ".join(str(text).split())


def printable(text: str) -> str:
    """Return the text without line ends, cursor movement or changes of direction.

    Line ends and tabs become spaces, other unprintable characters their codes.
    """
    return "".join(
        letter if letter.isprintable() else " " if letter in "\n\r\t" else ascii(letter)[1:-1] for letter in text
    )
