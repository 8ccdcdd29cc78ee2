"""Entry point of the exporter."""

import sys

from controllers.exporter.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
