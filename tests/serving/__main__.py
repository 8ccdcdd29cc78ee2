"""`python -m tests.serving`, with pytest's own arguments: the tests of this folder in a network of their own."""

import os
import shutil
import sys

import pytest

from tests.serving.support.network import INSIDE, is_inside, prepare

if __name__ == "__main__":
    if not is_inside():
        unshare = shutil.which("unshare")
        if unshare is None:
            sys.exit("python -m tests.serving: unshare (of util-linux) is not on PATH")
        own_user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        command = [unshare, *own_user, "--net", "--mount", "--propagation=private"]
        os.execve(
            unshare, [*command, sys.executable, "-m", "tests.serving", *sys.argv[1:]], {**os.environ, INSIDE: "yes"}
        )
    prepare()
    named = any(word.startswith("tests/") for word in sys.argv[1:])
    sys.exit(pytest.main([*([] if named else ["tests/serving"]), *sys.argv[1:]]))
