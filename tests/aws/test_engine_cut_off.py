"""An `up` that is cut off while node groups are being made, and the one that goes on."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.aws.support.engine import Running, running
from tests.aws.support.stacks import base

pytestmark = [pytest.mark.aws, pytest.mark.imitation, pytest.mark.pulumi_cli, pytest.mark.timeout(900)]

GROUPS = 6
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path, "acme", "eu-west-1") as empty:
        empty.project.write("acme", base())
        yield empty


def cut_off(stack: Running, how: signal.Signals) -> int:
    """`pulumi up`, until the first node group is asked for; what it ended with."""
    command = ["pulumi", "up", "--yes", "--skip-preview", "--non-interactive", "--stack", stack.stack]
    environment = {**os.environ, **stack.project.stack(stack.stack).workspace.env_vars}
    # In a group of its own, as a terminal or a runner signals the program and not what the tests are.
    with subprocess.Popen(
        command, cwd=stack.project.folder, env=environment, stdout=subprocess.DEVNULL, start_new_session=True
    ) as begun:
        while not stack.sent("CreateNodegroup"):
            assert begun.poll() is None
            time.sleep(0.05)
        begun.send_signal(how)
        begun.wait()
        _end_plugins(begun.pid)
    return begun.returncode


def _end_plugins(session: int) -> None:
    """A killed engine leaves them running, each in a group of its own."""
    found = subprocess.run(["pgrep", "-s", str(session)], capture_output=True, text=True, check=False)
    for pid in map(int, found.stdout.split()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_an_up_that_is_interrupted_ends_what_it_began_and_the_next_one_goes_on(empty: Running) -> None:
    ended = cut_off(empty, signal.SIGINT)
    half = len(empty.project.state("acme"))

    told = empty.project.up("acme", refresh=True)

    assert ended != 0
    assert set(told.touched.values()) == {"create"}
    assert 0 < half < len(empty.project.state("acme"))
    assert len(empty.sent("CreateNodegroup")) == len(empty.node_groups()) == GROUPS
    assert empty.project.preview("acme").touched == {}


def test_an_up_that_is_killed_leaves_groups_in_aws_that_its_state_names_as_begun(empty: Running) -> None:
    """The engine kept no id of what AWS made meanwhile, and makes it again, by a name that begins alike."""
    cut_off(empty, signal.SIGKILL)
    begun = empty.project.pending("acme")
    locked = empty.project.cli("acme", "up", "--yes", "--skip-preview")
    cancelled = empty.project.cli("acme", "cancel", "--yes")

    empty.project.up("acme", refresh=True)

    assert "pulumi cancel" in locked.stdout + locked.stderr
    assert (locked.returncode == 0, cancelled.returncode) == (False, 0)
    known = {each["outputs"]["nodeGroupName"] for each in empty.project.state("acme") if each["type"] == NODE_GROUP}
    unknown = empty.node_groups().keys() - known
    assert len(known) == GROUPS
    assert unknown
    groups = {name.removesuffix("-nodes") for name, kind in begun.items() if kind == "creating"}
    assert [name for name in unknown if not name.startswith(tuple(groups))] == []
    assert empty.project.preview("acme").touched == {}
    assert empty.project.pending("acme") == begun
    empty.project.cli("acme", "refresh", "--yes", "--skip-preview", "--clear-pending-creates")
    assert empty.project.pending("acme") == {}
