"""The list of mutants: how it is drawn, and that it survives moves of the code."""

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.paths import ROOT
from tools.mutants.listed import GONE, LIST, NOTICED, Mutant, draw, read, replaced, write
from tools.mutants.product import home_of, modules, quotas
from tools.mutants.sites import KINDS


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="the list was drawn with 3.11, and later `ast.unparse` differs")
def test_every_listed_mutant_still_has_its_code() -> None:
    homeless = [mutant for mutant in read(ROOT / LIST) if mutant.verdict != GONE and not has_home(mutant)]

    assert not homeless, "run `make mutants`: it replaces those whose code went, and finds those that moved"


def has_home(mutant: Mutant) -> bool:
    return home_of(ROOT, mutant.site, mutant.file) is not None


def test_the_list_has_200_mutants_of_four_kinds_in_all_packages() -> None:
    mutants = [mutant for mutant in read(ROOT / LIST) if mutant.verdict != GONE]

    assert len({mutant.site for mutant in mutants}) == 200
    assert min(Counter(mutant.site.kind for mutant in mutants)[kind] for kind in KINDS) >= 40


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ({"a": 900, "b": 100}, {"a": 18, "b": 2}),
        ({"a": 995, "b": 5}, {"a": 19, "b": 1}),
        ({"a": 630, "b": 370}, {"a": 13, "b": 7}),
    ],
)
def test_a_package_gets_its_share_of_the_lines_and_at_least_one(
    lines: dict[str, int], expected: dict[str, int]
) -> None:
    assert quotas(lines, 20) == expected


FIRST = "def least(jobs):\n    return jobs < 3\n\n\ndef most(jobs):\n    return jobs > 5\n"


def product(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def drawn(root: Path) -> Mutant:
    """Return a mutant of `least`, already noticed by a test."""
    mutants = draw(root, modules(root), 8)
    return replace(
        next(mutant for mutant in mutants if mutant.site.function == "least"),
        verdict=NOTICED,
        test="tests/test_a.py::test_a",
    )


def test_a_mutant_is_found_in_the_module_that_its_function_moved_to(tmp_path: Path) -> None:
    mutant = drawn(product(tmp_path / "before", {"infra/pools.py": FIRST}))
    moved = product(tmp_path / "after", {"components/sizes.py": FIRST, "infra/pools.py": "LEAST = 3\n"})

    assert replaced(moved, [mutant]) == [replace(mutant, file="components/sizes.py")]


def test_a_mutant_without_code_is_replaced_by_one_of_its_package_and_kind(tmp_path: Path) -> None:
    mutant = drawn(product(tmp_path / "before", {"infra/pools.py": FIRST}))
    changed = product(tmp_path / "after", {"infra/pools.py": FIRST.replace("< 3", "< 4").replace("least", "fewest")})

    gone, new = replaced(changed, [mutant])

    assert (gone.verdict, gone.site, gone.why) == (GONE, mutant.site, f"replaced by {new.site}")
    assert (new.package, new.site.kind, new.verdict) == ("infra", "comparison", "")
    assert replaced(changed, [gone, new]) == [gone, new]


def test_a_function_that_two_modules_have_is_not_guessed(tmp_path: Path) -> None:
    mutant = drawn(product(tmp_path / "before", {"infra/pools.py": FIRST}))
    twice = product(tmp_path / "after", {"components/a.py": FIRST, "components/b.py": FIRST})

    assert replaced(twice, [mutant])[0].verdict == GONE


def test_the_draw_is_the_same_after_changes_elsewhere(tmp_path: Path) -> None:
    before = product(tmp_path / "before", {"infra/pools.py": FIRST})
    after = product(tmp_path / "after", {"infra/pools.py": f'"""Pools."""\n\n\n{FIRST}'})

    assert draw(before, modules(before), 4) == draw(after, modules(after), 4)


def test_a_list_is_read_as_it_was_written(tmp_path: Path) -> None:
    mutant = drawn(product(tmp_path, {"infra/pools.py": FIRST}))
    write(tmp_path / "list.jsonl", [mutant, mutant])

    assert read(tmp_path / "list.jsonl") == [mutant, mutant]
