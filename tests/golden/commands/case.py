"""Record a command as text: its output at three widths, its JSON, its requests and the files that it writes."""

import os
import re
import shlex
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TypeVar
from unittest.mock import patch

from typer.testing import CliRunner

from ebbtide.cli.__main__ import app

_T = TypeVar("_T")

WIDTHS = (60, 80, 140)
_LONG = 6_000  # characters of a written file: of longer ones a digest suffices
_ENVIRONMENT: Mapping[str, str | None] = {
    "TERM": "xterm",
    "HOME": "/home/me",
    **dict.fromkeys(
        ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "TTY_COMPATIBLE", "EBBTIDE_PRICES", "EBBTIDE_CONTROLLER_URL")
    ),
}
_FRACTION = re.compile(r"(?<![\w.])-?\d+\.\d{10,}(e-?\d+)?(?![\w.])")
Stage = Callable[[], AbstractContextManager[Sequence[object]]]
"""Stand-ins for the cluster, Prometheus and AWS; the value lists the changes that they received."""


def nothing() -> AbstractContextManager[Sequence[object]]:
    return nullcontext(())


def replaced(replacements: Mapping[str, object], stage: Stage = nothing) -> Stage:
    """Put something else for parts of the product, by their paths, on a stage."""

    @contextmanager
    def both() -> Generator[Sequence[object]]:
        with ExitStack() as stack:
            sent = stack.enter_context(stage())
            for target, replacement in replacements.items():
                stack.enter_context(patch(target, replacement))
            yield sent

    return both


def returns(value: _T) -> Callable[..., _T]:
    def answer(*_: object) -> _T:
        return value

    return answer


@dataclass(frozen=True, kw_only=True)
class Case:
    """Command lines that run one after another in one folder, at each width in a new one.

    `json` are further lines, run once. `written` are the files and folders that the lines write.
    """

    lines: Sequence[str]
    json: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    stage: Stage = nothing
    written: Sequence[str] = ()
    widths: Sequence[int] = WIDTHS
    answers: str | None = None  # what somebody types
    colors: bool = False  # as a terminal shows them

    def text(self) -> str:
        runs = [self._run(self.lines, width) for width in self.widths]
        parts = list[str]()
        for place, line in enumerate(self.lines):
            parts += [f"$ ebbtide {line}\n", *_by_width(self.widths, [outputs[place] for outputs, _ in runs])]
        after = runs[-1][1]
        if self.json:
            outputs, after = self._run(self.json, WIDTHS[-1])
            parts += [f"$ ebbtide {line}\n{output}" for line, output in zip(self.json, outputs, strict=True)]
        return "\n".join([*parts, *after])

    def _run(self, lines: Sequence[str], width: int) -> tuple[list[str], list[str]]:
        """The output of each line, and what all of them sent and wrote."""
        with new_folder() as folder, self.stage() as sent:
            for path, text in self.files.items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(text, encoding="utf-8")
            environment = {**_ENVIRONMENT, "COLUMNS": str(width), **({"FORCE_COLOR": "1"} if self.colors else {})}
            outputs = [_output(line, environment, self.answers, folder) for line in lines]
            changes = ["--- sent\n" + "".join(f"{change}\n" for change in sent)] if sent else []
            return outputs, [*changes, *(text for path in self.written for text in _files(folder / path, folder))]


@contextmanager
def new_folder() -> Generator[Path]:
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="golden-") as name:
        os.chdir(name)
        try:
            yield Path(name).resolve()
        finally:
            os.chdir(before)


def _output(line: str, environment: Mapping[str, str | None], answers: str | None, folder: Path) -> str:
    """Paths of the machine must not be shown: their length would decide where lines wrap."""
    result = CliRunner(env=environment).invoke(
        app, shlex.split(line), answers, catch_exceptions=False, prog_name="ebbtide"
    )
    code = f"exit code {result.exit_code}\n" if result.exit_code else ""
    errors = f"--- stderr\n{result.stderr}" if result.stderr else ""
    return _stable(f"{code}{result.stdout}{errors}", folder)


def _stable(text: str, folder: Path) -> str:
    """Without the folder, and of long fractions what every Python adds up alike."""
    return _FRACTION.sub(lambda match: f"{float(match[0]):.10g}", text.replace(f"{folder}/", "").replace("\x1b", "␛"))


def _by_width(widths: Sequence[int], outputs: Sequence[str]) -> Iterator[str]:
    """Equal outputs once."""
    for output in dict.fromkeys(outputs):
        same = [str(width) for width, other in zip(widths, outputs, strict=True) if other == output]
        yield f"--- {' and '.join(same)} columns\n{output}"


def _files(path: Path, folder: Path) -> Iterator[str]:
    if path.is_dir():
        for inner in sorted(path.iterdir()):
            yield from _files(inner, folder)
        return
    if not path.exists():
        yield f"--- {path.relative_to(folder)}\nnot written\n"
        return
    content = path.read_bytes()
    text = "" if path.suffix in {".html", ".whl"} else _stable(content.decode("utf-8"), folder)
    long = not text or len(text) > _LONG
    shown = f"sha256 {sha256(text.encode() if text else content).hexdigest()[:16]}\n" if long else text
    yield f"--- {path.relative_to(folder)}\n{shown}"
