"""Entry point of the workload controller."""

import sys

from controllers.workloads.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
