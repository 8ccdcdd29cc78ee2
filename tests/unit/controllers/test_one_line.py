"""Text of other programs in messages of one line."""

from controllers.one_line import one_line


def test_lines_and_indentation_become_single_spaces() -> None:
    assert one_line(ValueError("while parsing\n    a block\r\n\tmapping \n")) == "while parsing a block mapping"
