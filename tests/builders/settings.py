"""Small stack files for tests: the shortest legal one, and the same with something changed."""

from pathlib import Path
from textwrap import dedent

import pytest

from ebbtide.settings import Problem, StackInvalid, StackSettings, load_stack

SHORTEST = """\
config:
  ebbtide:customer: acme
  ebbtide:businessHours: { timezone: Europe/Berlin, week: { mon-fri: "08:00-18:00" } }
  ebbtide:workers:
    train: { source: { queues: [train] }, image: "example.com/train:1", max: 4, cpu: 4, memory: 16Gi, longestJob: 12h }
"""


def shortest(*, train: str = "", hours: str = "", more: str = "") -> str:
    """The shortest legal file; `train` and `hours` are added inside their mapping, `more` below it."""
    text = SHORTEST.replace("longestJob: 12h }", f"longestJob: 12h{', ' + train if train else ''} }}")
    text = text.replace('"08:00-18:00" } }', f'"08:00-18:00" }}{", " + hours if hours else ""} }}')
    return text + "".join(f"  {line}\n" for line in dedent(more).strip("\n").splitlines())


def stack_file(text: str, folder: Path) -> Path:
    path = folder / "Pulumi.acme.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def loaded(text: str, folder: Path) -> StackSettings:
    return load_stack(str(stack_file(text, folder)))


def problems_of(text: str, folder: Path) -> tuple[Problem, ...]:
    with pytest.raises(StackInvalid) as refused:
        loaded(text, folder)
    return refused.value.problems


class Told(str):
    """The one problem as it is shown, without the file's name, and its code."""

    __slots__ = ("code",)
    code: str

    def tells(self, code: str, *values: str) -> bool:
        """Whether it is that fault, with these values: of the words nothing is asked."""
        return self.code == code and all(value in self for value in values)


def problem_of(text: str, folder: Path) -> Told:
    problems = problems_of(text, folder)
    assert len(problems) == 1, [str(problem) for problem in problems]
    return told(problems[0])


def told(problem: Problem) -> Told:
    shown = Told(str(problem).removeprefix(problem.file))
    shown.code = problem.code
    return shown
