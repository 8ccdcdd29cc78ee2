"""containerd's folder with all images, created once; each node begins with a copy.

Unpacking takes seconds per image and node, a copy by hard links a moment. Hard links are safe because only the
databases are ever changed in place, and these are copied in full.
"""

import hashlib
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from control_plane.nodes.files import containerd
from control_plane.nodes.images.building import folder, locked
from control_plane.nodes.run import run

_KEPT = 2


def store_of(archives: Mapping[str, Path]) -> Path:
    """Return the folder of these images."""
    content = hashlib.sha256("\n".join(sorted(path.name for path in archives.values())).encode())
    return folder() / "stores" / content.hexdigest()[:16]


def prepare(tell: Callable[[str], None], archives: Mapping[str, Path]) -> Path:
    """Return the folder, and create it if it is missing. Raises `Failed`."""
    store = store_of(archives)
    if store.exists():
        return store
    store.parent.mkdir(parents=True, exist_ok=True)
    with locked(store.parent / "lock"):
        if store.exists():
            return store
        begun = time.monotonic()
        unfinished = store.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        _fill(unfinished, archives.values())
        unfinished.rename(store)
        by_age = sorted(store.parent.glob("?" * 16), key=lambda path: path.stat().st_mtime)
        for former in by_age[:-_KEPT]:
            shutil.rmtree(former, ignore_errors=True)
        tell(f"put the images into a store in {time.monotonic() - begun:.0f} s")
    return store


def copy(store: Path, target: Path) -> None:
    """Copy for one node, on the same file system."""
    target.mkdir(parents=True)
    run(["cp", "-al", f"{store}/.", str(target)])
    for database in target.rglob("*.db"):
        copied = database.with_suffix(".own")
        shutil.copy(database, copied)
        copied.replace(database)


def _fill(store: Path, archives: Iterable[Path]) -> None:
    """Fill it in a separate mount namespace, in which containerd's folder has the same path as on a node."""
    config = store.with_suffix(".toml")
    config.write_text(containerd(str(store.parent), serves_pods=False))
    script = Path(__file__).with_name("fill.sh")
    namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    try:
        run([*namespaces, "bash", str(script), str(config), str(store), *map(str, archives)])
    finally:
        config.unlink(missing_ok=True)
        shutil.rmtree(f"{store}.lib", ignore_errors=True)
        Path(f"{store}.log").unlink(missing_ok=True)
