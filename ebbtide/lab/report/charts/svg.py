"""SVG as text: elements, and how wide words are."""

from html import escape

_SLIM, _NARROW, _WIDE = frozenset("fijlrt.,:;'|! -()"), 4.6, 7.7  # pixels at 12.5 px, of a rather wide sans-serif


def number(value: float) -> str:
    """At most one decimal: a tenth of a pixel is finer than any screen."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def element(name: str, content: str = "", /, **attributes: str | float) -> str:
    """One element. `content` is markup; attribute values are escaped. `class_` is `class`, `_` in a name is `-`."""
    parts = [name]
    for key, value in attributes.items():
        text = number(value) if isinstance(value, int | float) else escape(value, quote=True)
        parts.append(f'{key.rstrip("_").replace("_", "-")}="{text}"')
    opening = " ".join(parts)
    return f"<{opening}>{content}</{name}>" if content else f"<{opening}/>"


def words(name: str, text: str, /, **attributes: str | float) -> str:
    """One element that holds text: names come from stack files and are escaped here, and nowhere else."""
    return element(name, escape(text), **attributes)


def label(text: str, x: float, y: float, *, class_: str = "", anchor: str = "start") -> str:
    extra = {"class_": class_} if class_ else {}
    return words("text", text, x=x, y=y, text_anchor=anchor, **extra)


def line(x1: float, y1: float, x2: float, y2: float, *, class_: str) -> str:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def text_width(text: str) -> float:
    """A generous estimate, since the reader's font is not known."""
    return sum(_NARROW if character in _SLIM else _WIDE for character in text)


def shortened(text: str, room: float) -> str:
    """`text`, cut with an ellipsis where it is wider than `room` pixels."""
    if text_width(text) <= room:
        return text
    end = next((length for length in range(len(text), 0, -1) if text_width(text[:length]) + _WIDE <= room), 0)
    return f"{text[:end].rstrip()}…"
