"""Text of others on one line."""

from ebbtide.text.one_line import collapsed, printable


def test_the_lines_of_an_error_are_joined() -> None:
    assert collapsed(ValueError(" no such key:\n\n   a\tb ")) == "no such key: a b"


def test_text_cannot_end_the_line_move_the_cursor_or_change_its_direction() -> None:
    assert printable("a\x1b[2Jb\nc\N{RIGHT-TO-LEFT OVERRIDE}d") == "a\\x1b[2Jb c\\u202ed"
