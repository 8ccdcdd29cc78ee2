"""Where the control plane's logs of a test that failed are kept."""

import re
import zlib

LONGEST = 160  # characters; file systems refuse a name from 256 bytes on


def folder_of(test: str) -> str:
    """Return a name for the test's folder. A long one ends with a checksum."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", test)
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 9]}-{zlib.crc32(test.encode()):08x}"
