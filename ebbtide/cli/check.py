"""`ebbtide check`: is this stack file right? All its faults at once, or a short summary.

Reads the file and the shipped tables, nothing else: no cloud, no cluster, no secrets.
"""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ebbtide.settings import StackInvalid, StackSettings, load_stack, stack_names, warnings_of
from ebbtide.settings.placement import cpu_text, memory_text
from ebbtide.settings.types import format_duration
from ebbtide.settings.week import format_week

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_STACKS_HELP = "Names (demo for stacks/Pulumi.demo.yaml) or paths; none: all in stacks/."


@command.command(epilog="Example: ebbtide check demo")
def check(stacks: Annotated[list[str] | None, typer.Argument(metavar="STACK", help=_STACKS_HELP)] = None) -> None:
    """Check stack files: every fault at once, or a summary."""
    out = Console(soft_wrap=True, highlight=False, markup=False, emoji=False)
    names = stacks or list(stack_names())
    if not names:
        out.print("no stacks: there is no stacks/Pulumi.<name>.yaml here")
        raise typer.Exit(1)
    sound = [_check_one(out, name) for name in names]
    if not all(sound):
        raise typer.Exit(1)


def _check_one(out: Console, stack: str) -> bool:
    try:
        settings = load_stack(stack)
    except StackInvalid as invalid:
        count = len(invalid.problems)
        out.print(f"{_title(stack)}: {count} problem{'s' if count > 1 else ''}", style="bold red")
        for problem in invalid.problems:
            out.print(f"  {problem}")
        return False
    out.print(f"{_title(stack)}: OK", style="bold green")
    for line in summary(settings):
        out.print(f"  {line}")
    for warning in warnings_of(settings):
        out.print(f"  warning: {warning}", style="yellow")
    return True


def summary(settings: StackSettings) -> list[str]:
    """A few lines that show whether the file says what was meant."""
    hours = settings.business_hours
    lines = [f"customer {settings.customer}, open {format_week(hours.week)} ({hours.timezone}){_calendar(settings)}"]
    if settings.cluster.context is not None:
        lines.append(f"cluster  there already, {settings.place}")
    for name, labels in settings.cluster.node_selectors.items():
        lines.append(f"nodes    {name}: {', '.join(f'{key}={value}' for key, value in labels.items())}")
    for name, group in settings.node_groups.items():
        kind = "" if name == group.kind else f" ({group.kind})"
        lines.append(f"nodes    {name}{kind}: {group.min} to {group.max} of {' or '.join(group.instance_types)}")
    categories = Counter(str(workload.category) for workload in settings.workloads.values())
    if categories:
        counts = ", ".join(f"{count} {category}" for category, count in sorted(categories.items()))
        lines.append(f"services {counts}: {', '.join(settings.workloads)}")
    for name, pool in settings.workers.items():
        gpu = f", {pool.gpu} GPU" if pool.gpu else ""
        lines.append(
            f"workers  {name}: {pool.min} to {pool.max} on {pool.node_group}, {cpu_text(pool.cpu)} CPU, "
            f"{memory_text(pool.memory)}{gpu}, jobs up to {format_duration(pool.longest_job)}, "
            f"queue {', '.join(pool.source.queues)}"
        )
    lines += [
        f"planned  {o.pool}: {o.workers} workers from {o.at} for {format_duration(o.for_)}" for o in hours.overnight
    ]
    return lines


def _calendar(settings: StackSettings) -> str:
    calendar = settings.business_hours.holidays
    where = "-".join(part for part in (calendar.country, calendar.subdivision) if part)
    return f", closed on holidays of {where}" if where else ""


def _title(stack: str) -> str:
    return Path(stack).name
