"""Tables on narrow terminals."""

from io import StringIO

from rich.console import Console, Group

from ebbtide.text.sheet import Sheet, left, right
from ebbtide.text.terminal import print_uncut, sheet_table


def test_a_table_wider_than_the_terminal_loses_no_letter() -> None:
    out = Console(file=StringIO(), width=20)
    columns = [*left("group", fold=True), *right("boots, estimated")]

    print_uncut(out, Group("nodes of a month", sheet_table(Sheet(columns=columns, rows=[("flexible", "51")]))))

    assert isinstance(out.file, StringIO)
    assert [line.split() for line in out.file.getvalue().splitlines()[1:]] == [
        ["group", "boots,", "estimated"],
        ["flexible", "51"],
    ]


def test_text_beside_a_table_is_folded_to_the_terminal() -> None:
    out = Console(file=StringIO(), width=20)

    print_uncut(
        out, Group("nodes of a month and of a year", sheet_table(Sheet(columns=left("group"), rows=[("fixed",)])))
    )

    assert isinstance(out.file, StringIO)
    assert [line.rstrip() for line in out.file.getvalue().splitlines()[:2]] == ["nodes of a month and", "of a year"]


def test_no_text_is_cut_if_a_column_is_wider_than_its_share_of_the_terminal() -> None:
    out = Console(file=StringIO(), width=40)
    columns = [*left("kind"), *left("owner", "evidence", fold=True)]
    evidence = "1 pod, no use of GPUs for 4 days; nothing since 2026-08-01;"

    print_uncut(out, sheet_table(Sheet(columns=columns, rows=[("GPU worker", "team-of-forecasts", evidence)])))

    assert isinstance(out.file, StringIO)
    printed = out.file.getvalue().split()
    assert [word for word in evidence.split() if word not in printed] == []
