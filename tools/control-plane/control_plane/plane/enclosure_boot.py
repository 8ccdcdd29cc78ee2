"""The first program of an enclosed pod: `python -S enclosure_boot.py FILE`, in a mount namespace of its own.

It builds the pod's root folder from this machine's folders, puts the pod's volumes where the pod wants them, and
becomes the container's program. Read by no other module: it may import the standard library alone.

The trap: an unprivileged user namespace may not bind `/` as a whole, since that would show what lies under the mounts
that it is not allowed to take away. So each folder at the top is bound by itself; one in which a volume needs a new
folder is laid under an overlay, which keeps the machine's own folder as it is.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def build(root: Path, volumes: list[dict[str, Any]]) -> None:
    mount("--make-rprivate", "/")
    mount("-t", "tmpfs", "tmpfs", str(root))
    layers, new = root / ".layers", root / "pod"
    for top in Path("/").iterdir():
        place = new / top.name
        if top.is_symlink():
            new.mkdir(exist_ok=True)
            place.symlink_to(top.readlink())
        elif top.is_dir():
            place.mkdir(parents=True)
            inside = [Path(volume["at"]) for volume in volumes if Path(volume["at"]).is_relative_to(top)]
            if all(path.exists() for path in inside):
                mount("--rbind", str(top), str(place))
            else:
                upper, work = layers / top.name / "upper", layers / top.name / "work"
                upper.mkdir(parents=True)
                work.mkdir()
                mount("-t", "overlay", "-o", f"lowerdir={top},upperdir={upper},workdir={work}", "overlay", str(place))
    for volume in volumes:
        place = new / volume["at"].lstrip("/")
        if not place.exists():
            place.touch() if Path(volume["from"]).is_file() else place.mkdir(parents=True)
        mount("--bind", volume["from"], str(place))
        if volume["readOnly"]:
            mount("-o", "remount,bind,ro", str(place))
    os.chroot(new)


def main(file: str) -> None:
    said = json.loads(Path(file).read_text(encoding="utf-8"))
    build(Path(said["root"]), said["volumes"])
    os.chdir(said["folder"])
    os.execvpe(said["command"][0], said["command"], said["environment"])


if __name__ == "__main__":
    main(sys.argv[1])
