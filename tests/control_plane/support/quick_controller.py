"""The controller with a Lease of fewer seconds, so that hundreds of hand-overs fit into minutes.

All else is production's: the entry module runs unchanged, with that one class given another duration.
"""

import sys
from functools import partial

from controllers import process
from controllers.adapters.lease import Lease
from controllers.scaler.main import main

DURATION = 2  # seconds

if __name__ == "__main__":
    process.Lease = partial(Lease, duration=DURATION)  # pyright: ignore[reportAttributeAccessIssue] - a test's swap
    sys.exit(main(sys.argv[1:]))
