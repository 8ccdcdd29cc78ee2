"""The files of a team's own repository: copies of `repository/`, an example stack, the schema, and Ebbtide's wheel."""

import hashlib
import json
import shutil
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import unquote, urlsplit

from ebbtide.settings.first_file import Answers, file_text
from ebbtide.settings.json_schema import base_schema_text, schema_text
from ebbtide.text.counts import first_names
from ebbtide.text.files import Unwritable

_TEMPLATES = Path(__file__).with_name("repository")
_EXAMPLE = Answers(
    customer="example",
    timezone="Europe/Berlin",
    hours="mon-fri 08:00-18:00",
    region="eu-central-1",
    image="registry.example.com/ml/train:1",
    queue="train",
    longest_job="12h",
    gpu=False,
)
_EXTRAS = "aws,controller,policies,provision,simulate"  # as `make lock` has them for tools/locks/project.txt


class NoWheel(Exception):
    """Ebbtide's wheel is unknown, or differs from the installed version. The message is one line."""


def repository_files(wheel: Path) -> dict[str, bytes]:
    """Return the bytes of each file by its path in the repository. `wheel` is Ebbtide's own."""
    templates = [path for path in _TEMPLATES.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    files = {str(path.relative_to(_TEMPLATES)): path.read_bytes() for path in templates}
    for name in files:
        if name.startswith(".github/"):  # the one difference from this repository's workflows
            files[name] = files[name].replace(b"--policy-pack ebbtide/policies/pack", b"--policy-pack policies")
    archive = wheel.read_bytes()
    version = distribution("ebbtide").version
    requirement = f"ebbtide[{_EXTRAS}]=={version} \\\n    --hash=sha256:{hashlib.sha256(archive).hexdigest()}\n"
    files["requirements.txt"] += f"--find-links wheels\n{requirement}".encode()  # relative to the file
    files[f"wheels/{wheel.name}"] = archive
    files[f"stacks/Pulumi.{_EXAMPLE.customer}.yaml"] = file_text(_EXAMPLE).encode()
    files["docs/stack.schema.json"] = schema_text().encode()
    files["docs/base.schema.json"] = base_schema_text().encode()
    return files


def wheel_of_this_version(given: Path | None) -> Path:
    """Return the wheel that is given, or the one that pip installed from. Raises `NoWheel`.

    pip records the file only if it installed from a file. An index's wheel must be given: its hash is not known here.
    """
    wheel = given or _installed_from()
    expected = f"ebbtide-{distribution('ebbtide').version}-py3-none-any.whl"
    if wheel is None or not wheel.is_file():
        reason = "no such file" if wheel else "no record of the wheel that was installed"
        raise NoWheel(f"--wheel: wanted the file {expected}, found {reason} (for example --wheel dist/{expected})")
    if wheel.name != expected:
        raise NoWheel(f"--wheel: wanted {expected}, which is the installed version, found {wheel.name}")
    return wheel


def _installed_from() -> Path | None:
    """Return the wheel in pip's record of where a distribution came from (PEP 610)."""
    record = json.loads(distribution("ebbtide").read_text("direct_url.json") or "{}")
    address = urlsplit(str(record.get("url", "")))
    return Path(unquote(address.path)) if address.scheme == "file" and "archive_info" in record else None


def refuse_full(folder: Path) -> None:
    """Raise `Unwritable` if the folder holds anything but a git repository."""
    names = sorted(entry.name for entry in folder.iterdir() if entry.name != ".git") if folder.is_dir() else []
    if names:
        raise Unwritable(f"{folder}: wanted an empty folder, found a full one, with {first_names(names, 3)}")


def write_repository(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write all files into an empty folder, which may be a git repository, or none. Raises `Unwritable`."""
    try:
        refuse_full(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".ebbtide-", dir=folder) as staging:
            for name, content in files.items():
                path = Path(staging) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            _move_all(Path(staging), folder)
    except OSError as error:
        raise Unwritable(f"{folder}: {error.strerror or error}") from error


def _move_all(staging: Path, folder: Path) -> None:
    moved: list[Path] = []
    try:
        for entry in sorted(staging.iterdir()):
            entry.rename(folder / entry.name)
            moved.append(folder / entry.name)
    except OSError:
        for path in moved:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        raise
