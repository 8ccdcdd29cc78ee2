"""Writes the golden files anew (`make golden`), and names those that differ from before. Arguments select by path."""

import sys
from collections.abc import Sequence

from tests.golden.listed import QUICK, SLOW, made
from tests.golden.stacks import FILES, GENERATED, SEEDS, new_stack_file


def main(wanted: Sequence[str]) -> int:
    for seed in SEEDS:
        drawn = GENERATED / f"{seed:02}.yaml"
        if not drawn.exists():
            drawn.parent.mkdir(parents=True, exist_ok=True)
            drawn.write_text(new_stack_file(seed), encoding="utf-8")
    for name in {**QUICK, **SLOW}:
        if wanted and not any(part in name for part in wanted):
            continue
        path, text = FILES / name, made(name)
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(FILES.parents[2]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
