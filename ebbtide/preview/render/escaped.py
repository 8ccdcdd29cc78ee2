"""Text from files inside GitHub's Markdown: shown as it is written, and never more than text.

A stack file of a pull request is written by whoever opens it. Its words must not end a table or a fold, ping a team,
link an issue, hide in a comment of HTML or start a formula. So every letter that could do so becomes a numeric entity,
which GitHub Flavored Markdown never takes for markup (CommonMark, "Entity and numeric character references").

Traps: mentions and issue numbers are looked for after the entities are gone, so there an invisible space must part
the sign from what follows; a code span would take the entities literally.
"""

import re

_MARKUP = re.compile(r"[&<>|`*_~\[\]\\!$#]|:(?=[A-Za-z+-])")  # the colon: of an emoji
_SPACE = "\N{ZERO WIDTH SPACE}"


def one_line(text: str) -> str:
    """No line end, no cursor movement, no turned direction: what cannot be printed is shown as its code."""
    return "".join(
        letter if letter.isprintable() else " " if letter in "\n\r\t" else ascii(letter)[1:-1] for letter in text
    )


def escaped(text: str) -> str:
    """For a sentence, a table's cell or the text of a tag."""
    parted = one_line(text).replace("@", f"@{_SPACE}")
    parted = re.sub(r"#(?=\w)", f"#{_SPACE}", parted)
    parted = re.sub(r"(?i)(gh)-(?=\d)", rf"\1-{_SPACE}", parted)
    parted = re.sub(r"(?i)(:)(?=//)|(www)(?=\.)", lambda match: match.group() + _SPACE, parted)
    return _MARKUP.sub(lambda match: f"&#{ord(match.group())};", parted)


def code(text: str) -> str:
    """A name or a value, in the letters of code."""
    return f"<code>{escaped(text)}</code>" if text else ""


def fenced(lines: list[str]) -> str:
    """Lines of a difference. Each begins with `+`, `-`, `!`, `#` or `@`, so none can close the fence."""
    return "```diff\n" + "\n".join(one_line(line) for line in lines) + "\n```"
