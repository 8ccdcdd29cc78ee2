"""The tool that puts faults into the code: which it makes, and that it tells a killed one from a survivor honestly."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.components import ROOT
from tests.counts import count
from tools.mutation.given import GivenWrong, Target, explained, hand_made, targets
from tools.mutation.operators import mutants_of
from tools.mutation.results import Case, Kind, Result, report, share
from tools.mutation.runs import BaselineFails, run_all

MODULE = '''"""A module."""

LIMIT: int = 5


def allowed(given: int, *, limit: int = LIMIT) -> bool:
    """Not a mutant: a text."""
    if given < 0:
        raise ValueError(f"{given + 1} is below 0")
    return given <= limit and not given == 3
'''
TEST = """from controllers.thing import allowed

def test_it():
    assert allowed(5) and not allowed(6)
    assert not allowed(3)
"""
FILE = "controllers/thing.py"


def keys(source: str) -> list[str]:
    return [one.key for one in mutants_of(source)]


def test_each_mutant_is_one_change_and_texts_are_left_alone() -> None:
    assert sorted(keys(MODULE)) == sorted(
        [
            "module: 5 => 10",
            "allowed: given < 0 => (given <= 0)",
            "allowed: given < 0 => (given >= 0)",
            "allowed: 0 => 1",
            'allowed: raise ValueError(f"{given + 1} is below 0") => pass',
            "allowed: return given <= limit and not given == 3 => return None",
            "allowed: given <= limit and not given == 3 => (given <= limit or not given == 3)",
            "allowed: given <= limit and not given == 3 => (not given == 3)",
            "allowed: given <= limit and not given == 3 => (given <= limit)",
            "allowed: given <= limit => (given < limit)",
            "allowed: given <= limit => (given > limit)",
            "allowed: not given == 3 => (given == 3)",
            "allowed: given == 3 => (given != 3)",
            "allowed: 3 => 6",
        ]
    )


@pytest.mark.parametrize(
    ("code", "made"),
    [
        ("x = min(a, b)", "min => max"),
        ("x = [i for i in a if i.ok]", "i.ok => (True)"),
        ("x = a - b", "a - b => (a + b)"),
        ("x = f(a, key=b)", "f(a, key=b) => f(a)"),
        ("x = b if a else c", "a => (not (a))"),
        ("x += 1", "x += 1 => x -= 1"),
        ("del x[0]", "del x[0] => pass"),
        ("x.append(1)", "x.append(1) => pass"),
        ("x = True", "True => False"),
        ("x = -1", "-1 => (1)"),
        ("while f():\n    break", "break => pass"),
        ("x = a is None", "a is None => (a is not None)"),
        ("x = 'ü' + f(1 < 2)", "1 < 2 => (1 <= 2)"),
    ],
)
def test_the_faults_that_programmers_make(code: str, made: str) -> None:
    assert f"module: {made}" in keys(code)


def test_a_key_does_not_depend_on_the_line_and_two_alike_are_told_apart() -> None:
    moved = MODULE.replace("def allowed", "\n\n\ndef allowed")

    assert keys(moved) == keys(MODULE)
    assert keys("x = a - 1\ny = b - 1")[-1] != keys("x = a - 1\ny = b - 1")[1]


def test_a_mutant_is_compiled_and_differs_in_its_place_alone() -> None:
    for one in mutants_of(MODULE):
        changed = [(old, new) for old, new in zip(MODULE.split("\n"), one.text.split("\n"), strict=True) if old != new]
        assert len(changed) == 1
        assert MODULE.split("\n")[one.line - 1] == changed[0][0]


# --- what is run ------------------------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A project of one module and one test."""
    for name, text in {FILE: MODULE, "controllers/__init__.py": "", "tests/test_thing.py": TEST}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    shutil.copy2(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "tools" / "mutation", tmp_path / "tools" / "mutation")
    return tmp_path


def judged(tree: Path, cases: list[Case], wider: tuple[str, ...] = ()) -> list[Kind]:
    target = Target(FILE, ("tests/test_thing.py",), wider)
    before = {path: path.read_bytes() for path in tree.rglob("*.py")}

    results = run_all(tree, cases, {FILE: target}, workers=1)

    assert {path: path.read_bytes() for path in tree.rglob("*.py")} == before, "the tree itself is never written to"
    return [one.kind for one in results]


def case(before: str, after: str, why: str = "") -> Case:
    assert before in MODULE
    return Case(file=FILE, key=f"{before} => {after}", line=1, text=MODULE.replace(before, after, 1), why=why)


def test_killed_survived_slow_and_broken_are_told_apart(tree: Path) -> None:
    cases = [
        case("given <= limit", "given < limit"),
        case("given < 0", "given < -1"),
        case("return given", "while True:\n        pass\n    return given"),
        case("LIMIT: int = 5", "LIMIT: int = nothing"),
        case("given <= limit", "given > limit"),
    ]

    assert judged(tree, cases) == [Kind.KILLED, Kind.SURVIVED, Kind.SLOW, Kind.BROKEN, Kind.KILLED]


def test_what_survives_the_first_tests_meets_the_wider_ones(tree: Path) -> None:
    (tree / "tests" / "test_wider.py").write_text(
        "import pytest\nfrom controllers.thing import allowed\n\n"
        "def test_it():\n    with pytest.raises(ValueError):\n        allowed(-1)\n"
    )

    assert judged(tree, [case("given < 0", "given < -1")], ("tests/test_wider.py",)) == [Kind.KILLED]


def test_tests_that_fail_without_a_mutant_prove_nothing(tree: Path) -> None:
    (tree / "tests" / "test_thing.py").write_text("def test_it():\n    assert False\n")

    with pytest.raises(BaselineFails, match="its tests fail without a mutant"):
        judged(tree, [case("given <= limit", "given < limit")])


def test_a_module_from_elsewhere_proves_nothing(tree: Path) -> None:
    target = Target("ebbtide/files.py", ("tests/test_thing.py",), ())
    one = Case(file="ebbtide/files.py", key="any", line=1, text="")

    with pytest.raises(BaselineFails, match="not taken from the copy"):
        run_all(tree, [one], {one.file: target}, workers=1)


# --- what is told -----------------------------------------------------------------------------------------------------


def result(kind: Kind, why: str = "") -> Result:
    return Result(case("given < 0", "given < -1", why), kind, MODULE)


def test_only_what_changes_behaviour_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = [result(Kind.KILLED), result(Kind.SLOW), result(Kind.BROKEN), result(Kind.SURVIVED, "never below 0")]

    assert share(found) == 1.0
    assert share([*found, result(Kind.SURVIVED)]) == pytest.approx(2 / 3)
    assert report(found, [], tmp_path / "mutants.txt") == 0
    assert report([*found, result(Kind.SURVIVED)], [], tmp_path / "mutants.txt") == 1
    assert report([*found, result(Kind.SURVIVED)], [], tmp_path / "mutants.txt", least=0.66) == 0
    assert report(found, ["stale"], tmp_path / "mutants.txt") == 1
    assert "stale" in capsys.readouterr().out


def test_each_survivor_is_written_with_its_diff_and_its_reason(tmp_path: Path) -> None:
    report([result(Kind.SURVIVED, "never below 0"), result(Kind.KILLED)], [], tmp_path / "mutants.txt")

    text = (tmp_path / "mutants.txt").read_text()
    assert "--- survived, explained: given < 0 => given < -1\n    never below 0\n" in text
    assert "-    if given < 0:\n+    if given < -1:\n" in text


# --- what people wrote ------------------------------------------------------------------------------------------------


def test_every_test_that_a_target_names_exists() -> None:
    assert len(targets(ROOT)) >= 20


def test_every_explanation_is_of_a_mutant_that_is_made() -> None:
    made = {file: set(keys((ROOT / file).read_text())) for file in targets(ROOT)}

    assert [key for file, key in explained() if key not in made[file]] == []
    assert all(why.strip() for why in explained().values())


def test_every_mutant_made_by_hand_fits_the_code() -> None:
    for _, one in hand_made(ROOT, targets(ROOT)):
        compile((ROOT / one.file).read_text().replace(one.before, one.after), one.file, "exec")


def test_a_mutant_made_by_hand_that_no_longer_fits_is_told(tree: Path) -> None:
    folder = tree / "tests" / "data" / "mutants"
    folder.mkdir(parents=True)
    (folder / "any.toml").write_text(f'[[mutant]]\nfile = "{FILE}"\nbefore = "gone"\nafter = "x"\nabout = "a bug"\n')

    with pytest.raises(GivenWrong, match=r"any.toml: 'a bug': `before` stands 0 times in controllers/thing.py"):
        list(hand_made(tree, [FILE]))
    with pytest.raises(GivenWrong, match=r"controllers/thing.py is no target"):
        list(hand_made(tree, []))


SETTLED = (
    "controllers/scaler/writes.py",
    "controllers/closer.py",
    "controllers/scaler/loop.py",
    "controllers/scaler/workers/pods.py",
    "controllers/scaler/workers/reconcile.py",
    "controllers/adapters/kube_cache.py",
    "controllers/adapters/kube_cluster.py",
    "controllers/adapters/kube_objects.py",
    "controllers/adapters/lease.py",
    "controllers/scaler/budgets/decision.py",
    "controllers/scaler/workers/decision.py",
    "controllers/scaler/workers/floors.py",
    "controllers/scaler/workers/refusals.py",
    "controllers/scaler/workers/victims.py",
    "controllers/scaler/workers/history.py",
    "ebbtide/vocabulary/windows.py",
)
"""Whose tests take seconds. Those of the real workers take up to a minute each."""


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_of_a_sample_of_mutants_95_in_100_are_killed(tmp_path: Path) -> None:
    """`make mutants` runs all of them, in every module."""
    command = [sys.executable, "-m", "tools.mutation", "--workers", "1", "--out", str(tmp_path / "mutants.txt")]
    sample = ["--least", "0.95", "--sample", str(count(300, 60)), "--seed", "14"]

    done = subprocess.run([*command, *sample, *SETTLED], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
