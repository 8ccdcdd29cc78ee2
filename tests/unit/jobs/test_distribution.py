"""`ebbtide-jobs`, which worker images install: its content, and how it works beside the distribution `ebbtide`."""

import os
import subprocess
import venv
from collections.abc import Callable
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

import pytest

from ebbtide.jobs import __version__
from tests.builders.distributions import JOBS, built_wheel, jobs_wheel_of_version
from tests.paths import ROOT

pytestmark = pytest.mark.process

OTHER = "9.8.7"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("wheels")
    return {
        "ebbtide-jobs": built_wheel(JOBS, folder),
        "ebbtide-jobs of another version": jobs_wheel_of_version(OTHER, folder),
        "ebbtide": built_wheel(ROOT, folder),
        "ebbtide, editable": built_wheel(ROOT, folder / "editable", "editable"),
    }


@pytest.fixture
def run_with(tmp_path: Path, wheels: dict[str, Path]) -> Run:
    """Run Python code with only these distributions, installed in this order, outside the repository."""

    def run(*names: str, code: str) -> subprocess.CompletedProcess[str]:
        home = tmp_path / "environment"
        venv.create(home, with_pip=False, symlinks=True)
        [packages] = home.glob("lib/python*/site-packages")
        for name in names:
            with ZipFile(wheels[name]) as wheel:
                wheel.extractall(packages)  # what pip does with a pure wheel
        python = home / "bin" / "python"
        return subprocess.run([python, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


def metadata(wheel: Path) -> Message:
    with ZipFile(wheel) as opened:
        [name] = [name for name in opened.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(opened.read(name))


def files(wheel: Path, under: str) -> dict[str, bytes]:
    with ZipFile(wheel) as opened:
        return {name: opened.read(name) for name in opened.namelist() if name.startswith(under)}


def requirements(wheel: Path, extra: str) -> set[str]:
    """Return those of an extra without its marker; those of the core for ""."""
    parts = [str(line).split("; extra == ") for line in metadata(wheel).get_all("Requires-Dist", [])]
    return {text for text, *of in parts if of == ([f"'{extra}'"] if extra else [])}


# --- what is in it ----------------------------------------------------------------------------------------------------


def test_its_wheel_holds_the_modules_of_ebbtide_jobs_and_nothing_else_of_ebbtide(wheels: dict[str, Path]) -> None:
    expected = {f"ebbtide/jobs/{module.relative_to(JOBS)}": module.read_bytes() for module in JOBS.rglob("*.py")}

    assert files(wheels["ebbtide-jobs"], "ebbtide/") == expected


def test_the_wheel_of_ebbtide_holds_all_that_its_commands_import(wheels: dict[str, Path]) -> None:
    """A replay runs the controller's decisions, a preview the components and the program."""
    expected = {
        str((Path(folder) / name).relative_to(ROOT))
        for package in ("components", "controllers", "ebbtide", "infra")
        for folder, _, names in os.walk(ROOT / package, followlinks=True)  # the pages are links
        for name in names
        if not name.endswith(".pyc")
    } - {f"ebbtide/jobs/{file}" for file in ("pyproject.toml", "README.md", "LICENSE")}

    held = files(wheels["ebbtide"], "").keys()

    assert {name for name in held if ".dist-info/" not in name} == expected


def test_its_core_needs_only_redis_and_each_framework_is_an_extra(wheels: dict[str, Path]) -> None:
    wheel = wheels["ebbtide-jobs"]

    assert requirements(wheel, "") == {"redis>=6.1"}
    assert requirements(wheel, "rq") == {"rq<4,>=2.12"}
    assert requirements(wheel, "celery") == {"celery[redis]<6,>=5.6"}
    assert requirements(wheel, "checkpoint") == {"obstore<1,>=0.12"}
    assert requirements(wheel, "amqp") == {"amqp<6,>=5.4"}
    assert requirements(wheel, "sqs") == {"boto3<2,>=1.40"}
    assert requirements(wheel, "celery-sqs") == {"celery[redis,sqs]<6,>=5.7", "kombu[sqs]<6,>=5.7"}
    extras = ["amqp", "celery", "celery-sqs", "checkpoint", "rq", "sqs"]
    assert metadata(wheel).get_all("Provides-Extra") == extras


def test_both_distributions_have_one_version_one_licence_and_one_range_of_pythons(wheels: dict[str, Path]) -> None:
    jobs, whole = metadata(wheels["ebbtide-jobs"]), metadata(wheels["ebbtide"])

    assert jobs["Version"] == __version__
    for name in ("Version", "Requires-Python", "License-Expression", "License-File"):
        assert jobs[name] == whole[name]
    [text] = files(wheels["ebbtide-jobs"], f"ebbtide_jobs-{__version__}.dist-info/licenses/LICENSE").values()
    assert text == (ROOT / "LICENSE").read_bytes()


def test_the_distribution_ebbtide_holds_the_same_modules(wheels: dict[str, Path]) -> None:
    whole, jobs = wheels["ebbtide"], wheels["ebbtide-jobs"]

    assert files(whole, "ebbtide/jobs/") == files(jobs, "ebbtide/jobs/")


# --- beside the distribution `ebbtide` --------------------------------------------------------------------------------

IMPORTED = "import ebbtide.jobs; print(ebbtide.jobs.__version__, ebbtide.jobs.__file__, ebbtide.__file__)"


def test_alone_it_is_imported_without_a_package_ebbtide_of_its_own(run_with: Run, tmp_path: Path) -> None:
    done = run_with("ebbtide-jobs", code=IMPORTED)

    version, module, package = done.stdout.split()
    assert (version, package) == (__version__, "None"), done.stderr
    assert Path(module).is_relative_to(tmp_path)


@pytest.mark.parametrize("names", [("ebbtide", "ebbtide-jobs"), ("ebbtide-jobs", "ebbtide")])
def test_both_distributions_of_one_version_work_side_by_side(run_with: Run, names: tuple[str, ...]) -> None:
    done = run_with(*names, code=IMPORTED + "; from ebbtide.vocabulary import labels")

    assert done.stdout.split()[0] == __version__, done.stderr


@pytest.mark.parametrize("whole", ["ebbtide", "ebbtide, editable"])
def test_both_distributions_of_two_versions_are_refused_in_one_line(run_with: Run, whole: str) -> None:
    done = run_with(whole, "ebbtide-jobs of another version", code=IMPORTED)

    said = done.stderr.splitlines()[-1]
    assert done.returncode == 1
    assert f"ebbtide {__version__} and ebbtide-jobs {OTHER} are both installed" in said
    assert "pip uninstall --yes ebbtide ebbtide-jobs" in said


def test_an_import_of_two_versions_fails_as_no_import_error_which_rq_would_swallow(run_with: Run) -> None:
    code = "try: import ebbtide.jobs\nexcept ImportError: print('swallowed')"

    done = run_with("ebbtide", "ebbtide-jobs of another version", code=code)

    assert (done.returncode, done.stdout) == (1, "")


def test_the_repository_installed_editable_is_used_before_the_distribution(run_with: Run) -> None:
    done = run_with("ebbtide-jobs", "ebbtide, editable", code=IMPORTED)

    version, module, package = done.stdout.split()
    assert version == __version__, done.stderr
    assert (Path(module), Path(package)) == (JOBS / "__init__.py", ROOT / "ebbtide" / "__init__.py")
