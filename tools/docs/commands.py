"""The reference of the command line, generated from the commands."""

from collections.abc import Iterator
from typing import Any

from typer import Context
from typer.main import get_command

from ebbtide.cli.__main__ import app
from tools.docs.tables import table


def commands() -> str:
    """Return one section per command, in the order of `ebbtide --help`, with a table of its arguments and options."""
    group = get_command(app)
    return "\n".join(_sections(group, Context(group, info_name="ebbtide")))


def _sections(command: Any, context: Context) -> Iterator[str]:
    children: list[str] = command.list_commands(context) if hasattr(command, "list_commands") else []
    yield _section(command, context)
    for name in children:
        _, child, _ = command.resolve_command(context, [name])
        yield from _sections(child, Context(child, info_name=name, parent=context))


def _section(command: Any, context: Context) -> str:
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [f"## `{context.command_path}`\n", f"{' '.join((command.help or '').split())}\n"]
    lines.append(f"    {context.command_path} {usage}\n")
    records = [record for parameter in command.get_params(context) if (record := parameter.get_help_record(context))]
    rows = [(f"`{_line(name)}`", _line(meaning)) for name, meaning in records if not name.startswith("--help")]
    if rows:
        lines.append(table(("argument or option", "meaning"), rows))
    if command.epilog:
        lines.append(f"{command.epilog.replace('Example: ', 'Example: `', 1)}`\n")
    return "\n".join(lines)


def _line(text: str) -> str:
    return " ".join(text.split())
