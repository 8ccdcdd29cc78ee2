"""Compare the output of `make demo` shown in the documents with a real one: `python -m tools.docs.shown PRINTED`.

The rendered stack and the replay are the same in every run and compared exactly. In the other steps real processes run:
every number but 0 may differ there, so that lost requests never pass. A line with `…` stands for omitted lines.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", "docs/tutorial/first-stack.md")

_BLOCK = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_STEP = re.compile(r"\d/6 (\w+)")
_SAME_IN_EVERY_RUN = {"render", "replay"}
_LEFT_OUT = "…"


def differences(document: str, printed: str) -> list[str]:
    """Return a document's lines that the demo did not print, with their step. Raises `ValueError` if it has none."""
    shown = [line for block in _BLOCK.findall(document) if _STEP.search(block) for line in _lines(block)]
    if not shown:
        raise ValueError("wanted a block of text with the demo's steps (for example 2/6 render), found none")
    output = set(_lines(printed))
    return [f"{step}: {line}" for step, line in shown if (step, line) not in output]


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield each line with its step, without frames, empty lines and omissions; spaces that never break are spaces."""
    step = ""
    for line in text.replace("\u00a0", " ").splitlines():
        bare = line.strip("─ ")
        if match := _STEP.fullmatch(bare):
            step = match[1]
        elif bare and bare != _LEFT_OUT and step:
            yield step, bare if step in _SAME_IN_EVERY_RUN else _without_numbers(bare)


def _without_numbers(line: str) -> str:
    masked = re.sub(r"\d+(\.\d+)?", lambda match: "0" if match[0] == "0" else "N", line)
    # On a slow machine more jobs wait at the first look: "wants 2 workers" instead of "wants 1 worker".
    return " ".join(masked.replace("N workers", "N worker").split())


def main(arguments: Sequence[str]) -> int:
    printed = Path(arguments[0]).read_text(encoding="utf-8")
    wrong = [
        f"{name}: the demo does not print this line of the step {line}"
        for name in DOCUMENTS
        for line in differences((ROOT / name).read_text(encoding="utf-8"), printed)
    ]
    for line in wrong:
        print(line, file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
