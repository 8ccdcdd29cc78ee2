"""The wheels of this repository, built as a release builds them."""

import shutil
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

from tests.paths import ROOT

JOBS = ROOT / "ebbtide" / "jobs"


def built_wheel(source: Path, folder: Path, kind: str = "standard") -> Path:
    """The wheel of the project in `source`, written to `folder`; `kind` may be `editable`."""
    [wheel] = WheelBuilder(str(source)).build(directory=str(folder), versions=[kind])
    return Path(wheel)


def jobs_wheel_of_version(version: str, folder: Path) -> Path:
    """`ebbtide-jobs` as it would be built for another version."""
    copy = folder / f"source-{version}"
    shutil.copytree(JOBS, copy, ignore=shutil.ignore_patterns("__pycache__"))
    module = copy / "__init__.py"
    before = module.read_text()
    changed = before.replace('__version__ = "', f'__version__ = "{version}"  # was "', 1)
    assert changed != before
    module.write_text(changed)
    return built_wheel(copy, folder)
