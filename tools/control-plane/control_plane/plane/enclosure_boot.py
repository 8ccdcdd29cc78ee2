"""The first program of an enclosed pod: `python -S enclosure_boot.py FILE`, in a separate mount namespace.

It builds the pod's root folder from this machine's folders, mounts the pod's volumes, and becomes the container's
program. No module imports it, and it may import only the standard library.

The trap: an unprivileged user namespace may not bind `/` itself, since that would reveal files under mounts that it may
not remove. So each top-level folder is bound separately; if a volume needs a new folder in one, that one gets an
overlay, which leaves the machine's own folder unchanged.
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
        target = new / top.name
        if top.is_symlink():
            new.mkdir(exist_ok=True)
            target.symlink_to(top.readlink())
        elif top.is_dir():
            target.mkdir(parents=True)
            inside = [Path(volume["at"]) for volume in volumes if Path(volume["at"]).is_relative_to(top)]
            if all(path.exists() for path in inside):
                mount("--rbind", str(top), str(target))
            else:
                upper, work = layers / top.name / "upper", layers / top.name / "work"
                upper.mkdir(parents=True)
                work.mkdir()
                mount("-t", "overlay", "-o", f"lowerdir={top},upperdir={upper},workdir={work}", "overlay", str(target))
    for volume in volumes:
        target = new / volume["at"].lstrip("/")
        if not target.exists():
            target.touch() if Path(volume["from"]).is_file() else target.mkdir(parents=True)
        mount("--bind", volume["from"], str(target))
        if volume["readOnly"]:
            mount("-o", "remount,bind,ro", str(target))
    os.chroot(new)


def main(file: str) -> None:
    pod = json.loads(Path(file).read_text(encoding="utf-8"))
    build(Path(pod["root"]), pod["volumes"])
    os.chdir(pod["folder"])
    os.execvpe(pod["command"][0], pod["command"], pod["environment"])


if __name__ == "__main__":
    main(sys.argv[1])
