"""Compare the output of `make demo` shown in the documents with a real one: `python -m tools.docs.shown PRINTED`.

The parts that are the same in every run, the rendered stack and the replay, are compared letter by letter. In the
others real processes take their time: every number but 0 may differ there, so that lost requests never pass. A line
with `…` stands for lines that are left out.
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
    """The lines that a document shows and the demo did not print, in their step. Raises `ValueError`: it shows none."""
    shown = [line for block in _BLOCK.findall(document) if _STEP.search(block) for line in _lines(block)]
    if not shown:
        raise ValueError("wanted a block of text with the demo's steps (for example 2/6 render), found none")
    there = set(_lines(printed))
    return [f"{step}: {line}" for step, line in shown if (step, line) not in there]


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Each line with its step; frames, empty lines and what is left out count for nothing."""
    step = ""
    for line in text.splitlines():
        bare = line.strip("─ ")
        if found := _STEP.fullmatch(bare):
            step = found[1]
        elif bare and bare != _LEFT_OUT and step:
            yield step, bare if step in _SAME_IN_EVERY_RUN else _without_numbers(bare)


def _without_numbers(line: str) -> str:
    masked = re.sub(r"\d+(\.\d+)?", lambda found: "0" if found[0] == "0" else "N", line)
    # A slow machine has enqueued more by the first look: "wants 2 workers" in place of "wants 1 worker".
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
