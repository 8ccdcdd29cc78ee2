"""The controller with a Lease of fewer seconds, so that hundreds of hand-overs fit into minutes.

All else is production's: the entry module runs as it is, with that one class given another duration.
"""

import sys
from functools import partial

import controllers.scaler.main as production
from controllers.adapters.lease import Lease

DURATION = 2  # seconds

if __name__ == "__main__":
    production.Lease = partial(Lease, duration=DURATION)  # pyright: ignore[reportAttributeAccessIssue] - a test's swap
    sys.exit(production.main(sys.argv[1:]))
