"""Names the golden files that differ from what the code makes; `--accept` (`make golden`) writes them again."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.golden.listed import LONG, QUICK, SLOW, made
from tests.golden.stacks import FILES, GENERATED, SEEDS, new_stack_file


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("--accept", action="store_true", help="write the files that differ")
    parser.add_argument("parts", nargs="*", help="only files with one of these in their path, such as commands/ledger")
    options = parser.parse_args()
    names = [name for name in {**QUICK, **LONG, **SLOW} if _is_chosen(name, options.parts)]
    if not names:
        parser.error(f"no golden file has {' or '.join(options.parts)} in its path")
    if options.accept:
        _draw()
    different = False
    for path, text in _different(names):
        different = True
        print(path.relative_to(FILES.parents[2]), flush=True)
        if options.accept:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return int(different and not options.accept)


def _is_chosen(name: str, parts: Sequence[str]) -> bool:
    return not parts or any(part in name for part in parts)


def _different(names: Sequence[str]) -> Iterator[tuple[Path, str]]:
    for name in names:
        path, text = FILES / name, made(name)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            yield path, text


def _draw() -> None:
    for seed in SEEDS:
        drawn = GENERATED / f"{seed:02}.yaml"
        if not drawn.exists():
            drawn.parent.mkdir(parents=True, exist_ok=True)
            drawn.write_text(new_stack_file(seed), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
