"""An isolated network namespace for the driver and everything it starts, with a bridge to the nodes.

Only threads and processes that the entering thread starts later are in it. So a test session enters on its main thread
before anything else runs, after all builds that need the internet.
"""

import ctypes
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from control_plane.nodes.run import Failed, run

HOST = "10.99.0.1"  # the driver's, where control plane and DNS listen
SERVICES = "10.96.0.0/16"
PODS = "10.244.0.0/16"
_BRIDGE = "nodes"
_CLONE_NEWNET = 0x40000000


def address(number: int) -> str:
    return f"10.99.0.{10 + number}"


def pods_of(number: int) -> str:
    return f"10.244.{number}.0/24"


@contextmanager
def entered() -> Generator[None]:
    """Enter the namespace. Raises `Failed`."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/thread-self/ns/net").open("rb") as outside:
        if libc.unshare(_CLONE_NEWNET) != 0:
            raise Failed(f"real nodes: no network namespace: {os.strerror(ctypes.get_errno())}")
        try:
            _lay_out()
            yield
        finally:
            libc.setns(outside.fileno(), _CLONE_NEWNET)


def connect(number: int, pid: int) -> None:
    """Connect the bridge to `eth0` in the process' namespace, which the node itself configures."""
    cable = _cable(number)
    run(["ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", str(pid)])
    run(["ip", "link", "set", cable, "master", _BRIDGE, "up"])
    run(["ip", "route", "replace", pods_of(number), "via", address(number)])


def unplug(number: int) -> None:
    run(["ip", "link", "set", _cable(number), "down"])


def plug_in(number: int) -> None:
    run(["ip", "link", "set", _cable(number), "up"])


def disconnect(number: int) -> None:
    """Delete the cable, which the kernel removes with the namespace at its other end, but only later."""
    with suppress(Failed):
        run(["ip", "link", "delete", _cable(number)])


def is_separate(pid: int) -> bool:
    """Return True if the process is in another network namespace than this one."""
    return Path(f"/proc/{pid}/ns/net").readlink() != Path("/proc/thread-self/ns/net").readlink()


def _cable(number: int) -> str:
    return f"node{number}"


def _lay_out() -> None:
    run(["ip", "link", "set", "lo", "up"])
    run(["ip", "link", "add", _BRIDGE, "type", "bridge"])
    run(["ip", "address", "add", f"{HOST}/24", "dev", _BRIDGE])
    run(["ip", "link", "set", _BRIDGE, "up"])
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")  # from one node's pods to another's
