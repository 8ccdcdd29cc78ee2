"""The two sides of a preview: a stack file as it is now, and as it was at a git ref, both rendered with today's code.

What the ref's own code would have made of its file is not known: for that its dependencies would have to be installed.
`code_note` says when the code differs too.

A ref is what git takes for a commit. `main...` is the commit at which the work left `main`, as a pull request is
compared; the plain `main` is its tip, and what was merged there since shows as taken back.

Git is asked for what is in the clone and nothing else: it fetches nothing and asks nobody for a password. Its own
variables (`GIT_DIR`, as a hook has it) are not passed on: they would lead to another repository than the file's.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath

from ebbtide.files import read_file
from ebbtide.recording.record import record
from ebbtide.recording.resources import Resource
from ebbtide.recording.state import StackState
from ebbtide.settings import Problem, StackInvalid, StackSettings, load_stack
from ebbtide.settings.file.contents import Beside, files_in, no_files
from ebbtide.settings.file.document import encrypted_values
from ebbtide.settings.file.problems import Location
from ebbtide.settings.load import MOST_BYTES, name_of, stack_of_text, stack_path

_CODE = ("components", "ebbtide", "infra", "program", "requirements.txt")
_SECONDS = 60
_OFFLINE = {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}


class NoSuchRef(Exception):
    """There is nothing to compare with: no repository, no such commit, no common ancestor. The text is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """`settings` is None, and there are no resources, where the file is invalid; `problems` then says why."""

    stack: str
    settings: StackSettings | None
    resources: tuple[Resource, ...]
    problems: tuple[str, ...] = ()
    encrypted: Mapping[Location, str] = field(default_factory=dict[Location, str])  # as the file has it; never shown

    @property
    def state(self) -> StackState | None:
        return None if self.settings is None else StackState(self.settings, self.resources)


def side_now(stack: str, root: Path) -> Side:
    """The file as it lies there."""
    path = stack_path(stack, root)
    try:
        text = read_file(path, MOST_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return _unreadable(stack, root)
    return _side_of(text, stack=name_of(path), file=_inside(path, root), beside=files_in(path.parent))


def side_at(stack: str, ref: str, root: Path) -> Side | None:
    """The file at a ref; None where there was none. Raises `NoSuchRef`.

    A file of another name with the same customer is the same stack, renamed, if that file is no longer there now.
    """
    commit = _commit_of(ref, root)
    path = stack_path(stack, root)
    there = _inside(path, root)
    text = _text_at(commit, there, root)
    if text is not None:
        beside = _files_beside(there, commit, root)
        return _side_of(text, stack=name_of(path), file=f"{there} at {ref}", beside=beside)
    try:
        customer = load_stack(stack, root).customer
    except StackInvalid:
        return None
    return _renamed(customer, commit, ref, root)


def code_note(ref: str, root: Path) -> str:
    """A sentence if the code differs from the ref's as well as the files; empty if not. Raises `NoSuchRef`."""
    commit = _commit_of(ref, root)
    code = [part for part in _CODE if (root / part).exists()]
    if not code or not _git(root, "diff", "--no-ext-diff", "--no-textconv", "--name-only", commit, "--", *code).stdout:
        return ""
    return f"the code differs from {ref} too: both sides are rendered with this code, so only the files are compared"


def _unreadable(stack: str, root: Path) -> Side:
    """The same words as `check` has for it."""
    try:
        settings = load_stack(stack, root)
    except StackInvalid as invalid:
        return _invalid(name_of(stack_path(stack, root)), invalid.problems)
    return Side(stack=settings.stack, settings=settings, resources=record(settings))


def _side_of(text: str, *, stack: str, file: str, beside: Beside) -> Side:
    try:
        return _sound(text, stack, beside if "file:" in text else no_files)
    except StackInvalid as invalid:
        return _invalid(stack, [replace(problem, file=file) for problem in invalid.problems])


@lru_cache(maxsize=2)
def _sound(text: str, stack: str, beside: Beside) -> Side:
    """Kept for the other side: where only the code changes, the file is the same on both."""
    settings = stack_of_text(text, stack=stack, file="", beside=beside)
    encrypted = encrypted_values(text) if "secure:" in text else {}
    return Side(stack=stack, settings=settings, resources=record(settings), encrypted=encrypted)


def _invalid(stack: str, problems: Sequence[Problem]) -> Side:
    return Side(stack=stack, settings=None, resources=(), problems=tuple(str(problem) for problem in problems))


def _files_beside(stack_file: str, commit: str, root: Path) -> Beside:
    """The files of the commit that stand beside that stack file."""

    def read(path: str) -> bytes:
        text = _text_at(commit, str(PurePosixPath(stack_file).parent / path), root)
        if text is None:
            raise FileNotFoundError(path)
        return text.encode()

    return read


def _renamed(customer: str, commit: str, ref: str, root: Path) -> Side | None:
    """The side of the file that held this customer's stack, with a line that says so."""
    for path in _files_at(commit, root):
        text = None if (root / path).exists() else _text_at(commit, path, root)
        if text is None:
            continue
        beside = _files_beside(path, commit, root)
        side = _side_of(text, stack=name_of(Path(path)), file=f"{path} at {ref}", beside=beside)
        if side.settings is not None and side.settings.customer == customer:
            line = (
                f"{path} at {ref} has the same customer, {customer}: the stack was renamed, so it is compared with "
                "itself. Rename it in Pulumi too (pulumi stack rename), or the next up builds everything a second time"
            )
            return replace(side, problems=(line,))
    return None


def _commit_of(ref: str, root: Path) -> str:
    """The commit that a ref means."""
    if "..." in ref:
        return _merge_base(ref, root)
    found = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    if found.returncode != 0:
        raise NoSuchRef(_one_line(f"{ref!r} is not a commit of this repository{_why_missing(ref, root)}"))
    return found.stdout.strip()


def _merge_base(ref: str, root: Path) -> str:
    one, other = (part or "HEAD" for part in ref.split("...", 1))
    commits = [_commit_of(one, root), _commit_of(other, root)]
    found = _git(root, "merge-base", *commits)
    if found.returncode != 0:
        why = f": {_SHALLOW}" if _is_shallow(root) else ""
        raise NoSuchRef(_one_line(f"{one!r} and {other!r} have no commit in common{why}"))
    return found.stdout.strip()


_SHALLOW = "the clone is shallow; fetch its history (git fetch --unshallow, or fetch-depth: 0 of actions/checkout)"


def _why_missing(ref: str, root: Path) -> str:
    if _is_shallow(root):
        return f": {_SHALLOW}"
    remotes = _git(root, "for-each-ref", "--format=%(refname:short)", f"refs/remotes/*/{ref}").stdout.split()
    return f"; did you mean {remotes[0]}?" if remotes else " (for example main, v1.2.0 or HEAD~1)"


def _is_shallow(root: Path) -> bool:
    return _git(root, "rev-parse", "--is-shallow-repository").stdout.strip() == "true"


def _files_at(commit: str, root: Path) -> Sequence[str]:
    listed = _git(root, "ls-tree", "--name-only", "-z", commit, "--", "stacks/").stdout.split("\0")
    return [path for path in listed if Path(path).name.startswith("Pulumi.") and path.endswith(".yaml")]


def _text_at(commit: str, path: str, root: Path) -> str | None:
    """A file's text, or None where the commit has no such file."""
    listed = _git(root, "ls-tree", "-z", commit, "--", path).stdout
    if not listed:
        return None
    mode, kind, blob = listed.split("\t", 1)[0].split()
    if kind != "blob" or mode == "120000":
        raise NoSuchRef(_one_line(f"{path} is not a plain file at that commit"))
    found = _git(root, "cat-file", "blob", blob)
    if found.returncode != 0:
        raise NoSuchRef(_one_line(f"{path} at that commit is not in this clone: {_first_line(found.stderr)}"))
    return found.stdout


def _inside(path: Path, root: Path) -> str:
    """Relative to the root; a link is named as itself, and not followed."""
    return os.path.relpath(path.absolute(), root.absolute())


def _git(root: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run git in the repository of `root`. Raises `NoSuchRef` where there is no git or no repository."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", *arguments],
            cwd=root,
            env={**environment, **_OFFLINE},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise NoSuchRef(_one_line(f"git cannot be asked: {error}")) from None
    if done.returncode == 128 and _no_repository(done.stderr):
        raise NoSuchRef(_one_line(f"there is no git repository to compare with: {_first_line(done.stderr)}"))
    return done


def _no_repository(stderr: str) -> bool:
    return "not a git repository" in stderr or "dubious ownership" in stderr


def _first_line(stderr: str) -> str:
    return next(iter(stderr.strip().splitlines()), "git says nothing more").removeprefix("fatal: ")


def _one_line(text: str) -> str:
    return " ".join(text.split())
