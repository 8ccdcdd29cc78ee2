"""Holds a worker's interpreter in mid-import when a test asks for it: leaves a mark and waits a moment."""

import os
import time
from pathlib import Path

if mark := os.environ.get("TEST_IN_IMPORT"):
    Path(mark).touch()
    time.sleep(0.5)
