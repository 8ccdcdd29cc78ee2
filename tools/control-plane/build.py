"""Build the control plane's programs into the cache: `python tools/control-plane/build.py`. Needs Go, once."""

import sys

from control_plane.binaries import binaries, build
from control_plane.errors import ControlPlaneError


def main() -> int:
    try:
        build(lambda line: print(line, flush=True))
        for program, path in binaries().items():
            print(f"{program:24} {path}")
    except ControlPlaneError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: what was built stays, the rest is built next time", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
