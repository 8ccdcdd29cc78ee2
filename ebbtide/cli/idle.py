"""`ebbtide idle`: what is paid for but unused. Read-only."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Annotated, Any

import typer
from pydantic import TypeAdapter
from rich.console import Group, RenderableType

from ebbtide.cli.cluster import Context, Kubeconfig
from ebbtide.cli.console import aws_client, fail, finish
from ebbtide.cli.options import JsonFile, PrometheusToken, PrometheusUrl, Stack
from ebbtide.monitoring.client import UnknownAnswer
from ebbtide.operate.api import CannotOperate, connect
from ebbtide.operate.idle.aws import read_aws
from ebbtide.operate.idle.claims import Claims
from ebbtide.operate.idle.finding import IdleFinding
from ebbtide.operate.idle.owners import expired
from ebbtide.operate.idle.unused import find_unused
from ebbtide.operate.prometheus import prometheus_of
from ebbtide.settings import StackInvalid, load_stack
from ebbtide.text.counts import several
from ebbtide.text.money import dollars
from ebbtide.text.sheet import DOLLARS, Cell, Sheet, left, right
from ebbtide.text.terminal import sheet_table

_COLUMNS = (
    *left("kind"),
    *left("name", fold=True),
    *right("a month", unit=DOLLARS, unknown="?"),
    *left("since"),
    *left("owner", fold=True),
    *left("expires"),
    *left("evidence", fold=True),
)

command = typer.Typer(add_completion=False, rich_markup_mode=None)


@command.command(epilog="Example: ebbtide idle demo --json idle.json")
def idle(
    stack: Stack,
    *,
    aws: Annotated[bool, typer.Option("--aws", help="Also AWS' volumes and load balancers, with your login.")] = False,
    json_file: JsonFile = None,
    prometheus: PrometheusUrl = "",
    token_file: PrometheusToken = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show what is paid for but unused: evidence, dollars a month, and since when."""
    try:
        settings = load_stack(stack)
    except StackInvalid as invalid:
        fail(invalid)
    now, code = datetime.now(UTC), 1
    claims = Claims(lambda: connect(kubeconfig, context or settings.cluster.context), settings.customer)
    findings, unread = read_aws(aws_client("idle --aws"), settings, claims, now) if aws else ([], [])
    aws_was_read = aws and not unread
    try:
        unused = find_unused(prometheus_of(settings, prometheus, token_file, context, kubeconfig), settings, now)
    except CannotOperate as error:
        if prometheus:
            fail(error, code=error.code)
        unused, code = UnknownAnswer(str(error)), error.code
    if isinstance(unused, UnknownAnswer):
        findings += expired(settings, now.date(), None)
        unread.append(unused.why)
        if not findings and not aws_was_read:
            fail(*unread, code=code)
    else:
        findings, unread = findings + unused[0], unread + unused[1]
    findings.sort(
        key=lambda found: ((found.expires or date.max) >= now.date(), -(found.usd or 0), found.kind, found.name)
    )
    listed = TypeAdapter(list[IdleFinding]).dump_python(findings, mode="json")
    document = {"schema": 1, "stack": settings.stack, "findings": listed, "unread": unread}
    finish(json_file, document, _text(listed, unread))


def _text(findings: Sequence[Mapping[str, Any]], unread: Sequence[str]) -> RenderableType:
    columns = [
        column for column in _COLUMNS if column.name == "a month" or any(found[column.name] for found in findings)
    ]
    rows: list[list[Cell]] = []
    for found in findings:
        cells = {name: str(value or "") for name, value in found.items()}
        cells |= {"a month": found["usd"], "since": cells["since"][:10]}
        rows.append([cells[column.name] for column in columns])
    least = "at least " if any(found["usd"] is None for found in findings) else ""
    total = least + dollars(sum(found["usd"] or 0 for found in findings))
    return Group(
        f"{several(len(findings), 'finding')}, {total} a month.",
        *([sheet_table(Sheet(columns=columns, rows=rows))] if findings else []),
        *(f"not known: {line}" for line in unread),
    )
