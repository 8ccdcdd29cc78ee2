"""Build the control plane's programs into the cache: `python tools/control-plane/build.py`. Needs Go, once."""

import sys

from control_plane.binaries import MissingBinaries, binaries, build


def main() -> int:
    try:
        build(lambda line: print(line, flush=True))
        for program, path in binaries().items():
            print(f"{program:24} {path}")
    except MissingBinaries as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
