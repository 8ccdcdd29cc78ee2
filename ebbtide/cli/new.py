"""`ebbtide new`: write the stack file of a new customer from a few questions or from flags.

Each answer is checked in an otherwise valid stack file, so a wrong one gets the message of `ebbtide check`; on a
terminal the question is repeated. An existing file is never changed.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ebbtide.cli.console import fail
from ebbtide.settings import StackInvalid
from ebbtide.settings.file.contents import files_in
from ebbtide.settings.file.keys import HOURS, WORKERS
from ebbtide.settings.file.problems import Location, value_at
from ebbtide.settings.first_file import Answers, Base, file_text, problems_of, read_base
from ebbtide.settings.load import stack_path
from ebbtide.settings.sections.calendars import country_of_zone, usual_days_left_out
from ebbtide.text.files import Unwritable, write_file

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_VALID = Answers(
    customer="acme",
    timezone="UTC",
    hours="mon-fri 08:00-18:00",
    region="us-east-1",
    image="registry.example.com/ml/train:1",
    queue="train",
    longest_job="12h",
    gpu=False,
)
"""Valid values for the other answers while one answer is checked."""

_REGION_NEAR = {
    "Africa": "af-south-1",
    "America": "us-east-1",
    "Asia": "ap-southeast-1",
    "Australia": "ap-southeast-2",
    "Europe": "eu-central-1",
    "America/Sao_Paulo": "sa-east-1",
    "Asia/Kolkata": "ap-south-1",
    "Asia/Seoul": "ap-northeast-2",
    "Asia/Tokyo": "ap-northeast-1",
    "Europe/London": "eu-west-2",
    "Europe/Paris": "eu-west-3",
}
"""Region by time zone, otherwise by continent, where it may be a few thousand kilometres away."""


@dataclass(frozen=True, slots=True)
class Question:
    field: str  # of `Answers`
    option: str
    words: str
    default: Callable[[Mapping[str, str]], str]  # from the answers so far; "" if a guess could do harm
    at: Location = ()  # a base with this value answers the question


def _none(_: Mapping[str, str]) -> str:
    return ""


def _region_near(answers: Mapping[str, str]) -> str:
    """Return a region on the continent of the time zone, so that data stays there by default."""
    zone = answers.get("timezone", "")
    return _REGION_NEAR.get(zone) or _REGION_NEAR.get(zone.partition("/")[0], "")


QUESTIONS = (
    Question(
        "timezone", "--timezone", "Time zone of the people who work there (Europe/Berlin)", _none, (HOURS, "timezone")
    ),
    Question("hours", "--hours", "Business hours; other days are closed", lambda _: _VALID.hours, (HOURS, "week")),
    Question("region", "--region", "AWS region", _region_near),
    Question("queue", "--queue", "First queue", lambda _: _VALID.queue, (WORKERS,)),
    Question("image", "--image", "Image of its workers (registry.example.com/ml/train:1)", _none, (WORKERS,)),
    Question(
        "longest_job",
        "--longest-job",
        "Longest job; a stopping worker gets this time to finish (12h)",
        _none,
        (WORKERS,),
    ),
)


_BASE_HELP = (
    "Build on this base, such as bases/production.yaml (relative to stacks/): its values are neither asked nor written."
)
_YES_HELP = "Do not ask. Requires --timezone, --image and --longest-job, and --region for a zone such as UTC."


@command.command(
    epilog='Example: ebbtide new acme --timezone Europe/Berlin --hours "mon-thu 08:00-18:00, fri 08:00-15:00" '
    "--image registry.example.com/ml/train:1 --longest-job 12h --yes"
)
def new(
    customer: Annotated[
        str, typer.Argument(metavar="CUSTOMER", help="Customer name; also the cluster's name and a cost tag.")
    ],
    *,
    timezone: Annotated[str | None, typer.Option(help="IANA time zone, such as Europe/Berlin.")] = None,
    hours: Annotated[
        str | None, typer.Option(help='Business hours, such as "mon-thu 08:00-18:00, fri 08:00-15:00".')
    ] = None,
    region: Annotated[str | None, typer.Option(help="AWS region, such as eu-central-1.")] = None,
    image: Annotated[str | None, typer.Option(help="Image of the first pool's workers.")] = None,
    queue: Annotated[str | None, typer.Option(help="The first pool's queue.")] = None,
    longest_job: Annotated[str | None, typer.Option(help="Longest run time of a job, such as 12h.")] = None,
    gpu: Annotated[bool | None, typer.Option(help="Request one GPU for each worker.")] = None,
    base: Annotated[str | None, typer.Option(metavar="FILE", help=_BASE_HELP)] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help=_YES_HELP)] = False,
) -> None:
    """Write the stack file of a new customer."""
    options = {"timezone": timezone, "hours": hours, "region": region, "image": image, "queue": queue}
    flags = {field: value for field, value in {**options, "longest_job": longest_job}.items() if value is not None}
    _refuse("customer", customer, "CUSTOMER")
    path = stack_path(customer)
    _refuse_existing(path)
    try:
        known = None if base is None else read_base(base, str(path), files_in(path.parent))
    except StackInvalid as invalid:
        fail(invalid)
    questions = _open_questions(known, flags)
    if known and known.timezone:
        flags.setdefault("timezone", known.timezone)  # for the default of the region
    ask = _from_dialogue if on_terminal() and not yes else _from_flags
    try:
        answers = ask(customer, questions, flags, gpu)
    except typer.Abort:
        fail("\ninterrupted; nothing was written", code=130)
    _refuse_existing(path)  # again: questions take their time
    if known is not None and (problems := problems_of(answers, str(path), known)):
        fail("on this base the stack file would not be valid; nothing was written:", *problems)
    try:
        write_file(path, file_text(answers, known))
    except Unwritable as error:
        fail(error)
    typer.echo(f"written: {path}")
    if known is None or value_at(known.values, (HOURS, "holidays")) is None:
        for line in _left_out(answers.timezone or flags.get("timezone", "")):
            typer.echo(line)
    plan = f"ebbtide preview {customer}; ebbtide simulate {customer} --trace FILE"
    typer.echo(f"next: ebbtide check {customer}; {plan}; pulumi stack init {customer}")


def _left_out(timezone: str) -> Iterator[str]:
    """Yield the note about usual days that a country's list of holidays leaves out."""
    country = country_of_zone(timezone)
    days = usual_days_left_out(country, datetime.now(UTC).year) if country else {}
    if days:
        dates = ", ".join(f'"{day}"' for day in days)
        yield (
            f"note: the public holidays of {country} leave out {', '.join(days.values())}, which are working days by "
            f"law; with holidays: {{ country: {country} }} add those that you take, such as closed: [{dates}]"
        )


def on_terminal() -> bool:
    return sys.stdin.isatty()


def _open_questions(base: Base | None, flags: Mapping[str, str]) -> list[Question]:
    """Return the questions that the base does not answer. A flag for a new pool opens all questions about the pool."""
    flagged = {question.at for question in QUESTIONS if question.field in flags}
    return [
        question
        for question in QUESTIONS
        if not (base and question.at) or question.at in flagged or value_at(base.values, question.at) is None
    ]


_UNANSWERED = dict.fromkeys((question.field for question in QUESTIONS), "")


def _from_dialogue(
    customer: str,
    questions: Sequence[Question],
    flags: Mapping[str, str],
    gpu: bool | None,  # noqa: FBT001 - as the flag has it
) -> Answers:
    """Ask for each answer that is missing on the command line or wrong."""
    asked = [question.field for question in questions]
    answers = {field: answer for field, answer in flags.items() if field not in asked}
    for question in questions:
        answer = flags.get(question.field)
        while answer is None or _is_refused(question.field, answer, question.option):
            answer = str(typer.prompt(question.words, default=question.default(answers) or None))
        answers[question.field] = answer
    needs = bool(gpu)
    if gpu is None and "queue" in answers:
        needs = typer.confirm("Do its workers need a GPU each?", default=False)
    return Answers(customer=customer, gpu=needs, **{**_UNANSWERED, **answers})


def _from_flags(
    customer: str,
    questions: Sequence[Question],
    flags: Mapping[str, str],
    gpu: bool | None,  # noqa: FBT001 - as the flag has it
) -> Answers:
    """Use only flags and defaults; all missing and wrong answers are reported together."""
    answers = dict(flags)
    for question in questions:
        if question.field not in answers and (default := question.default(answers)):
            answers[question.field] = default
    wrong = [
        question.field
        for question in questions
        if question.field in answers and _is_refused(question.field, answers[question.field], question.option)
    ]
    asked = [question.field for question in questions]
    no_zone = "timezone" in asked and ("timezone" not in answers or "timezone" in wrong)  # the region depends on it
    missing = [
        question.option
        for question in questions
        if question.field not in answers and not (question.field == "region" and no_zone)
    ]
    if missing:
        typer.echo(f"wanted {', '.join(missing)} too: they have no default", err=True)
    if missing or wrong:
        raise typer.Exit(2)
    defaults = [_default_text(question, answers) for question in questions if question.field not in flags]
    if defaults:
        typer.echo(f"not given, so: {', '.join(defaults)}", err=True)
    return Answers(customer=customer, gpu=bool(gpu), **{**_UNANSWERED, **answers})


def _default_text(question: Question, answers: Mapping[str, str]) -> str:
    value = answers[question.field]
    text = f'{question.option} "{value}"' if " " in value else f"{question.option} {value}"
    near = f" (near {answers['timezone']}; it cannot be changed later)" if question.field == "region" else ""
    return f"{text}{near}"


def _is_refused(field: str, answer: str, option: str) -> bool:
    """True if the settings refuse an answer; then the reason is printed."""
    problems = problems_of(replace(_VALID, **{field: answer}), option)
    for problem in problems:
        typer.echo(str(problem), err=True)
    return bool(problems)


def _refuse(field: str, answer: str, option: str) -> None:
    if _is_refused(field, answer, option):
        raise typer.Exit(2)


def _refuse_existing(path: Path) -> None:
    if path.exists():
        fail(f"{path}: already exists and is not changed; edit it, or choose another name")
