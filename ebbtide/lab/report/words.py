"""Text of pages."""


def glued(text: str) -> str:
    """Return a figure and its unit with no-break spaces, so that a page keeps the two on one line."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")
