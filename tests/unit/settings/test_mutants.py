"""Five hundred broken stack files: each is refused with the name of the key, and none with a traceback."""

from pathlib import Path

import pytest

from ebbtide.settings import Problem, StackInvalid, load_stack
from tests.builders.mutants import CANARY, MEANING, WRITING, Mutant, bases, mutants

pytestmark = pytest.mark.whole

COUNT = 500
WHOLE = ("UTF-8 text", "a mapping with config:")  # what is wanted of a file that has no lines


def problems_of(text: str | bytes, folder: Path) -> tuple[Problem, ...]:
    path = folder / "Pulumi.broken.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    try:
        load_stack(str(path))
    except StackInvalid as refused:
        return refused.problems
    return ()


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Mutant, tuple[Problem, ...]]]:
    """Any other exception fails every test that uses this."""
    folder = tmp_path_factory.mktemp("mutants")
    return [(mutant, problems_of(mutant.text, folder)) for mutant in mutants(COUNT)]


def is_named(mutant: Mutant, problems: tuple[Problem, ...]) -> bool:
    """Values are named by key, syntax by line or key if there is text at all."""
    if mutant.names:
        return any(name in problem.path for problem in problems for name in mutant.names)
    return all(problem.line or problem.path or problem.wanted in WHOLE for problem in problems)


@pytest.mark.parametrize("base", bases())
def test_the_files_are_sound_before_they_are_broken(base: str, tmp_path: Path) -> None:
    assert problems_of(bases()[base], tmp_path) == ()


def test_every_fault_is_put_into_every_file_that_has_a_place_for_it(
    refused: list[tuple[Mutant, tuple[Problem, ...]]],
) -> None:
    made = {(mutant.base, mutant.fault) for mutant, _ in refused}

    assert len(refused) == COUNT
    assert made == {(base, fault) for base in bases() for fault in (*MEANING, *WRITING)}


def test_every_broken_file_is_refused(refused: list[tuple[Mutant, tuple[Problem, ...]]]) -> None:
    assert [str(mutant) for mutant, problems in refused if not problems] == []


def test_the_refusal_names_the_key_or_the_line(refused: list[tuple[Mutant, tuple[Problem, ...]]]) -> None:
    unnamed = [f"{mutant}: {problems}" for mutant, problems in refused if not is_named(mutant, problems)]

    assert unnamed == []


def test_each_fault_is_told_on_one_short_line_without_secrets(
    refused: list[tuple[Mutant, tuple[Problem, ...]]],
) -> None:
    lines = [str(problem) for _, problems in refused for problem in problems]

    assert [ascii(line) for line in lines if CANARY in line or not line.isprintable() or len(line) > 600] == []
