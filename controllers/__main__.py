"""Entry point of the scaler."""

import sys

from controllers.scaler.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
