"""The one line of a program's output that says why it ended. Pure.

The last line is rarely it: a Go panic is followed by the stacks of all its threads, and etcd writes JSON, which a full
disk may cut off.
"""

import re

_LIMIT = 300  # characters
_FATAL = re.compile(r'^(panic: |fatal error: |runtime: |F\d{4} |Error: |error: )|"level":"(fatal|panic)"')
_ERROR = re.compile(r'^E\d{4} |"level":"error"')
_HEAD = re.compile(r"^[EFIW]\d{4} [\d:.]+ +\d+ [^ ]+\] ")  # day, time, process, file and line
_JSON_WORDS = re.compile(r'"(?:msg|error)":"((?:[^"\\]|\\.)*)')


def last_words(log: str) -> str:
    """The first line that is fatal, or else the last error, or else the last line."""
    lines = [line for line in log.splitlines() if line.strip()]
    fatal = [line for line in lines if _FATAL.search(line)][:1]
    errors = [line for line in lines if _ERROR.search(line)][-1:]
    return next((_one_line(line) for line in (*fatal, *errors, *lines[-1:])), "no output")


def first_error(output: str) -> str:
    """Of a Go build: what it fetches and the names of packages are no error."""
    lines = [line for line in output.splitlines() if not line.startswith(("go: downloading ", "# "))]
    return next((_one_line(line) for line in lines if line.strip()), "no output")


def _one_line(line: str) -> str:
    told: list[str] = _JSON_WORDS.findall(line) if line.startswith("{") else []
    text = ": ".join(told) or _HEAD.sub("", line).strip()
    return text if len(text) <= _LIMIT else f"{text[:_LIMIT]}…"
