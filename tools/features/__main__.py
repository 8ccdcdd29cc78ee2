"""The commands of `tools.features`."""

import sys
import tempfile
from pathlib import Path

from tools.features import CannotApply, copy_to, features, refresh

if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["refresh"]):
        sys.exit("usage: python -m tools.features [refresh]")
    for feature in features():
        if sys.argv[1:]:
            with tempfile.TemporaryDirectory() as folder:
                copy_to(Path(folder))
                try:
                    refresh(feature, Path(folder))
                except CannotApply as error:
                    sys.exit(f"{error}\nwrite this patch again by hand")
        print(f"{feature.name}: {len(feature.files)} files: {', '.join(feature.files)}")
