"""Cases of a page that take minutes each. Every finished case is a file, so an interrupted run continues from there.

The files of a page are in a folder that is named by the digest of all code and data on which their figures depend.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ebbtide.lab.simulator.trace.traces import bundled, trace_path
from ebbtide.lab.sweep.calls import Call, ended
from ebbtide.lab.sweep.sources import digest_of
from ebbtide.text.files import write_file

Document = Mapping[str, Any]


def folder_of(out: Path, module: str) -> Path:
    """`module`: with the function that plays a case."""
    return out / digest_of(module, *map(trace_path, bundled()))


def documents_of(
    function: Callable[..., Document], calls: Mapping[Path, Call], processes: int, shown: Callable[[str], None] = print
) -> list[Document]:
    """The document of each call, in their order, from its file if it exists. Raises RuntimeError."""
    missing = [path for path in calls if not path.exists()]
    for call in ended(function, [calls[path] for path in missing], processes=processes):
        path = missing[call.number]
        write_file(path, json.dumps(call.result(), indent=1) + "\n")
        shown(path.stem)
    return [json.loads(path.read_text(encoding="utf-8")) for path in calls]
