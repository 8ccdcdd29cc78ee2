"""Process 1 of a shared process namespace, as the pause container is: starts one child, reaps, passes nothing on."""

import os
import subprocess
import sys

child = subprocess.Popen(sys.argv[1:])
while True:
    pid, status = os.wait()
    if pid == child.pid:
        sys.exit(os.waitstatus_to_exitcode(status) & 0xFF)
