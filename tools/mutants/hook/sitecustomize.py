"""Put the fault into a Python program that a test starts."""

import json
import os
from pathlib import Path

from tools.mutants.fault import FAULT, load_with_fault
from tools.mutants.sites import Site

root, module, site = json.loads(os.environ[FAULT])
load_with_fault(Path(root), module, Site(**site))
