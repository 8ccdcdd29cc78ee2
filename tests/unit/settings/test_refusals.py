"""What a key that is refused says, in full. `tests/data/settings-refusals.txt` has a section and its problems below."""

import pytest

from ebbtide.settings import StackInvalid
from ebbtide.settings.load import stack_of_text
from tests.builders.settings import shortest
from tests.paths import DATA

NAME = "Pulumi.acme.yaml"


def cases() -> dict[str, list[str]]:
    """The problems of each section."""
    cases: dict[str, list[str]] = {}
    section = ""
    for line in (DATA / "settings-refusals.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            cases[section].append(line.strip())
        else:
            section = line
            cases[section] = []
    return cases


def file_with(section: str) -> str:
    """The shortest legal file with this section instead of its own."""
    key = section.partition(" ")[0]
    text = shortest()
    if key == "ebbtide:workers:":
        text = text[: text.index(f"  {key}")]
    return f"{text}  {section}\n"


@pytest.mark.parametrize(
    ("section", "problems"), cases().items(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_refused_key_is_told_with_what_is_wanted(section: str, problems: list[str]) -> None:
    with pytest.raises(StackInvalid) as refused:
        stack_of_text(file_with(section), stack="acme", file=NAME)

    told = [f"{problem.code} {str(problem).partition(': ')[2]}" for problem in refused.value.problems]
    assert told == problems
