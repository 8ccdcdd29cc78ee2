"""Options of a `celery worker` command that decide how a pool counts its tasks."""

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress

_OPTIONS = {
    **dict.fromkeys(("-Q", "--queues"), "queues"),
    **dict.fromkeys(("-c", "--concurrency"), "concurrency"),
    **dict.fromkeys(("-P", "--pool"), "pool"),
    "--autoscale": "autoscale",
}
_UNKNOWN = re.compile(r"[$`*?;&|<>]")
"""Characters that a shell or Kubernetes expands."""


def celery_options(command: Sequence[str]) -> Mapping[str, str]:
    """Return the options by name. Only the command line is read, no variables and no settings of the application."""
    words = [part for word in command for part in _parts(word)]
    programs = [index for index, word in enumerate(words) if word.rpartition("/")[2] == "celery"]
    if not programs or "worker" not in words[programs[0] :]:
        return {}
    values: dict[str, str] = {}
    options = iter(words[words.index("worker", programs[0]) + 1 :])
    for word in options:
        long, equals, value = word.partition("=")
        if word in _OPTIONS:
            values[_OPTIONS[word]] = next(options, "")
        elif long.startswith("--") and equals and long in _OPTIONS:
            values[_OPTIONS[long]] = value
        elif word[:2] in ("-Q", "-c", "-P"):
            values[_OPTIONS[word[:2]]] = word[2:]
    return {name: value for name, value in values.items() if not _UNKNOWN.search(value)}


def _parts(word: str) -> Sequence[str]:
    """Split a word with blanks as a shell does."""
    if " " not in word:
        return (word,)
    with suppress(ValueError):
        return shlex.split(word)
    return ()
