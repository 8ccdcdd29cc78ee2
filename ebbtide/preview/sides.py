"""The two sides of a preview: a stack file now and at a git ref, both rendered with the current code.

The ref's own code is not run, since its dependencies would have to be installed. `code_note` reports whether the code
differs too.

A ref is anything that git resolves to a commit. `main...` is the merge base with `main`, as in a pull request; the
plain `main` is its tip, so changes merged there since then appear as reverted.
"""

import os
import posixpath
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath

from ebbtide.recording.record import record
from ebbtide.recording.resources import Resource
from ebbtide.recording.state import StackState
from ebbtide.settings import Problem, StackInvalid, StackSettings, load_stack
from ebbtide.settings.file.contents import PROJECT, STACKS, FileReader, files_in
from ebbtide.settings.file.document import encrypted_values
from ebbtide.settings.file.problems import Location
from ebbtide.settings.load import MOST_BYTES, file_of_text, name_of, stack_path
from ebbtide.text.files import read_file
from ebbtide.text.git import NoSuchRef as NoSuchRef
from ebbtide.text.git import first_line, is_shallow, run_git
from ebbtide.text.one_line import collapsed

_CODE = ("components", "controllers", "ebbtide", "infra", "program", "requirements.txt", "tools/locks")
"""Code that a preview depends on: nights and replays are the controllers' decisions, and the rest is in packages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """If the file is invalid, `settings` is None, there are no resources, and `problems` says why."""

    stack: str
    settings: StackSettings | None
    resources: tuple[Resource, ...]
    problems: tuple[str, ...] = ()
    encrypted: Mapping[Location, str] = field(default_factory=dict[Location, str])  # the file's text; never shown
    unset_secrets: tuple[str, ...] = ()  # paths of placeholders

    @property
    def state(self) -> StackState | None:
        return None if self.settings is None else StackState(self.settings, self.resources)


def side_now(stack: str, root: Path) -> Side:
    """The file in the working tree."""
    path = stack_path(stack, root)
    try:
        text = read_file(path, MOST_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return _unreadable(stack, root)
    return _side_of(text, stack=name_of(path), file=_inside(path, root), files=files_in(path.parent))


def side_at(stack: str, ref: str, root: Path) -> Side | None:
    """The file at a ref; None if it did not exist there. Raises `NoSuchRef`.

    A file of another name with the same customer is the same stack, renamed, if that file does not exist any more.
    """
    commit = _commit_of(ref, root)
    path = stack_path(stack, root)
    stack_file = _inside(path, root)
    text = _text_at(commit, stack_file, root)
    if text is not None:
        files = _reader_at(stack_file, commit, root)
        return _side_of(text, stack=name_of(path), file=stack_file, files=files, at=f" at {ref}")
    try:
        customer = load_stack(stack, root).customer
    except StackInvalid:
        return None
    return _renamed(customer, commit, ref, root)


def code_note(ref: str, root: Path) -> str:
    """A sentence if the code differs from the ref's; empty otherwise. Raises `NoSuchRef`."""
    commit = _commit_of(ref, root)
    code = [part for part in _CODE if (root / part).exists()]
    if (
        not code
        or not run_git(root, "diff", "--no-ext-diff", "--no-textconv", "--name-only", commit, "--", *code).stdout
    ):
        return ""
    return f"the code differs from {ref} too: both sides are rendered with this code, so only the files are compared"


def _unreadable(stack: str, root: Path) -> Side:
    """The side of a file that cannot be read, with the messages of `ebbtide check`."""
    try:
        settings = load_stack(stack, root)
    except StackInvalid as invalid:
        return _invalid(name_of(stack_path(stack, root)), invalid.problems)
    return Side(stack=settings.stack, settings=settings, resources=record(settings))


def _side_of(text: str, *, stack: str, file: str, files: FileReader, at: str = "") -> Side:
    """Messages show `at` after file names."""
    try:
        stack_file = file_of_text(text, stack=stack, file=file, reader=files)
        settings = stack_file.settings()
    except StackInvalid as invalid:
        return _invalid(stack, [replace(problem, file=f"{problem.file}{at}") for problem in invalid.problems])
    encrypted = encrypted_values(text) if "secure:" in text else {}
    return Side(
        stack=stack,
        settings=settings,
        resources=_resources_of(settings),
        encrypted=encrypted,
        unset_secrets=tuple(stack_file.unset_secrets()),
    )


_recent: deque[tuple[StackSettings, tuple[Resource, ...]]] = deque(maxlen=2)


def _resources_of(settings: StackSettings) -> tuple[Resource, ...]:
    """Cached for the other side: if only the code changes, both sides have the same settings."""
    known = next((resources for recent, resources in _recent if recent == settings), None)
    if known is None:
        known = record(settings)
        _recent.append((settings, known))
    return known


def _invalid(stack: str, problems: Sequence[Problem]) -> Side:
    return Side(stack=stack, settings=None, resources=(), problems=tuple(str(problem) for problem in problems))


def _reader_at(stack_file: str, commit: str, root: Path) -> FileReader:
    """A reader of the commit's files in the stack file's folder."""

    folder = PurePosixPath(stack_file).parent

    def read(path: str) -> bytes:
        outside = path == PROJECT and folder.name != STACKS
        text = None if outside else _text_at(commit, posixpath.normpath(folder / path), root)
        if text is None:
            raise FileNotFoundError(path)
        return text.encode()

    return read


def _renamed(customer: str, commit: str, ref: str, root: Path) -> Side | None:
    """The side of the former file of this customer's stack, with a line about the new name."""
    for path in _files_at(commit, root):
        text = None if (root / path).exists() else _text_at(commit, path, root)
        if text is None:
            continue
        files = _reader_at(path, commit, root)
        side = _side_of(text, stack=name_of(Path(path)), file=path, files=files, at=f" at {ref}")
        if side.settings is not None and side.settings.customer == customer:
            line = (
                f"{path} at {ref} has the same customer, {customer}: the stack was renamed, so it is compared with "
                "itself. Rename it in Pulumi too (pulumi stack rename), or the next up builds everything a second time"
            )
            return replace(side, problems=(line,))
    return None


def _commit_of(ref: str, root: Path) -> str:
    if "..." in ref:
        return _merge_base(ref, root)
    answer = run_git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    if answer.returncode != 0:
        raise NoSuchRef(collapsed(f"{ref!r} is not a commit of this repository{_why_missing(ref, root)}"))
    return answer.stdout.strip()


def _merge_base(ref: str, root: Path) -> str:
    ours, theirs = (part or "HEAD" for part in ref.split("...", 1))
    commits = [_commit_of(ours, root), _commit_of(theirs, root)]
    answer = run_git(root, "merge-base", *commits)
    if answer.returncode != 0:
        why = f": {_SHALLOW}" if is_shallow(root) else ""
        raise NoSuchRef(collapsed(f"{ours!r} and {theirs!r} have no commit in common{why}"))
    return answer.stdout.strip()


_SHALLOW = "the clone is shallow; fetch its history (git fetch --unshallow, or fetch-depth: 0 of actions/checkout)"


def _why_missing(ref: str, root: Path) -> str:
    if is_shallow(root):
        return f": {_SHALLOW}"
    remotes = run_git(root, "for-each-ref", "--format=%(refname:short)", f"refs/remotes/*/{ref}").stdout.split()
    return f"; did you mean {remotes[0]}?" if remotes else " (for example main, v1.2.0 or HEAD~1)"


def _files_at(commit: str, root: Path) -> Sequence[str]:
    listed = run_git(root, "ls-tree", "--name-only", "-z", commit, "--", "stacks/").stdout.split("\0")
    return [path for path in listed if Path(path).name.startswith("Pulumi.") and path.endswith(".yaml")]


@lru_cache(maxsize=64)
def _text_at(commit: str, path: str, root: Path) -> str | None:
    """A file's text, or None if the commit has no such file. Cached, since many stacks have the same bases."""
    listed = run_git(root, "ls-tree", "-z", commit, "--", path).stdout
    if not listed:
        return None
    mode, kind, blob = listed.split("\t", 1)[0].split()
    if kind != "blob" or mode == "120000":
        raise NoSuchRef(collapsed(f"{path} is not a plain file at that commit"))
    answer = run_git(root, "cat-file", "blob", blob)
    if answer.returncode != 0:
        raise NoSuchRef(collapsed(f"{path} at that commit is not in this clone: {first_line(answer.stderr)}"))
    return answer.stdout


def _inside(path: Path, root: Path) -> str:
    """The path relative to the root; links are not followed."""
    return os.path.relpath(path.absolute(), root.absolute())
