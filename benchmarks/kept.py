"""Cases of a page that take minutes each: every one that is done is a file, so a run that was ended goes on from there.

The files of a page lie in a folder that is named by the digest of all that their figures depend on in this tree.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ebbtide.files import write_file
from ebbtide.simulator.trace.traces import bundled, bundled_path
from ebbtide.sweep.calls import Call, ended
from ebbtide.sweep.sources import digest_of

Document = Mapping[str, Any]


def folder_of(out: Path, module: str) -> Path:
    """`module`: the one with the function that plays a case."""
    return out / digest_of(module, *map(bundled_path, bundled()))


def kept(
    function: Callable[..., Document], calls: Mapping[Path, Call], processes: int, shown: Callable[[str], None] = print
) -> list[Document]:
    """What the function gives for each call, from its file if it has one, in their order. Raises RuntimeError."""
    missing = [path for path in calls if not path.exists()]
    for each in ended(function, [calls[path] for path in missing], processes=processes):
        path = missing[each.number]
        write_file(path, json.dumps(each.result(), indent=1) + "\n")
        shown(path.stem)
    return [json.loads(path.read_text(encoding="utf-8")) for path in calls]
