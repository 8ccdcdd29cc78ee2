"""One virtual environment per job framework, because their requirements differ: kombu and RQ each bound redis-py.

`python tests/backends/environments.py [NAME…]` builds what is missing. A build is done once per content of its lock
file and interpreter; a changed lock builds the environment anew. The project itself is not installed there: its
workers find `ebbtide.jobs` by PYTHONPATH, as it needs nothing but the framework.
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from tests.paths import ROOT

NAMES = ("rq", "rq2", "celery", "celery-sqs", "list")


class NoEnvironment(RuntimeError):
    """The environment of a framework cannot be built here; the message is one line."""


def environment(name: str, home: Path | None = None) -> Path:
    """The folder of the framework's programs, built in `home` (default: `.venvs`) if it is not there yet."""
    lock = ROOT / "tools" / "locks" / f"backend-{name}.txt"
    home = home or ROOT / ".venvs" / name
    home.parent.mkdir(parents=True, exist_ok=True)
    with home.with_name(f"{home.name}.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # test processes that build it at once would break it
        stamp = home / "built-from"
        wanted = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()
        if not (stamp.exists() and stamp.read_text() == wanted):
            shutil.rmtree(home, ignore_errors=True)
            _run(name, sys.executable, "-m", "venv", str(home))
            pip = (str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
            _run(name, *pip, "--require-hashes", "--requirement", str(lock))
            stamp.write_text(wanted)
    return home / "bin"


def _run(name: str, *command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        last = str(said).strip().splitlines()[-1:] or ["no output"]
        raise NoEnvironment(f"the environment of {name} could not be built: {last[0]}") from error


def main(names: list[str]) -> int:
    try:
        for name in names or NAMES:
            print(environment(name))
    except NoEnvironment as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
