"""Build the controller's image from the project's own Dockerfile: `python -m control_plane.nodes.images`."""

import sys
from pathlib import Path

from control_plane.nodes.host import missing, one_line
from control_plane.nodes.images import building
from control_plane.plane.errors import ControlPlaneError


def main() -> int:
    if lacking := missing():
        print(one_line(lacking), file=sys.stderr)
        return 1
    try:
        building.build(lambda line: print(line, flush=True), ["controller"])
        with building.unpacked("controller") as root:
            total, _ = _size(root)
            app, files = _size(root / "app")
    except ControlPlaneError as error:
        print(error, file=sys.stderr)
        return 1
    archive = building.archives()["controller"]
    print(f"{archive}: {total >> 20} MiB, of which /app {app >> 20} MiB in {files} files")
    return 0


def _size(folder: Path) -> tuple[int, int]:
    """Return bytes and number of its files."""
    sizes = [file.lstat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink()]
    return sum(sizes), len(sizes)


if __name__ == "__main__":
    sys.exit(main())
