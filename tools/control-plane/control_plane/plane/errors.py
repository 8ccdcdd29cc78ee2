"""Errors of a control plane; each message is one line for the user. A program's last words say why it ended.

ControlPlaneError
├── MissingBinaries    a program is neither found nor can it be built
└── NotStarted         it cannot be started here, or it does not answer
    └── Ended          a program ended by itself: another start, on other ports, may succeed
"""

import re


class ControlPlaneError(RuntimeError):
    """Show the message, without a traceback."""


class MissingBinaries(ControlPlaneError):
    pass


class NotStarted(ControlPlaneError):
    pass


class Ended(NotStarted):
    pass


_LIMIT = 300  # characters
_FATAL = re.compile(r'^(panic: |fatal error: |runtime: |F\d{4} |Error: |error: )|"level":"(fatal|panic)"')
_ERROR = re.compile(r'^E\d{4} |"level":"error"')
_HEAD = re.compile(r"^[EFIW]\d{4} [\d:.]+ +\d+ [^ ]+\] ")  # day, time, process, file and line
_JSON_WORDS = re.compile(r'"(?:msg|error)":"((?:[^"\\]|\\.)*)')


def last_words(log: str) -> str:
    """Return the first fatal line, else the last error, else the last line.

    The last line is rarely the reason: a Go panic is followed by the stacks of all its threads, and etcd writes JSON,
    which a full disk may cut off.
    """
    lines = [line for line in log.splitlines() if line.strip()]
    fatal = [line for line in lines if _FATAL.search(line)][:1]
    errors = [line for line in lines if _ERROR.search(line)][-1:]
    return next((_one_line(line) for line in (*fatal, *errors, *lines[-1:])), "no output")


def first_error(output: str) -> str:
    """Return the first error of a Go build, whose downloads and package names are no errors."""
    lines = [line for line in output.splitlines() if not line.startswith(("go: downloading ", "# "))]
    return next((_one_line(line) for line in lines if line.strip()), "no output")


def _one_line(line: str) -> str:
    words: list[str] = _JSON_WORDS.findall(line) if line.startswith("{") else []
    text = ": ".join(words) or _HEAD.sub("", line).strip()
    return text if len(text) <= _LIMIT else f"{text[:_LIMIT]}…"
