"""A stack file of the size that platforms have, 60 workloads and 12 pools: what a check and a preview of it take.

Both are whole processes, imports included. The preview's change touches every pod, and its comment must fit.
"""

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import Figures, spread
from tests.builders.real_size import real_size_text

_COMMAND = (sys.executable, "-c", "from ebbtide.cli.__main__ import main; main()")
_PREVIEW = ("preview", "acme", "--against", "HEAD", "--format", "markdown")
_MOST = 64_000  # characters, a little less than a comment holds
_ENDS = {"check": (0,), "preview": (0, 1)}


def measured(runs: int = 3) -> dict[str, Figures]:
    with TemporaryDirectory() as place:
        root = Path(place)
        _repository(root)
        checks = [_timed(root, "check", "acme")[0] for _ in range(runs + 1)]
        previews = [_timed(root, *_PREVIEW) for _ in range(runs)]
    length = len(previews[0][1])
    if length > _MOST or "service-01" not in previews[0][1]:
        raise AssertionError(f"no comment that fits: {length} characters\n{previews[0][1][:500]}")
    return {
        "real_size_check_wall_s": spread(checks[1:]),
        "real_size_preview_wall_s": spread([seconds for seconds, _ in previews]),
        "real_size_comment_characters": {"value": length},
    }


def _timed(root: Path, *arguments: str) -> tuple[float, str]:
    """Wall seconds, and what it printed."""
    began = time.perf_counter()
    done = subprocess.run([*_COMMAND, *arguments], cwd=root, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode not in _ENDS[arguments[0]]:
        raise AssertionError(
            f"{' '.join(arguments)} ended with {done.returncode}\n{done.stdout[:500]}{done.stderr[-500:]}"
        )
    return seconds, done.stdout


def _repository(root: Path) -> None:
    """What is committed, and in the folder another image and another variable everywhere."""
    path = root / "stacks" / "Pulumi.acme.yaml"
    path.parent.mkdir()
    text = real_size_text()
    path.write_text(text, encoding="utf-8")
    author = ("-c", "user.name=bench", "-c", "user.email=bench@example.com")
    for arguments in (("init", "--quiet"), ("add", "."), (*author, "commit", "--quiet", "--message", "before")):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    path.write_text(text.replace("LOG_LEVEL: info", "LOG_LEVEL: debug").replace(":1.4.", ":1.5."), encoding="utf-8")
