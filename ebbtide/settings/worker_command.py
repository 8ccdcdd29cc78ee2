"""The command of a pool's workers: the default one, and a parser that reads any other as its shell and program do.

Programs are RQ, django-rq and Celery. Only certain values are returned: a value that a shell or Kubernetes expands is
None, several worker commands count as none, and an unknown option hides the queues.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Flag, auto
from itertools import pairwise

from ebbtide.settings.sections.workers import SourceKind, WorkerSettings

SAFE_WORKER = "ebbtide.jobs.rq_worker.SafeWorker"

# RQ's stock worker looks for dead workers' jobs only between two pops, and a pop blocks for the worker's time to live
# less 15 s. Both must be short, or an abandoned job waits for minutes. The safe worker looks more often by itself; its
# commands keep both arguments, since a change would restart the pods.
_MAINTENANCE_SECONDS = 40
_WORKER_TTL_SECONDS = 60


def worker_command(settings: WorkerSettings) -> list[str]:
    """Return the command, without a shell, so that signals reach the worker; empty for the image's command.

    No argument contains a password. RQ runs with its scheduler: at zero replicas no process moves due jobs to the
    queue, so the started worker must. An image without a safe stop may lack the safe worker class, so it gets RQ's.
    """
    if settings.command or settings.source.kind is not SourceKind.RQ:
        return list(settings.command)
    worker_class = ["--worker-class", SAFE_WORKER] if settings.safe_stop else []
    limits = ["--maintenance-interval", str(_MAINTENANCE_SECONDS), "--worker-ttl", str(_WORKER_TTL_SECONDS)]
    return ["rq", "worker", *worker_class, "--with-scheduler", *limits, *settings.source.queues]


class WorkerProgram(Flag):
    RQ = auto()
    RQ_POOL = auto()  # `rq worker-pool`
    DJANGO_RQ = auto()
    DJANGO_RQ_POOL = auto()
    CELERY = auto()


ANY_RQ = WorkerProgram.RQ | WorkerProgram.RQ_POOL | WorkerProgram.DJANGO_RQ | WorkerProgram.DJANGO_RQ_POOL


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOption:
    """An option of a program's command line. `names` has all spellings, the one to show first."""

    programs: WorkerProgram
    names: tuple[str, ...]
    is_flag: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCommand:
    """One worker's command line. A value is None if it cannot be read, "" for a flag; an option's last value counts."""

    program: WorkerProgram
    options: Mapping[str, str | None]  # by the option's first name
    arguments: tuple[str, ...] | None  # RQ's queues; None if they cannot be read
    variables: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])  # set in front of the program
    behind_shell: bool = False  # a shell remains its parent, and forwards no signal


_UNREADABLE = re.compile(r"[$`*?]")
"""Characters that a shell or Kubernetes expands."""
_SUBSTITUTION = re.compile(r"[$<>]\([^()]*\)|`[^`]*`")
_LEFT_SUBSTITUTION = re.compile(r"[$<>]\(|`|<<")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_SHELL = re.compile(r"sh|ash|dash|bash|zsh|ksh")
_SCRIPT_OPTION = re.compile(r"-[a-z]*c")
_REDIRECTION = re.compile(r"[<>]+[&|]?|&>+")
_OPERATOR = re.compile(r"[();&|]+")
_ONE_OPERATOR = re.compile(r"&&|\|\||\|&|;;|.")
"""One of several adjacent operators, as in `);`."""
_TURNS_INTO_THE_LAST_COMMAND = ("bash", "zsh", "ksh")
_DJANGO = ("manage.py", "django-admin", "django")


def read_command(words: Sequence[str], options: Iterable[CommandOption]) -> WorkerCommand | None:
    """Return the worker command in the words of a container; None if there is none, or more than one."""
    known = tuple(options)
    found = [command for command in (_parsed(*part, known) for part in _simple_commands(words)) if command is not None]
    return found[0] if len(found) == 1 else None


# --- the shell --------------------------------------------------------------------------------------------------------


def _simple_commands(words: Sequence[str]) -> Sequence[tuple[Sequence[str], bool]]:
    """Return the simple commands, each with True if a shell remains its parent."""
    for place, shell in enumerate(map(_base, words)):
        if _SHELL.fullmatch(shell) and (script := _script_of(words[place + 1 :])) is not None:
            return _script(script, shell)
    if len(words) == 1 and " " in words[0].strip():
        return _script(words[0], "")  # the image's program is a shell, perhaps one that becomes the command
    return [(words, False)]


def _script_of(arguments: Sequence[str]) -> str | None:
    for before, option in pairwise(("", *arguments)):
        if _SCRIPT_OPTION.fullmatch(option):
            return next(iter(arguments[arguments.index(option) + 1 :]), None)
        if not option.startswith(("-", "+")) and not before.endswith("o"):  # as in `-o pipefail`
            return None
    return None


def _script(text: str, shell: str) -> Sequence[tuple[Sequence[str], bool]]:
    joined = _SUBSTITUTION.sub("$", text.replace("\\\n", " "))
    if _LEFT_SUBSTITUTION.search(joined):
        return ()
    try:
        tokens = [token for line in joined.splitlines() for token in (*_tokens(line), ";")]
    except ValueError:
        return ()
    while tokens and tokens[-1] == ";":
        tokens.pop()
    parts, operators, redirected = _split(tokens)
    trapped = any(part[:1] == ["trap"] for part in parts)
    commands: list[tuple[Sequence[str], bool]] = []
    for place, part in enumerate(parts):
        before, after = operators[place], operators[place + 1]
        in_child = {"|", "|&", "(", ")"} & {*before, *after} or "&" in after
        last = place == len(parts) - 1 and shell in _TURNS_INTO_THE_LAST_COMMAND
        becomes = last and place not in redirected and part[:1] != ["time"]  # bash acts after both, so it does not exec
        replaced = not in_child and ("exec" in part or becomes)
        commands.append((part, bool(shell) and not (replaced or trapped)))
    return commands


def _tokens(line: str) -> Sequence[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return [*lexer]


def _split(tokens: Sequence[str]) -> tuple[list[list[str]], list[list[str]], set[int]]:
    """Return the words of each simple command, the operators around them, and the places of redirected commands."""
    parts: list[list[str]] = [[]]
    operators: list[list[str]] = [[]]
    redirected: set[int] = set()
    rest = iter(tokens)
    for token in rest:
        if _REDIRECTION.fullmatch(token):
            if parts[-1] and parts[-1][-1].isdecimal():
                parts[-1].pop()  # the descriptor of `2>&1`
            next(rest, "")
            redirected.add(len(parts) - 1)
        elif _OPERATOR.fullmatch(token):
            if parts[-1]:
                parts.append([])
                operators.append([])
            operators[-1] += _ONE_OPERATOR.findall(token)
        else:
            parts[-1].append(token)
    if not parts[-1]:
        parts.pop()
    else:
        operators.append([])
    return parts, operators, redirected


# --- the program ------------------------------------------------------------------------------------------------------


def _parsed(words: Sequence[str], behind_shell: bool, options: Sequence[CommandOption]) -> WorkerCommand | None:  # noqa: FBT001 - one of two results of the shell
    for place, word in enumerate(words):
        start = _start(words, place, _base(word))
        if start is not None:
            program, begin = start
            by_name = {name: option for option in options if program in option.programs for name in option.names}
            values, arguments, certain = _read_options(words[begin:], by_name)
            if program is WorkerProgram.CELERY and arguments[:1] != ("worker",):
                return None
            assigned = [match for match in map(_ASSIGNMENT.fullmatch, words[:place]) if match]
            variables = {match[1]: _readable(match[2]) for match in assigned}
            return WorkerCommand(
                program=program,
                options=values,
                arguments=arguments if certain else None,
                variables=variables,
                behind_shell=behind_shell,
            )
    return None


def _start(words: Sequence[str], place: int, name: str) -> tuple[WorkerProgram, int] | None:
    """Return the program that begins at this word, and the place of its first argument."""
    following = words[place + 1] if place + 1 < len(words) else ""
    if name in ("rq", "rq.cli") and following in ("worker", "worker-pool"):
        return (WorkerProgram.RQ if following == "worker" else WorkerProgram.RQ_POOL), place + 2
    if name in ("rqworker", "rqworker-pool"):
        django = place > 0 and _base(words[place - 1]) in _DJANGO
        if name == "rqworker-pool":
            return (WorkerProgram.DJANGO_RQ_POOL, place + 1) if django else None
        return (WorkerProgram.DJANGO_RQ if django else WorkerProgram.RQ), place + 1
    return (WorkerProgram.CELERY, place + 1) if name == "celery" else None


def _read_options(
    words: Sequence[str], options: Mapping[str, CommandOption]
) -> tuple[Mapping[str, str | None], tuple[str, ...], bool]:
    """Return the values, the arguments, and whether all words could be read."""
    values: dict[str, str | None] = {}
    arguments: list[str] = []
    certain = True
    rest = iter(words)
    for word in rest:
        if word == "--":
            arguments += rest
        elif not word.startswith("-"):
            arguments.append(word)
        else:
            certain = _read_option(word, rest, options, values) and certain
    certain = certain and all(_readable(argument) is not None for argument in arguments)
    return values, tuple(arguments), certain


def _read_option(
    word: str, rest: Iterator[str], options: Mapping[str, CommandOption], values: dict[str, str | None]
) -> bool:
    """Add the options of one word to the values; return False if one of them is unknown."""
    name, equals, value = word.partition("=")
    option = options.get(name)
    if option is not None and (not equals or word.startswith("--")):
        values[option.names[0]] = "" if option.is_flag else _readable(value if equals else next(rest, ""))
        return True
    if word.startswith("--"):
        return False
    for place, letter in enumerate(word[1:], start=2):
        option = options.get(f"-{letter}")
        if option is None:
            return False
        if not option.is_flag:
            values[option.names[0]] = _readable(word[place:] or next(rest, ""))
            return True
        values[option.names[0]] = ""
    return True


def _readable(value: str) -> str | None:
    return None if _UNREADABLE.search(value) else value


def _base(word: str) -> str:
    return word.rpartition("/")[2]
