"""Run programs that must succeed; otherwise one line names the program and the reason."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from control_plane.plane.errors import ControlPlaneError


class Failed(ControlPlaneError):
    pass


def run(command: Sequence[str], *, folder: Path | None = None, environment: Mapping[str, str] | None = None) -> str:
    """Return its output. Raises `Failed`."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise Failed(f"real nodes: {command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise Failed(f"real nodes: {' '.join(command[:4])}… failed: {' / '.join(lines[-3:]) or 'no output'}")
    return done.stdout
